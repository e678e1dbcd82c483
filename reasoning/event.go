package reasoning

import (
	"runner/backend"
)

// Segment is the role of a stretch of generated tokens.
type Segment uint8

// The segments.
const (
	// Header tokens are part of the format. They are not shown as text.
	Header Segment = iota
	// Reasoning is the model's thinking.
	Reasoning
	// Summary is a summary of the reasoning, from a separate pass of the model.
	Summary
	// Preamble is text for the user before a tool call. Where the model has no place to reason, it is a preamble only if a
	// call follows that the caller sees, and else Reasoning.
	Preamble
	// ToolCall is the arguments of a call.
	ToolCall
	// Answer is the final answer.
	Answer
)

// Kind says what an event reports.
type Kind uint8

// The kinds of event.
const (
	// Started is the first event of a run and carries Info.
	Started Kind = iota
	// SegmentStart opens a segment; for ToolCall it carries Call.
	SegmentStart
	// SegmentDelta carries more Text of the segment.
	SegmentDelta
	// SegmentEnd closes the segment.
	SegmentEnd
	// Warning carries a Code and a message in Text. The run goes on.
	Warning
	// StrategySwitched reports that the reasoning now comes from Info.Strategy. Text has the reason. A reader sets only
	// the strategy in Info.
	StrategySwitched
	// Done is the last event of a run and carries Result.
	Done
	// Decided carries a Decision for which the model gave a reason, and the Call that it is about.
	Decided
	// Assumed carries an Assumption.
	Assumed
	// Curated reports that the runner kept something from the model. Code says what was done. Text says what it was,
	// without quoting any of it.
	Curated
	// DelegationStart and DelegationEnd enclose what a specialist writes. They carry Delegation, and nothing of its
	// prompt.
	DelegationStart
	DelegationEnd
	// Instructed carries an instruction of package delegation that was followed. Text has it as JSON, with the
	// specialist's whole prompt. Code has its label.
	Instructed
	// PromptScored carries the Logprobs of a raw prompt's tokens. It precedes the generated text. If nothing precedes the
	// first token, its log probability is NaN.
	PromptScored
	// Sealed carries in Text the sealed value of a stretch of reasoning, if the request asks for it. It comes just before
	// the end of that segment, whatever the visibility.
	Sealed
	// SummarySettled says that nothing more of the summary comes before the answer or a call: the summary is complete, or
	// none comes before them. It is sent at most once, in runs whose reader asked for a summary.
	SummarySettled
)

// Event is one piece of a run. Every wire format is an encoding of events.
//
// Segments of different kinds may interleave: a summary and an answer are generated at the same time. Two segments of
// the same kind never overlap. A text segment starts with its first text, so it is never empty. A tool call starts
// with its header and may have no text. A segment's text is the concatenation of its deltas. No delta is empty or
// splits a rune. If the visibility hides the reasoning, its start and end may still be shown, as a segment without
// text. Strings may share memory with the vocabulary and stay valid.
type Event struct {
	Kind    Kind
	Segment Segment
	// Text is a delta's text or a message. A warning's message contains nothing of the model's text.
	Text string
	// Code names a warning, for instance "malformed_header". For other kinds it says what was done to the prompt, or
	// holds the label of an instruction.
	Code string
	// Call is the tool call that a ToolCall segment or a decision belongs to.
	Call Call
	// Logprobs holds the tokens of an Answer delta, if they were requested. A token that is only partly answer text, such
	// as one that contains part of a marker, is left out. With PromptScored they are the prompt's tokens.
	Logprobs []TokenLogprobs
	// Specialist is the id of the delegation that a segment was written in. It is empty under the model's own prompt.
	Specialist string
	// Info is set on Started and StrategySwitched, Result on Done, Decision on Decided, Assumption on Assumed,
	// Delegation on DelegationStart and DelegationEnd.
	Info       *Info
	Result     *Result
	Decision   *Decision
	Assumption *Assumption
	Delegation *Delegation
}

// Delegation describes a specialist's turn. Every reader of the events may see it.
type Delegation struct {
	// ID is unique in the run.
	ID string `json:"id"`
	// By is the caller of the specialist: user or model.
	By string `json:"by"`
	// Length is the length of the specialist's prompt in UTF-16 units.
	Length int `json:"prompt_length"`
	// Shown means that the specialist writes for the user. Otherwise its text is intermediate and counts as reasoning.
	Shown bool `json:"shown,omitempty"`
	// Steps counts the specialist's steps, and Outcome says how the delegation ended. Only DelegationEnd sets them.
	Steps   int               `json:"steps,omitempty"`
	Outcome DelegationOutcome `json:"outcome,omitempty"`
}

// DelegationOutcome says how a delegation ended.
type DelegationOutcome string

// The outcomes. After each of them the original prompt is active again.
const (
	// DelegationReturned: the specialist gave control back by its call, by the end of its turn or by an instruction.
	DelegationReturned DelegationOutcome = "returned"
	// DelegationPending: the run ended in calls that wait for the client. The specialist continues when they are
	// answered.
	DelegationPending DelegationOutcome = "pending"
	// DelegationLimit: the limit on steps or tokens was reached.
	DelegationLimit DelegationOutcome = "limit"
	// DelegationFailed: an error ended it, or its reader went away.
	DelegationFailed DelegationOutcome = "failed"
)

