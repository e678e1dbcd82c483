package generation

import (
	"sync/atomic"

	"runner/backend"
	"runner/chattemplate"
	"runner/grammar"
	"runner/reasoning"
)

// Request is one turn to generate. Only Messages or Prompt is required.
type Request struct {
	// Principal is whose request it is; empty where there is only one. Principals share sequences fairly, and
	// nothing else: neither cached prefixes nor remembered calls.
	Principal string
	// Thread names the conversation, where it has a name. What is remembered of a call is for its thread alone.
	Thread string
	// Unremembered keeps what leads to the run's calls out of the CallMemory.
	Unremembered bool
	Messages     []chattemplate.Message
	// Prompt is a raw prompt in place of Messages: no template is applied, and what the model writes is the answer
	// as it stands, with its reasoning if it writes any. PromptSpecial makes names of control tokens in it these
	// tokens. Nothing that needs a template can be asked for.
	Prompt        string
	PromptSpecial bool
	// PromptTokens is a raw prompt as tokens, in place of Prompt.
	PromptTokens []backend.Token
	// Tools are the functions that the model may call. Some formats keep the model from naming any other, but for those of
	// its own that the variables of its template offer.
	Tools []chattemplate.Tool
	// ToolChoice says whether the model may or must call; the zero value is auto. ToolName is the function of
	// ToolChoiceFunction.
	ToolChoice ToolChoice
	ToolName   string
	// SingleCall allows one call in a turn at most. Some formats never have more.
	SingleCall bool
	// ResponseFormat tells the model about the form of the answer, where its format has a place for that. Nil tells
	// models whose format has a place for it about Form, if it is a schema.
	ResponseFormat *chattemplate.ResponseFormat
	// Form is what the answer's text has to obey; the zero value is anything. Only a run that ends by its limits
	// gives less, and one that ends at a stop string, which the warning CodeFormCut tells.
	Form grammar.Source

	// Visibility says how much reasoning the events carry; the zero value is none.
	Visibility reasoning.Visibility
	// Phases passes on where reasoning begins and ends that the visibility hides: the events SegmentStart and
	// SegmentEnd, with nothing between them. Formats that show their users that the model is thinking ask for it.
	Phases bool
	// DetailedSummary asks for a paragraph instead of a sentence or two.
	DetailedSummary bool
	// SummaryTokens caps the summary pass; 0 means 160, or 400 when detailed.
	SummaryTokens int
	// Effort says how much the model reasons; none really skips it.
	Effort reasoning.Effort
	// Budget is the most reasoning tokens; when they are spent the reasoning is closed and the answer starts.
	// 0 is no limit of its own.
	Budget int
	// Strategy says where reasoning comes from; empty means auto.
	Strategy reasoning.Strategy
	// Rationale traces decisions: the model is asked for its reason for each call, which costs tokens, and the
	// reasons that it gives and what it says to assume are taken out of its text. They are reasoning, so that
	// events carry them under visibility full only. Without tools it is asked for nothing. An answer that is held
	// to a form is left as it is.
	Rationale bool
	// Score asks for how sure the model is, from 0 to 1, where the strategy is json.
	Score bool

	// MaxTokens is the most tokens to generate, reasoning included, the summary pass excluded; 0 means what the
	// context holds.
	MaxTokens int
	// AnswerReserve is how many of the last tokens are kept for the answer: reasoning that would eat into them is
	// closed. 0 means a quarter of what can be generated, at most 1,024; negative reserves nothing.
	AnswerReserve int
	// Stop lists strings that end the answer; they are not part of it. At most 16 of at most 1,024 bytes.
	Stop []string
	// Sampling chooses the tokens; its Seed and Seen are set by the runner. What of it acts on
	// which part of the output depends on what the visibility shows; as the runner documents.
	Sampling backend.Sampling
	// Logprobs attaches log probabilities to the answer's deltas; Sampling.TopLogprobs says how many alternatives.
	Logprobs bool
	// PromptLogprobs asks for the log probabilities of a raw prompt's tokens, which come in the event PromptScored.
	// PromptTop is how many alternatives each place gets, 0 to backend.MaxTopLogprobs. The whole prompt is fed
	// then, whatever is cached.
	PromptLogprobs bool
	PromptTop      int
	// PromptOnly generates nothing after a raw prompt.
	PromptOnly bool
	// IgnoreEnd keeps the model from ending its continuation of a raw prompt: the tokens that end generation cannot come.
	IgnoreEnd bool
	// Seed makes a run repeatable; nil draws one, which Started reports.
	Seed *uint64

	// TemplateArgs are extra variables for a Jinja template (chat_template_kwargs).
	TemplateArgs map[string]any
	// KeepReasoning keeps earlier turns' reasoning in the prompt where the format would drop it.
	KeepReasoning bool

	// Delegation lets specialists reason.
	Delegation Delegation

	// CallID names the run's calls, counted from 0; nil draws random ids. It is called on another goroutine.
	CallID func(number int) string
	// Seal, when not nil, gets the run's whole reasoning when it ends, whatever the visibility, if there was any;
	// Result.Sealed holds what it returns. calls says whether the run called anything of the client's. It must not
	// keep the text. It is called on another goroutine.
	Seal func(thoughts string, calls bool) (string, error)
	// Trace, when not nil, keeps all of the run, whatever the visibility and however it ends; Result.Trace holds
	// the trace's id. Where there is none in the end, the warning CodeNotTraced says so.
	Trace Tracer
	// Generated, when not nil, counts the tokens that the run generates while it goes on, those of its summary too.
	Generated *atomic.Int64
	// Account, when not nil, is told once what a run that was begun has used, however it ended. It is called on
	// another goroutine, perhaps after Generate has returned, and must not block.
	Account func(reasoning.Usage)
}

// IsRaw reports whether the request has a raw prompt.
func (q *Request) IsRaw() bool { return q.Prompt != "" || q.PromptTokens != nil }

// PromptField names what the prompt is made of.
func (q *Request) PromptField() string {
	if q.IsRaw() {
		return PromptField
	}
	return MessagesField
}

// MustCall reports whether the turn has to come to a call.
func (q *Request) MustCall() bool {
	return q.ToolChoice == ToolChoiceRequired || q.ToolChoice == ToolChoiceFunction
}

// ToolChoice says whether a model may or must call a tool.
type ToolChoice string

// The tool choices. Models whose way of writing calls is not known cannot be held to one.
const (
	ToolChoiceAuto     ToolChoice = "auto"
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
	ToolChoiceFunction ToolChoice = "function"
)
