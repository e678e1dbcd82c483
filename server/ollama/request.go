package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/server/wire"
)

// ChatRequest is the body of POST /api/chat.
//
//openapi:request OllamaChatRequest
type ChatRequest struct {
	// The conversation.
	Messages []json.RawMessage `json:"messages" api:"[..100000]#OllamaMessage"`
	// The tools that the model may call.
	Tools []json.RawMessage `json:"tools" api:"[..1024]#OllamaTool"`
	// If the messages do not fit into the context, leave out the oldest and give the warning `input_truncated`. System
	// messages and the beginning and end of the last turn are kept. False refuses the request.
	Truncate *bool `json:"truncate" api:"default=true"`
	Common
}

// GenerateRequest is the body of POST /api/generate.
//
//openapi:request OllamaGenerateRequest
type GenerateRequest struct {
	// What the user says. With `raw`, the whole prompt.
	Prompt string `json:"prompt" api:"default="`
	// The system prompt. Refused with `raw`.
	System string `json:"system"`
	// Give the prompt to the model as it is. Names of control tokens in it are read as control tokens. `think` is
	// refused.
	Raw bool `json:"raw" api:"default=false"`
	// The text after a gap that the model fills in, if its vocabulary has tokens for that. `prompt` is the text before it.
	Suffix string `json:"suffix"`
	// Refused unless it is empty. Use `--chat-template` of the server.
	Template string `json:"template" api:"[..0]" refuse:"start the server with --chat-template"`
	// Refused unless it is empty. Send the conversation to `/api/chat`.
	Context []json.RawMessage `json:"context" api:"array[..0]" refuse:"send the conversation to /api/chat"`
	// Refused unless it is empty: models here read only text.
	Images []json.RawMessage `json:"images" api:"array[..0]" refuse:"local models take text"`
	Common
}

// Common has the fields of both ChatRequest and GenerateRequest.
//
//openapi:request OllamaRequest
type Common struct {
	wire.Unread
	Model string `json:"model" api:"#OllamaModelName required"`
	// Send the answer as lines of JSON while it is generated.
	Stream *bool `json:"stream" api:"default=true"`
	// True shows the reasoning. An effort shows it too and sets how much the model reasons (`xhigh` and `max` mean
	// `high`). False skips the reasoning. If this is left out, the model reasons and the reasoning is hidden.
	Think json.RawMessage `json:"think" api:"boolean|=minimal,low,medium,high,xhigh,max"`
	// The form of the answer: `json` for any JSON object, or a JSON Schema. A schema that cannot be enforced exactly is
	// refused.
	Format  json.RawMessage `json:"format" api:"=,json|{}"`
	Options Options         `json:"options"`
	// A duration (`5m`) or a number of seconds. 0 unloads the model after the answer, or at once if there is no prompt,
	// as soon as nobody else uses it. That requires the permission `models` too. Other values have no effect: the server
	// unloads models by its own rules (`--keep-alive`).
	KeepAlive json.RawMessage `json:"keep_alive" api:"string|number"`
	// Return the log probabilities of the answer's tokens.
	Logprobs bool `json:"logprobs" api:"default=false"`
	// How many of the likeliest tokens to return at each position, with `logprobs`.
	TopLogprobs int64 `json:"top_logprobs" api:"[0..20] default=0"`
}

// Options are the options of Ollama that have an effect here.
//
// How tokens are chosen. Options that are left out have the server's values (`--temperature` and others). Options about
// loading have no effect. Whole numbers may be written with a fraction of zero.
//
//openapi:request OllamaOptions
type Options struct {
	// The maximum number of tokens to generate, including reasoning. 0 and negative numbers generate as many as the
	// context holds.
	NumPredict *float64 `json:"num_predict" api:"integer" of:"MaxTokens"`
	// No effect: the server sets the size of the context (`--ctx-size`). A larger number gives the warning `num_ctx`.
	NumCtx *float64 `json:"num_ctx" api:"integer"`
	wire.Sampling
	// Keep only this many of the likeliest tokens. 0 and negative numbers keep all.
	TopK *float64 `json:"top_k" api:"integer"`
	// Makes the answer repeatable. A random seed is used if this is negative or left out.
	Seed *float64 `json:"seed" api:"integer[-9007199254740992..9007199254740992]"`
	// The answer ends before the first of these texts.
	Stop json.RawMessage `json:"stop" api:"string[1..1024]|[..16]string[1..1024]" of:"Stop"`
	// Divides the logits of tokens that were already generated. 1 turns this off.
	RepeatPenalty *float64 `json:"repeat_penalty" api:"[0..10]" sets:"Sampling.RepetitionPenalty"`
	// The penalties count only this many of the last visible tokens. -1 counts all generated tokens, 0 turns the
	// penalties off.
	RepeatLastN *float64 `json:"repeat_last_n" api:"integer"`
}

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
	// gap is the gap that the model fills in; nil if there is none.
	gap *wire.Gap
}

func (a *API) decodeChat(who *wire.Principal, body *ChatRequest) (*prompt, error) {
	p := &prompt{
		req: a.cfg.Request(who), empty: len(body.Messages) == 0, head: head{chat: true},
		truncate: body.Truncate == nil || *body.Truncate,
	}
	return p, cmp.Or(p.common(&body.Common), p.tools(body.Tools), p.history(body.Messages))
}

func (a *API) decodeGenerate(who *wire.Principal, body *GenerateRequest) (*prompt, error) {
	p := &prompt{req: a.cfg.Request(who), empty: body.Prompt == "" && body.Suffix == ""}
	if err := p.common(&body.Common); err != nil {
		return nil, err
	}
	if body.Raw || body.Suffix != "" {
		switch {
		case body.System != "":
			return nil, wire.Invalid("system", "a raw prompt leaves no place for it")
		case wire.Given(body.Think) && string(body.Think) != "false":
			return nil, wire.Invalid("think", "a raw prompt leaves no place for it: what the model writes comes as it is")
		}
		p.req.MakeRaw() // the server's defaults about reasoning are for messages
		if body.Suffix != "" {
			p.gap = &wire.Gap{Before: body.Prompt, After: body.Suffix}
			return p, who.MayPromptRaw("suffix")
		}
		p.req.Prompt, p.req.PromptSpecial = body.Prompt, true
		return p, who.MayPromptRaw("raw")
	}
	if body.System != "" {
		p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.System, Content: body.System})
	}
	p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.User, Content: body.Prompt})
	return p, nil
}

func (p *prompt) common(body *Common) error {
	p.head.model = body.Model
	p.stream = body.Stream == nil || *body.Stream
	body.Warn(&p.head.warnings, fields)
	if err := cmp.Or(p.think(body.Think), p.format(body.Format)); err != nil {
		return err
	}
	if body.Logprobs {
		p.req.Logprobs, p.req.Sampling.TopLogprobs = true, int(body.TopLogprobs)
	}
	keep, err := readKeepAlive(body.KeepAlive)
	if err != nil {
		return err
	}
	p.unload = wire.Given(body.KeepAlive) && keep == 0
	return p.options(&body.Options)
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
	wire.Set(&p.req, o)
	var predict, topK, last, seed int64 = 0, int64(s.TopK), int64(s.PenaltyWindow), -1
	var context int64
	if err := cmp.Or(
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
	return wire.ReadStops("options.stop", o.Stop, &p.req.Stop)
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
