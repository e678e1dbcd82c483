package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ChatRequest is the body of POST /api/chat. Fields that are not here are ignored.
type ChatRequest struct {
	// Model is a name as GET /api/tags lists it; the tag latest may be left out or added.
	Model string `json:"model"`
	// Messages are Message values, at most 100,000. Without any the model is only loaded.
	Messages []json.RawMessage `json:"messages" max:"100000"`
	// Tools are Tool values, at most 1,024.
	Tools []json.RawMessage `json:"tools" max:"1024"`
	// Truncate leaves out the oldest messages where all do not fit into the context, as is done where it is left
	// out; false refuses the request.
	Truncate *bool `json:"truncate"`
	Common
}

// GenerateRequest is the body of POST /api/generate.
type GenerateRequest struct {
	Model string `json:"model"`
	// Prompt is what the user says, or with Raw the whole prompt. Without it the model is only loaded.
	Prompt string `json:"prompt"`
	// System is the system prompt.
	System string `json:"system"`
	// Raw gives the prompt to the model as it is, with the names of control tokens in it as these tokens.
	Raw bool `json:"raw"`
	// Suffix, Template, Context and Images are refused.
	Suffix   string            `json:"suffix"`
	Template string            `json:"template"`
	Context  []json.RawMessage `json:"context"`
	Images   []json.RawMessage `json:"images"`
	Common
}

// Common are the fields that both kinds of request have.
type Common struct {
	// Stream is true where it is left out: the answer comes as lines of JSON.
	Stream *bool `json:"stream"`
	// Think is true, or minimal, low, medium, high, xhigh or max, to see the reasoning. False skips it. Left out, the
	// model reasons unseen.
	Think json.RawMessage `json:"think"`
	// Format is "json" for any object, or a JSON Schema.
	Format json.RawMessage `json:"format"`
	// Options is an Options value.
	Options json.RawMessage `json:"options"`
	// KeepAlive is a duration ("5m") or seconds. 0 unloads the model when nobody uses it any more; beside that the
	// server keeps models by its own rules.
	KeepAlive json.RawMessage `json:"keep_alive"`
	// Logprobs asks for the log probabilities of the answer's tokens, TopLogprobs for 0 to 20 alternatives of each.
	Logprobs    bool  `json:"logprobs"`
	TopLogprobs int64 `json:"top_logprobs"`

	// unknown lists unknown fields about reasoning.
	unknown []string
}

// Note implements [wire.Noter].
func (c *Common) Note(body []byte) { c.unknown = contract.Unknown(body, "think") }

