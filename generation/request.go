package generation

import (
	"runner/backend"
	"runner/chattemplate"
	"runner/grammar"
	"runner/reasoning"
)

// Request is one turn to generate: a plain value of settings. Only Messages or Prompt is required. What belongs to the
// caller of a run is in its [Observer].
//
// The tags of a field say what holds for it, so that nothing else has a list of fields. Its JSON is what traces record.
// With plan:"free" a plan for one turn serves another with a different value ([Request.Alike]). With raw:"no" the field
// does not work with a raw prompt ([Request.NotRaw]); with another value of the tag, only that value does.
type Request struct {
	// Principal identifies the caller. It is empty if there is only one. Principals share sequences fairly. They do not
	// share cached prefixes or remembered calls.
	Principal string `json:"-"`
	// Thread identifies the conversation; it may be empty. What the runner remembers about a call is used only in the
	// call's own thread.
	Thread string `json:"thread,omitempty"`
	// Unremembered keeps the run's calls out of the CallMemory.
	Unremembered bool                   `json:"unremembered,omitempty"`
	Messages     []chattemplate.Message `json:"messages,omitempty" plan:"free" raw:"no"`
	// Continues says that the last message is the assistant's, and that the answer goes on from its text. The model does
	// not reason then. The events have only what it adds.
	Continues bool `json:"continues,omitempty" raw:"no"`
	// Prompt is a raw prompt, used instead of Messages. No template is applied. Everything that the model writes is the
	// answer, including any reasoning. Features that need a template cannot be requested. PromptSpecial reads the names
	// of control tokens in the prompt as these tokens.
	Prompt        string `json:"text,omitempty"`
	PromptSpecial bool   `json:"special,omitempty"`
	// PromptTokens is a raw prompt as tokens, used instead of Prompt.
	PromptTokens []backend.Token `json:"tokens,omitempty"`
	// Tools are the functions that the model may call. Some formats keep the model from calling any others, except for
	// tools of its own that the variables of its template offer.
	Tools []chattemplate.Tool `json:"tools,omitempty" raw:"no"`
	// ToolChoice says whether the model may or must call a tool; the zero value is auto. ToolName is the function for
	// ToolChoiceFunction.
	ToolChoice ToolChoice `json:"tool_choice,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	// SingleCall allows at most one call per turn. Some formats never have more.
	SingleCall bool `json:"single_call,omitempty"`
	// ResponseFormat describes the form of the answer to the model, if its format has a place for that. If it is nil and
	// Form is a schema, the model is told about Form.
	ResponseFormat *chattemplate.ResponseFormat `json:"response_format,omitempty" raw:"no"`
	// Form is the grammar that the answer must match; the zero value allows any text. The answer can be incomplete if a
	// limit or a stop string ends it. For a stop string the run warns with CodeFormCut.
	Form grammar.Source `json:"-"`

	// Visibility says how much reasoning the events carry; zero means no reasoning.
	Visibility reasoning.Visibility `json:"visibility" raw:"no"`
	// MaySee is how much reasoning the caller may see at most, whatever Visibility asks for. Below full, no text of the
	// caller is compared with hidden text: not for cached prefixes and not for guesses.
	MaySee reasoning.Visibility `json:"-"`
	// Phases adds the events SegmentStart and SegmentEnd of reasoning that the visibility hides, with nothing between
	// them. Formats use it to show that the model is thinking.
	Phases bool `json:"-"`
	// DetailedSummary asks for a paragraph instead of one or two sentences.
	DetailedSummary bool `json:"detailed_summary,omitempty"`
	// SummaryTokens limits the summary pass; 0 means 160, or 400 for a detailed summary.
	SummaryTokens int `json:"summary_tokens,omitempty"`
	// Effort says how much the model reasons. With none, it has no place to reason.
	Effort reasoning.Effort `json:"effort,omitempty" raw:"no"`
	// Budget is the maximum number of reasoning tokens. When they are spent, the reasoning is closed and the answer
	// starts. 0 means no such limit.
	Budget int `json:"budget,omitempty" plan:"free" raw:"no"`
	// Strategy says where the reasoning comes from; empty means auto.
	Strategy reasoning.Strategy `json:"strategy,omitempty" raw:"auto"`
	// Rationale traces decisions. The model is asked to give a reason for each call, which costs tokens. The reasons and
	// the assumptions that it states become events, which only visibility full shows; the reasons are removed from its
	// text. Without tools, the model is not asked. An answer that must match a form is not changed.
	Rationale bool `json:"rationale,omitempty" raw:"no"`
	// Score asks the model for its confidence, from 0 to 1, if the strategy is json.
	Score bool `json:"score,omitempty" raw:"no"`
	// Seal has the observer seal all reasoning of the run, whatever the visibility. Each value comes in an event Sealed.
	Seal bool `json:"-" raw:"no"`

	// MaxTokens is the maximum number of tokens to generate, including reasoning but not the summary pass. 0 means as
	// many as the context holds.
	MaxTokens int `json:"max_tokens,omitempty" plan:"free"`
	// AnswerReserve is how many of the last tokens are reserved for the answer. Reasoning that would use them is closed.
	// 0 means a quarter of what can be generated, but at most 1,024. A negative value reserves nothing.
	AnswerReserve int `json:"answer_reserve,omitempty"`
	// Stop lists strings that end the answer and are not part of it: at most 16, of at most 1,024 bytes each.
	Stop []string `json:"stop,omitempty"`
	// Sampling says how tokens are chosen. The runner sets its Seed and Seen. Some of its fields act only on output that
	// the visibility shows; package runner says which.
	Sampling backend.Sampling `json:"sampling"`
	// Logprobs adds log probabilities to the answer's deltas. Sampling.TopLogprobs is the number of alternatives.
	Logprobs bool `json:"logprobs,omitempty"`
	// PromptLogprobs asks for the log probabilities of a raw prompt's tokens, in an event PromptScored. The whole prompt
	// is then fed, even if parts of it are cached. PromptTop is the number of alternatives for each token, 0 to
	// backend.MaxTopLogprobs.
	PromptLogprobs bool `json:"prompt_logprobs,omitempty"`
	PromptTop      int  `json:"prompt_top,omitempty"`
	// PromptOnly reads a raw prompt and generates nothing.
	PromptOnly bool `json:"prompt_only,omitempty"`
	// IgnoreEnd forbids the tokens that end generation after a raw prompt.
	IgnoreEnd bool `json:"ignore_end,omitempty"`
	// Seed makes a run repeatable. If it is nil, the runner draws a seed, which Started reports.
	Seed *uint64 `json:"seed,omitempty"`

	// TemplateArgs are extra variables for a Jinja template (chat_template_kwargs).
	TemplateArgs map[string]any `json:"template_args,omitempty" raw:"no"`
	// KeepReasoning keeps the reasoning of earlier turns in the prompt where the format would drop it.
	KeepReasoning bool `json:"keep_reasoning,omitempty"`

	// Delegation lets specialists reason.
	Delegation Delegation `json:"delegation,omitzero"`
}

// IsRaw reports whether the request has a raw prompt.
func (q *Request) IsRaw() bool { return q.Prompt != "" || q.PromptTokens != nil }

// maxReserve is how many tokens are kept for an answer at most if the request does not say.
const maxReserve = 1024

// Reserve returns how many of the tokens that can be generated are kept for the answer.
func (q *Request) Reserve(tokens int) int {
	switch {
	case q.AnswerReserve < 0:
		return 0
	case q.AnswerReserve > 0:
		return min(q.AnswerReserve, tokens)
	}
	return min(tokens/4, maxReserve)
}

// PromptField returns the name of the field that holds the prompt.
func (q *Request) PromptField() string {
	if q.IsRaw() {
		return PromptField
	}
	return MessagesField
}

// MustCall reports whether the turn must contain a call.
func (q *Request) MustCall() bool {
	return q.ToolChoice == ToolChoiceRequired || q.ToolChoice == ToolChoiceFunction
}

// ToolChoice says whether a model may or must call a tool.
type ToolChoice string

// The tool choices. If it is not known how a model writes calls, a choice cannot be enforced.
const (
	ToolChoiceAuto     ToolChoice = "auto"
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
	ToolChoiceFunction ToolChoice = "function"
)
