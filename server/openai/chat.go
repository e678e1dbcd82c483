package openai

import (
	"cmp"
	"encoding/json"
	"net/http"

	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ChatRequest is the body of POST /v1/chat/completions.
//
//openapi:request ChatCompletionRequest
type ChatRequest struct {
	Options
	contract.Fields
	ToolOptions

	// `reasoning.encrypted_content` is another name of `reasoning_seal`. Other values are refused.
	Include []string `json:"include" api:"[..64]=reasoning.encrypted_content"`
	// The conversation.
	Messages []json.RawMessage `json:"messages" api:"[1..10000]#ChatMessage required" of:"Messages"`
	// The maximum number of tokens to generate, including reasoning. Summaries are not counted. -1 generates as many as
	// the context holds, which is the default.
	MaxCompletionTokens *int64 `json:"max_completion_tokens" api:"[-1..] not=0" of:"MaxTokens"`
	// Another name of `max_completion_tokens`. Different values are refused.
	MaxTokens *int64 `json:"max_tokens" api:"[-1..] not=0"`
	// Return the log probabilities of the answer's tokens. Those of the reasoning are never returned.
	Logprobs *bool `json:"logprobs" api:"default=false"`
	// How many of the likeliest tokens to return at each position. Only with `logprobs`.
	TopLogprobs *int64 `json:"top_logprobs" api:"[0..20] default=0"`

	// A hint that models here do not know. Values other than `medium` give a warning.
	Verbosity *string `json:"verbosity"`
	// Chat completions are not stored, so `true` gives a warning. With `false` the server also does not remember the
	// reasoning that led to the answer's calls. `/v1/responses` stores its responses.
	Store *bool `json:"store"`
	// Not supported. True gives the warning `unsupported_parameter`.
	Echo bool `json:"echo" api:"default=false"`

	// The fields from here on are refused if they ask for something that models here cannot do.

	// Models here write only text.
	Modalities []string `json:"modalities" api:"[..64]=text"`
	// Refused: models here write only text.
	Audio json.RawMessage `json:"audio" api:"null" refuse:"models here write text only"`
	// Refused: the server does not search the web.
	WebSearchOptions json.RawMessage `json:"web_search_options" api:"null" refuse:"the server does not search the web"`
	// Go on from the text of the last message, which is the assistant's, instead of beginning a new one. The answer has
	// only what is added. The model does not reason then, and a key without the permission `reasoning:full` cannot ask for
	// it where the prompt has reasoning that was sealed or remembered.
	ContinueFinalMessage bool `json:"continue_final_message" api:"default=false" of:"Continues"`
	// False goes with `continue_final_message`, and true without it.
	AddGenerationPrompt *bool `json:"add_generation_prompt"`
}

// ChatCompletion is the answer.
//
//openapi:answer ChatCompletion
type ChatCompletion struct {
	Head
	// The type of this object.
	Object string `json:"object" api:"=chat.completion"`
	// The choices.
	Choices []Choice `json:"choices"`
	Usage   Usage    `json:"usage"`
	Extras
}

// Choice is one of the answers to a request.
//
//openapi:answer ChatChoice
type Choice struct {
	// The index of the choice.
	Index   int           `json:"index" api:"[0..]"`
	Message AnswerMessage `json:"message"`
	// The log probabilities of the answer's tokens, if requested.
	Logprobs     *Logprobs `json:"logprobs"`
	FinishReason string    `json:"finish_reason" api:"#FinishReason"`
	FinishDetail string    `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID      string    `json:"trace_id,omitempty" api:"#TraceID"`
	Remarks
}

// AnswerMessage is the message that answers.
//
//openapi:answer ChatAnswer
type AnswerMessage struct {
	// The author's role.
	Role string `json:"role" api:"=assistant"`
	// The answer without the reasoning. Null if there are calls and no text. What the model says before a call is
	// content too, unless the request gives the answer a form.
	Content *string `json:"content"`
	// Always null.
	Refusal *string `json:"refusal" api:"null"`
	// The reasoning, with visibility `full`.
	Reasoning string `json:"reasoning,omitempty"`
	// The same as `reasoning`.
	ReasoningContent string `json:"reasoning_content,omitempty"`
	// The summary, with visibility `summary`.
	ReasoningSummary string `json:"reasoning_summary,omitempty"`
	// What the model says before a call, if the request gives the answer a form.
	Preamble string `json:"preamble,omitempty"`
	// The model's calls.
	ToolCalls    []AnswerCall  `json:"tool_calls,omitempty"`
	FunctionCall *FunctionCall `json:"function_call,omitempty"`
	MessageEnd
}

// AnswerCall is a call that the model makes.
//
//openapi:answer AnswerCall
type AnswerCall struct {
	// The id of the call.
	ID string `json:"id"`
	// The kind of call.
	Type     string        `json:"type" api:"=function,custom"`
	Function *FunctionCall `json:"function,omitempty"`
	// A call of a custom tool.
	Custom *CustomCall `json:"custom,omitempty"`
}

// CustomCall is a call of a custom tool.
//
//openapi:answer CustomCall
type CustomCall struct {
	// The name of the tool.
	Name string `json:"name"`
	// The text.
	Input string `json:"input"`
}

// chatOrder is a decoded chat completion.
type chatOrder struct {
	order
	talk   *conversation
	legacy bool
	// trace asks for a trace of each choice.
	trace bool
	// begin begins the turn of a choice.
	begin func() *seal.Turn
}

// readChat reads a principal's request, except for what needs the model.
func (a *API) readChat(p *wire.Principal, b *ChatRequest) (*chatOrder, error) {
	d, err := a.order(p, &b.Options, fieldNames)
	if err != nil {
		return nil, err
	}
	c := &chatOrder{order: *d}
	if c.talk, err = readMessages(b.Messages); err != nil {
		return nil, err
	}
	c.warnings = append(c.warnings, c.talk.warnings...)
	if b.MaxTokens != nil && b.MaxCompletionTokens != nil && *b.MaxTokens != *b.MaxCompletionTokens {
		return nil, conflict("max_completion_tokens", "max_tokens")
	}
	if err := cmp.Or(b.limit("max_tokens", b.MaxTokens, &c.req.MaxTokens),
		b.limit("max_completion_tokens", b.MaxCompletionTokens, &c.req.MaxTokens), b.logprobs(&c.req)); err != nil {
		return nil, err
	}
	if c.legacy, err = b.tools(&c.order); err != nil {
		return nil, err
	}
	c.req.Continues = b.ContinueFinalMessage
	if err := b.refused(); err != nil {
		return nil, err
	}
	if b.Verbosity != nil && *b.Verbosity != "medium" && *b.Verbosity != "" {
		c.warnings.Add(wire.CodeIgnored, "verbosity: models here do not know it; say it in a message")
	}
	if b.Store != nil && *b.Store {
		c.warnings.Add(wire.CodeIgnored, "store: chat completions are not kept; /v1/responses keeps what it answers")
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
			return wire.Unsupported(wire.Index("modalities", i), "models here write text only")
		}
	}
	if b.AddGenerationPrompt != nil && *b.AddGenerationPrompt == b.ContinueFinalMessage {
		return wire.Invalid("add_generation_prompt",
			"it must be true for a new message, and false with continue_final_message")
	}
	return nil
}

// readReasoning reads the fields of the reasoning contract.
func (a *API) readReasoning(b *ChatRequest, c *chatOrder) error {
	for i, name := range b.Include {
		if name != contract.IncludeSealed {
			return wire.Unsupported(wire.Index("include", i), "%q is not known here; %s is", wire.Clip(name),
				contract.IncludeSealed)
		}
	}
	asked, err := b.Parse(b.Include)
	if err != nil {
		return err
	}
	if err := asked.CanTrace(a.cfg.Traces); err != nil {
		return err
	}
	c.warnings = append(c.warnings, asked.Warnings...)
	c.trace = asked.Encrypt
	asked.Apply(&c.req)
	return nil
}

// head returns the common fields of a new answer by a model.
func (a *API) head(prefix string, m wire.Model) Head {
	const digits = 12
	card := m.Card()
	h := Head{ID: a.cfg.NewID(prefix), Model: card.Name, Created: a.cfg.Clock().Unix()}
	if card.Digest != "" {
		h.SystemFingerprint = "fp_" + card.Digest[:min(digits, len(card.Digest))]
	}
	return h
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
	h := a.head("chatcmpl-", m)
	return a.respond(w, r, m, &c.order, c.runs(contract.Tracer(c.trace, a.cfg.Traces, who, h.ID)),
		func(send func(any) error) reply { return c.reply(h, send) })
}