// Call identifies a tool call.
type Call struct {
	// Index counts the calls of a run, from 0.
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
}

// TokenLogprobs is one token with its alternatives. Text is the token's exact bytes, which may be part of a rune.
type TokenLogprobs struct {
	backend.TokenLogprob
	Text string
	Top  []Alternative
	// Rank is 1 plus the number of tokens that are more likely. It is set only for the tokens of a prompt that have one
	// before them.
	Rank int
}

// Alternative is another candidate for a token's place, with its exact bytes.
type Alternative struct {
	backend.TokenLogprob
	Text string
}

// Visibility says how much reasoning leaves the process.
type Visibility uint8

// The visibilities, in ascending order.
const (
	VisibilityNone Visibility = iota
	VisibilitySummary
	VisibilityFull
)

// Strategy says where reasoning comes from.
type Strategy string

// The strategies, in order of preference. StrategyAuto uses the first that the model supports.
const (
	StrategyAuto    Strategy = "auto"
	StrategyNative  Strategy = "native"
	StrategyJSON    Strategy = "json"
	StrategyTool    Strategy = "tool"
	StrategyMarkers Strategy = "markers"
	StrategyPosthoc Strategy = "posthoc"
)

// The markers between which StrategyMarkers has the model write its reasoning.
const (
	MarkerOpen  = "<<REASONING>>"
	MarkerClose = "<</REASONING>>"
)

// ReportReasoningName is the name of the function of StrategyTool. The model calls it to say what it thinks.
const ReportReasoningName = "report_reasoning"

// Info holds the settings in effect for a run.
type Info struct {
	Model      string     `json:"model,omitempty"`
	Visibility Visibility `json:"visibility"`
	Effort     Effort     `json:"effort,omitempty"`
	Strategy   Strategy   `json:"strategy,omitempty"`
	Seed       uint64     `json:"seed"`
	// Budget is the maximum number of reasoning tokens; 0 is unlimited.
	Budget int `json:"budget,omitempty"`
	// Prompt is the length of the prompt in tokens.
	Prompt int `json:"prompt_tokens,omitempty"`
	// Iteration counts the turns since the user's last message, from 1. It is 0 if decisions are not traced.
	Iteration int `json:"iteration,omitempty"`
}

// FinishReason says why a run ended.
type FinishReason string

// The finish reasons.
const (
	FinishStop      FinishReason = "stop"
	FinishLength    FinishReason = "length"
	FinishToolCalls FinishReason = "tool_calls"
)

// The details of a finish reason, where one applies.
const (
	DetailReasoningBudget = "reasoning_budget"
	DetailAnswerReserve   = "answer_reserve"
	DetailContextFull     = "context_full"
	DetailStopString      = "stop_string"
)

// Result is the outcome of a run.
type Result struct {
	Finish FinishReason `json:"finish"`
	// Detail adds to Finish, for instance that the budget ended the reasoning.
	Detail string `json:"detail,omitempty"`
	// StopString is the stop string that ended the answer.
	StopString string `json:"stop_string,omitempty"`
	// ReasoningUnavailable means that reasoning was requested and the model gave none.
	ReasoningUnavailable bool `json:"reasoning_unavailable,omitempty"`
	// Score is the model's confidence, from strategy json or a call of report_reasoning. It is nil if the model gave
	// none.
	Score *float64 `json:"score,omitempty"`
	// Specialist means that the run ended in calls of a specialist. The specialist continues when they are answered.
	Specialist bool `json:"specialist,omitempty"`
	// Trace is the id of the run's sealed trace, if one was requested and stored.
	Trace string `json:"trace,omitempty"`
	// Rationale counts the calls with and without a reason. It is nil if decisions are not traced.
	Rationale *RationaleCount `json:"rationale,omitempty"`
	// SummarySource is "reasoning" or "posthoc" when there is a summary.
	SummarySource string `json:"summary_source,omitempty"`
	Usage         Usage  `json:"usage"`
	Timing        Timing `json:"timing"`
}

// Usage counts tokens.
type Usage struct {
	// Prompt counts the prompt's tokens, and Cached those of them that were cached.
	Prompt int `json:"prompt_tokens"`
	Cached int `json:"cached_tokens"`
	// Completion counts all generated tokens of the main sequence. Reasoning and Answer count parts of it. Summary counts
	// the tokens of the summary pass, which are not in Completion.
	Completion int `json:"completion_tokens"`
	Reasoning  int `json:"reasoning_tokens"`
	Summary    int `json:"summary_tokens"`
	Answer     int `json:"answer_tokens"`
}

// Add adds the tokens of another turn of a request.
func (u *Usage) Add(of *Usage) {
	u.Prompt += of.Prompt
	u.Cached += of.Cached
	u.Completion += of.Completion
	u.Reasoning += of.Reasoning
	u.Summary += of.Summary
	u.Answer += of.Answer
}