// Options are those of Ollama's options that are honoured. Whole numbers may be written with a fraction of zero.
type Options struct {
	// NumPredict is the most tokens to generate, reasoning included; 0 and less are what the context holds.
	NumPredict *float64 `json:"num_predict"`
	// NumCtx is ignored: the context is the server's. One that is larger gives a warning.
	NumCtx *float64 `json:"num_ctx"`
	// Temperature is 0 to 2; 0 always takes the likeliest token.
	Temperature *float64 `json:"temperature"`
	// TopK keeps the k likeliest tokens; 0 and less keep all.
	TopK *float64 `json:"top_k"`
	// TopP, MinP and TypicalP are 0 to 1.
	TopP     *float64 `json:"top_p"`
	MinP     *float64 `json:"min_p"`
	TypicalP *float64 `json:"typical_p"`
	// Seed makes a run repeatable; negative draws one.
	Seed *float64 `json:"seed"`
	// Stop is a string, or a list of at most 16, of 1 to 1,024 bytes each. They end the answer.
	Stop json.RawMessage `json:"stop"`
	// RepeatPenalty is 0 to 10, PresencePenalty and FrequencyPenalty are -2 to 2.
	RepeatPenalty    *float64 `json:"repeat_penalty"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	// RepeatLastN is how many of the last visible tokens the penalties count; -1 is all of them, 0 turns penalties off.
	RepeatLastN *float64 `json:"repeat_last_n"`
}

// The limits of a request. The server limits its length.
const (
	maxMessages = 100_000
	maxTools    = 1024
	maxTop      = 20
)

// prompt is a decoded request.
type prompt struct {
	req  generation.Request
	head head
	// stream asks for a stream, empty for no answer, and unload for unloading the model.
	stream, empty, unload bool
	// context is the size of the context in tokens that the client asks for; 0 if it does not.
	context int
	// truncate allows to leave out the oldest messages.
	truncate bool
}

func (a *API) decodeChat(who *wire.Principal, body *ChatRequest) (*prompt, error) {
	p := &prompt{
		req: a.cfg.Defaults, empty: len(body.Messages) == 0, head: head{chat: true},
		truncate: body.Truncate == nil || *body.Truncate,
	}
	p.req.Visibility = who.Default(p.req.Visibility)
	if err := p.common(&body.Common); err != nil {
		return nil, err
	}
	if err := p.tools(body.Tools); err != nil {
		return nil, err
	}
	return p, p.history(body.Messages)
}

func (a *API) decodeGenerate(who *wire.Principal, body *GenerateRequest) (*prompt, error) {
	p := &prompt{req: a.cfg.Defaults, empty: body.Prompt == ""}
	p.req.Visibility = who.Default(p.req.Visibility)
	if err := p.common(&body.Common); err != nil {
		return nil, err
	}
	switch {
	case body.Suffix != "":
		return nil, wire.Unsupported("suffix", "text around a gap cannot be asked for; give the text before it as a raw "+
			"prompt")
	case body.Template != "":
		return nil, wire.Unsupported("template",
			"a request cannot replace the model's template; start the server with --chat-template, or give a raw prompt")
	case len(body.Context) > 0:
		return nil, wire.Unsupported("context", "this server gives no context; send the conversation to /api/chat")
	case len(body.Images) > 0:
		return nil, wire.Unsupported("images", "local models take text")
	}
	if body.Raw {
		switch {
		case body.System != "":
			return nil, wire.Invalid("system", "a raw prompt leaves no place for it")
		case wire.Given(body.Think):
			return nil, wire.Invalid("think", "a raw prompt leaves no place for it: what the model writes comes as it is")
		}
		p.req.Prompt, p.req.PromptSpecial = body.Prompt, true
		// The server's defaults for these are for messages.
		p.req.Strategy, p.req.Visibility = "", reasoning.VisibilityNone
		return p, who.MayPromptRaw("raw")
	}
	if body.System != "" {
		p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.System, Content: body.System})
	}
	p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.User, Content: body.Prompt})
	return p, nil
}

func (p *prompt) common(body *Common) error {
	p.stream = body.Stream == nil || *body.Stream
	for _, field := range body.unknown {
		p.head.warnings = append(p.head.warnings, Warning{Code: contract.CodeIgnored, Message: contract.Ignored(field)})
	}
	if err := p.think(body.Think); err != nil {
		return err
	}
	if err := p.format(body.Format); err != nil {
		return err
	}
	if body.TopLogprobs < 0 || body.TopLogprobs > maxTop {
		return wire.Invalid("top_logprobs", "it takes a whole number from 0 to %d", maxTop)
	}
	if body.Logprobs {
		p.req.Logprobs, p.req.Sampling.TopLogprobs = true, int(body.TopLogprobs)
	}
	keep, err := readKeepAlive(body.KeepAlive)
	if err != nil {
		return err
	}
	p.unload = wire.Given(body.KeepAlive) && keep == 0
	if !wire.Given(body.Options) {
		return nil
	}
	var o Options
	if err := wire.UnmarshalAt("options", body.Options, &o); err != nil {
		return err
	}
	return p.options(&o)
}

// think reads how much the model reasons and whether the reasoning is shown.
func (p *prompt) think(raw json.RawMessage) error {
	switch strings.TrimSpace(string(raw)) {
	case "", "null":
	case "false":
		p.req.Visibility, p.req.Effort = reasoning.VisibilityNone, reasoning.EffortNone
	case "true":
		p.req.Visibility = reasoning.VisibilityFull
	case `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`:
		p.req.Visibility = reasoning.VisibilityFull
		p.req.Effort, _ = reasoning.ParseEffort(string(bytes.Trim(raw, "\" \t\r\n"))) // it knows all of these
	default:
		return wire.Invalid("think", "it takes true, false, minimal, low, medium, high, xhigh or max")
	}
	return nil
}

func (p *prompt) format(raw json.RawMessage) error {
	switch text := bytes.TrimSpace(raw); {
	case !wire.Given(raw), string(text) == `""`:
	case string(text) == `"json"`:
		p.req.Form = grammar.AnyObject()
	case text[0] == '{':
		p.req.Form = grammar.JSONSchema(raw)
	default:
		return wire.Invalid("format", `it takes "json" or a JSON Schema`)
	}
	return nil
}

// readKeepAlive reads a duration or a number of seconds. A negative one means forever.
func readKeepAlive(raw json.RawMessage) (time.Duration, error) {
	if !wire.Given(raw) {
		return 0, nil
	}
	var seconds float64
	var text string
	if json.Unmarshal(raw, &seconds) == nil {
		return time.Duration(min(seconds, math.MaxInt64/2e9) * float64(time.Second)), nil
	}
	if json.Unmarshal(raw, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
	}
	return 0, wire.Invalid("keep_alive", `it takes a duration, for instance "5m", or a number of seconds`)
}

func (p *prompt) options(o *Options) error {
	s := &p.req.Sampling
	set := func(to *float32, v *float64, name string, low, high float64) error {
		return wire.ReadNumber("options."+name, v, low, high, to)
	}
	var predict, topK, last, seed int64 = 0, int64(s.TopK), int64(s.PenaltyWindow), -1
	var context int64
	if err := errors.Join(
		wire.ReadTemperature("options.temperature", o.Temperature, &s.Temperature),
		wire.ReadTopP("options.top_p", o.TopP, &s.TopP), set(&s.MinP, o.MinP, "min_p", 0, 1),
		set(&s.TypicalP, o.TypicalP, "typical_p", 0, 1),
		set(&s.RepetitionPenalty, o.RepeatPenalty, "repeat_penalty", 0, 10),
		set(&s.PresencePenalty, o.PresencePenalty, "presence_penalty", -2, 2),
		set(&s.FrequencyPenalty, o.FrequencyPenalty, "frequency_penalty", -2, 2),
		whole(&predict, o.NumPredict, "num_predict"), whole(&context, o.NumCtx, "num_ctx"), whole(&topK, o.TopK, "top_k"),
		whole(&last, o.RepeatLastN, "repeat_last_n"), whole(&seed, o.Seed, "seed"),
	); err != nil {
		return err
	}
	if o.NumPredict != nil {
		p.req.MaxTokens = clamp(predict)
	}
	s.TopK, p.context = clamp(topK), clamp(context)
	if seed >= 0 {
		fixed := uint64(seed)
		p.req.Seed = &fixed
	}
	s.PenaltyWindow = clamp(last)
	if o.RepeatLastN != nil && last == 0 {
		s.RepetitionPenalty, s.PresencePenalty, s.FrequencyPenalty = 0, 0, 0
	}
	return p.stop(o.Stop)
}

// clamp limits a number to the counts from 0 to MaxInt32.
func clamp(n int64) int { return int(max(0, min(n, math.MaxInt32))) }

// whole reads a whole number that may be written as a float into to. If there is none, to stays as it is.
func whole(to *int64, v *float64, name string) error {
	if v == nil {
		return nil
	}
	if *v != math.Trunc(*v) || math.Abs(*v) > 1<<53 {
		return wire.Invalid("options."+name, "it takes a whole number")
	}
	*to = int64(*v)
	return nil
}

func (p *prompt) stop(raw json.RawMessage) error {
	if !wire.Given(raw) {
		return nil
	}
	if err := wire.AtMost("options.stop", raw, wire.MaxStops); err != nil && bytes.TrimSpace(raw)[0] != '"' {
		return err
	}
	var list []string
	if one := bytes.TrimSpace(raw); one[0] == '"' {
		list = make([]string, 1)
		if err := wire.UnmarshalAt("options.stop", raw, &list[0]); err != nil {
			return err
		}
	} else if err := wire.UnmarshalAt("options.stop", raw, &list); err != nil {
		return err
	}
	if len(list) > 0 {
		p.req.Stop = list
	}
	return wire.CheckStops("options.stop", list)
}
