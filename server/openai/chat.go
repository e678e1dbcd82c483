package openai

import (
	"encoding/json"
	"net/http"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ChatRequest is the body of POST /v1/chat/completions. Fields that it does not have are ignored.
type ChatRequest struct {
	Options
	contract.Fields
	ToolOptions

	// Include may hold reasoning.encrypted_content, another name of reasoning_seal.
	Include []string `json:"include" max:"64"`
	// Messages is the conversation, 1 to 10,000 messages of the shape of [Message].
	Messages []json.RawMessage `json:"messages" max:"10000"`
	// MaxCompletionTokens is the most tokens to generate, reasoning included, at least 1; -1 and left out are as
	// many as the context holds. MaxTokens is another name for it.
	MaxCompletionTokens *int64 `json:"max_completion_tokens"`
	MaxTokens           *int64 `json:"max_tokens"`
	// Logprobs returns the log probabilities of the answer's tokens, and TopLogprobs as many of the most likely
	// tokens in each place, 0 to 20.
	Logprobs    *bool  `json:"logprobs"`
	TopLogprobs *int64 `json:"top_logprobs"`

	// Verbosity is a hint that models here do not know; other than medium it is answered with a warning.
	Verbosity *string `json:"verbosity"`
	// Store would keep the answer for later; chat completions are not kept, so true is answered with a warning.
	// With false the server does not remember what led to the answer's calls, either.
	Store *bool `json:"store"`
	// Echo is for completions; here it has no effect but a warning.
	Echo bool `json:"echo"`

	// What follows is refused where it asks for what models here cannot do.

	// Modalities may hold text only.
	Modalities []string `json:"modalities" max:"64"`
	// Audio and WebSearchOptions are refused.
	Audio            json.RawMessage `json:"audio"`
	WebSearchOptions json.RawMessage `json:"web_search_options"`
	// AddGenerationPrompt cannot be false and ContinueFinalMessage cannot be true: an answer is always a message of
	// its own.
	AddGenerationPrompt  *bool `json:"add_generation_prompt"`
	ContinueFinalMessage *bool `json:"continue_final_message"`
}

// ChatCompletion is the answer.
type ChatCompletion struct {
	ID string `json:"id"`
	// Object is chat.completion.
	Object string `json:"object"`
	// Created is when the request began, in seconds since 1970.
	Created int64  `json:"created"`
	Model   string `json:"model"`
	// SystemFingerprint identifies the weights: with the same fingerprint and seed an answer can be repeated.
	SystemFingerprint string   `json:"system_fingerprint"`
	Choices           []Choice `json:"choices"`
	Usage             Usage    `json:"usage"`
	Extras
}

// Choice is one of the answers to a request.
type Choice struct {
	Index    int           `json:"index"`
	Message  AnswerMessage `json:"message"`
	Logprobs *Logprobs     `json:"logprobs"`
	// FinishReason is stop, length, tool_calls or function_call.
	FinishReason string `json:"finish_reason"`
	// FinishDetail is more exact: reasoning_budget, answer_reserve, context_full or stop_string.
	FinishDetail string `json:"finish_detail,omitempty"`
	// TraceID is the id of the choice's trace, if the request asks for one and it is stored.
	TraceID string `json:"trace_id,omitempty"`
}

// AnswerMessage is the message that answers.
type AnswerMessage struct {
	// Role is assistant.
	Role string `json:"role"`
	// Content is null if there are calls and no text.
	Content *string `json:"content"`
	// Refusal is always null.
	Refusal *string `json:"refusal"`
	// Reasoning and ReasoningContent are the same text, with visibility full.
	Reasoning        string `json:"reasoning,omitempty"`
	ReasoningContent string `json:"reasoning_content,omitempty"`
	// ReasoningSummary is the summary, with visibility summary.
	ReasoningSummary string `json:"reasoning_summary,omitempty"`
	// Preamble is what the model says before a call, if the answer has a form; otherwise it is part of Content.
	Preamble     string        `json:"preamble,omitempty"`
	ToolCalls    []AnswerCall  `json:"tool_calls,omitempty"`
	FunctionCall *FunctionCall `json:"function_call,omitempty"`
	MessageEnd
}

// AnswerCall is a call that the model makes.
type AnswerCall struct {
	ID string `json:"id"`
	// Type is function, or custom.
	Type     string        `json:"type"`
	Function *FunctionCall `json:"function,omitempty"`
	Custom   *CustomCall   `json:"custom,omitempty"`
}

// CustomCall is a call of a custom tool.
type CustomCall struct {
	Name string `json:"name"`
	// Input is the text.
	Input string `json:"input"`
}

// chatOrder is a decoded chat completion.
type chatOrder struct {
	order
	talk   *conversation
	legacy bool
	// seal asks for a sealed value of the reasoning, and trace for a trace of each choice.
	seal, trace bool
	// begin begins the turn of a choice; nil if there are no keys.
	begin func() *seal.Turn
}

// readChat reads a principal's request, except for what needs the model.
func (a *API) readChat(p *wire.Principal, b *ChatRequest) (*chatOrder, error) {
	d, err := a.order(&b.Options)
	if err != nil {
		return nil, err
	}
	c := &chatOrder{order: *d}
	c.req.Visibility = p.Default(c.req.Visibility)
	if c.talk, err = readMessages(b.Messages); err != nil {
		return nil, err
	}
	if b.MaxTokens != nil && b.MaxCompletionTokens != nil && *b.MaxTokens != *b.MaxCompletionTokens {
		return nil, conflict("max_completion_tokens", "max_tokens")
	}
	if err := b.limit("max_tokens", b.MaxTokens, &c.req.MaxTokens); err != nil {
		return nil, err
	}
	if err := b.limit("max_completion_tokens", b.MaxCompletionTokens, &c.req.MaxTokens); err != nil {
		return nil, err
	}
	if err := b.logprobs(&c.req); err != nil {
		return nil, err
	}
	if c.legacy, err = b.tools(&c.order); err != nil {
		return nil, err
	}
	if err := b.refused(); err != nil {
		return nil, err
	}
	if b.Verbosity != nil && *b.Verbosity != "medium" && *b.Verbosity != "" {
		c.warn("field_ignored", "verbosity: models here do not know it; say it in a message")
	}
	if b.Store != nil && *b.Store {
		c.warn("field_ignored", "store: chat completions are not kept; /v1/responses keeps what it answers")
	}
	if b.IgnoreEOS {
		c.unsupported("ignore_eos")
	}
	c.req.Unremembered = b.Store != nil && !*b.Store
	if b.Echo {
		c.unsupported("echo")
	}
	return c, a.readReasoning(b, c)
}

// logprobs reads the fields about log probabilities.
func (b *ChatRequest) logprobs(req *generation.Request) error {
	if err := within("top_logprobs", b.TopLogprobs, 0, 20); err != nil {
		return err
	}
	req.Logprobs, req.Sampling.TopLogprobs = b.Logprobs != nil && *b.Logprobs, 0
	if b.TopLogprobs == nil {
		return nil
	}
	if !req.Logprobs && *b.TopLogprobs > 0 {
		return wire.Invalid("top_logprobs", "it goes with logprobs only")
	}
	req.Sampling.TopLogprobs = int(*b.TopLogprobs)
	return nil
}

// refused refuses fields that ask for what models here cannot do.
func (b *ChatRequest) refused() error {
	for i, m := range b.Modalities {
		if m != "text" {
			return wire.Unsupported(index("modalities", i), "models here write text only")
		}
	}
	switch {
	case wire.Given(b.Audio):
		return wire.Unsupported("audio", "models here write text only")
	case wire.Given(b.WebSearchOptions):
		return wire.Unsupported("web_search_options", "the server does not search the web")
	case b.AddGenerationPrompt != nil && !*b.AddGenerationPrompt:
		return wire.Unsupported("add_generation_prompt", "an answer is always a message of its own")
	case b.ContinueFinalMessage != nil && *b.ContinueFinalMessage:
		return wire.Unsupported("continue_final_message", "an answer is always a message of its own")
	}
	return nil
}

// readReasoning reads the fields of the reasoning contract.
func (a *API) readReasoning(b *ChatRequest, c *chatOrder) error {
	for i, name := range b.Include {
		if name != contract.IncludeSealed {
			return wire.Unsupported(index("include", i), "%q is not known here; %s is", wire.Clip(name), contract.IncludeSealed)
		}
	}
	asked, err := b.Parse(b.Include)
	if err != nil {
		return err
	}
	if asked.Seal && a.cfg.Seal == nil {
		return wire.Unsupported("reasoning_seal", "the server has no keys to seal with")
	}
	if err := asked.CanTrace(a.cfg.Traces); err != nil {
		return err
	}
	for _, w := range asked.Warnings {
		c.warn(w.Code, w.Text)
	}
	c.seal, c.trace = asked.Seal, asked.Encrypt
	asked.Apply(&c.req)
	return nil
}

// head returns the common fields of a new answer by a model.
func (a *API) head(prefix, object string, m wire.Model) head {
	const digits = 12
	card := m.Card()
	return head{
		id: wire.NewID(a.cfg.Random, prefix), object: object, model: card.Name, created: a.cfg.Clock().Unix(),
		fingerprint: "fp_" + card.Digest[:min(digits, len(card.Digest))],
	}
}

// chat handles POST /v1/chat/completions.
func (a *API) chat(w http.ResponseWriter, r *http.Request) error {
	c, m, err := take(a, r, a.readChat)
	if err != nil {
		return err
	}
	defer m.Release()
	who := wire.PrincipalOf(r.Context())
	if err := c.bind(a, who, m); err != nil {
		return err
	}
	h := a.head("chatcmpl-", "chat.completion", m)
	if c.trace {
		c.req.Trace = a.cfg.Traces.Tracer(who.ID, contract.FieldTrace, h.id)
	}
	if c.stream {
		return a.serve(w, r, m, c.chunks(h))
	}
	replies := make([]chatReply, c.choices)
	for i := range replies {
		replies[i].free.Names = c.custom
	}
	err = generate(r.Context(), m, c.requests(), func() {}, func(choice int, e reasoning.Event) error {
		return replies[choice].free.Push(&e, replies[choice].push)
	})
	if err != nil {
		return wireError(err, c.form)
	}
	return wire.Answer(w, c.completion(h, replies))
}

// chunks returns the answer as a stream.
func (c *chatOrder) chunks(h head) *stream {
	cfg := ChunkConfig{
		ID: h.id, Model: h.model, Fingerprint: h.fingerprint, Created: time.Unix(h.created, 0),
		Usage: c.usage, Formed: c.form != "", Legacy: c.legacy, Custom: c.custom, Warnings: c.warnings,
	}
	s := &stream{reqs: c.requests(), form: c.form, encoder: func(choice int, send func([]byte) error) encoder {
		return NewChunkEncoder(cfg, choice, send)
	}}
	if c.usage {
		s.last = func(results []*reasoning.Result) []byte { return cfg.head().usageChunk(usageOf(results)) }
	}
	return s
}
