package reasoning

import (
	"runner/backend"
)

// Segment is the role of a stretch of generated tokens.
type Segment uint8

// The segments.
const (
	// Header tokens steer the format and are nobody's text.
	Header Segment = iota
	// Reasoning is what the model thinks.
	Reasoning
	// Summary is the summary pass's account of the reasoning.
	Summary
	// Preamble is text for the user before a tool call.
	Preamble
	// ToolCall is a call's arguments.
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
	// StrategySwitched reports that the reasoning now comes from Info.Strategy, with the reason in Text. A splitter
	// fills in nothing of Info but the strategy.
	StrategySwitched
	// Done is the last event of a run and carries Result.
	Done
	// Decided carries a Decision that the model gave a reason for, and the Call that it is about.
	Decided
	// Assumed carries an Assumption.
	Assumed
	// Curated reports that the runner kept something from the model: what was done in Code, and what to in Text,
	// which holds nothing of it.
	Curated
	// DelegationStart and DelegationEnd stand around what a specialist writes, and carry Delegation. They hold
	// nothing of its prompt.
	DelegationStart
	DelegationEnd
	// Instructed carries an instruction of package delegation that was followed, as JSON in Text, with the
	// specialist's prompt in full, and its label in Code.
	Instructed
	// PromptScored carries Logprobs of a raw prompt's tokens. It comes before what the model writes. The first
	// token has no log probability (NaN) where nothing stands before it.
	PromptScored
)

// Event is what the pipeline tells the world; every wire format is an encoding of events.
//
// Segments of different kinds may interleave (a summary and an answer are generated side by side), but two segments
// of the same kind never overlap. A text segment starts with its first text, so that none is empty; a tool call
// starts with its header, and may have no text. The texts of a segment's deltas, concatenated, are its text; no
// delta is empty or splits a rune. The reasoning that a visibility hides may still show where it begins and ends,
// as a segment without text. Strings may share memory with the vocabulary and stay valid.
type Event struct {
	Kind    Kind
	Segment Segment
	// Text is the delta's text or the warning's message, which holds nothing of the model's text.
	Text string
	// Code names a warning, for instance "malformed_header", what was done to the prompt, or an instruction.
	Code string
	// Call identifies the tool call that a ToolCall segment or a decision belongs to.
	Call Call
	// Logprobs holds the tokens that make up an Answer delta, when they were asked for. A token that is not the answer's
	// alone, such as one with part of a marker, is left out. With PromptScored they are the prompt's tokens.
	Logprobs []TokenLogprobs
	// Specialist is the id of the delegation that a segment was written in; empty for the model under its own prompt.
	Specialist string
	// Info is set on Started and StrategySwitched, Result on Done, Decision on Decided, Assumption on Assumed,
	// Delegation on DelegationStart and DelegationEnd.
	Info       *Info
	Result     *Result
	Decision   *Decision
	Assumption *Assumption
	Delegation *Delegation
}

// Delegation says of a specialist's turn what anybody may know.
type Delegation struct {
	// ID names it in its run: each has another.
	ID string `json:"id"`
	// By is who called for the specialist: user or model.
	By string `json:"by"`
	// Length is that of the specialist's prompt, in UTF-16 units.
	Length int `json:"prompt_length"`
	// Shown says that what it writes is for the user; else it is intermediate, which is reasoning.
	Shown bool `json:"shown,omitempty"`
	// Steps counts its steps, and Outcome says how it ended; both are for DelegationEnd.
	Steps   int               `json:"steps,omitempty"`
	Outcome DelegationOutcome `json:"outcome,omitempty"`
}

// DelegationOutcome says how a delegation ended.
type DelegationOutcome string

// The outcomes. After all of them the original prompt is back.
const (
	// DelegationReturned: the specialist gave control back, by its call, by the end of its turn or by an instruction.
	DelegationReturned DelegationOutcome = "returned"
	// DelegationPending: the run ended in calls that wait for the client, and goes on with the specialist when they
	// are answered.
	DelegationPending DelegationOutcome = "pending"
	// DelegationLimit: the steps or the tokens were used up.
	DelegationLimit DelegationOutcome = "limit"
	// DelegationFailed: an error or its reader's leaving ended it.
	DelegationFailed DelegationOutcome = "failed"
)

// Call identifies a tool call.
type Call struct {
	// Index counts the calls of a run from 0.
	Index int
	ID    string
	Name  string
}

// TokenLogprobs is one answer token with its alternatives. Text is the token's exact bytes, which need not be whole
// runes.
type TokenLogprobs struct {
	backend.TokenLogprob
	Text string
	Top  []Alternative
	// Rank is 1 plus the number of tokens that are more likely. It is set for the tokens of a prompt only, and not
	// for its first.
	Rank int
}

// Alternative is a token that could have come instead, with its exact bytes.
type Alternative struct {
	backend.TokenLogprob
	Text string
}

// Visibility says how much reasoning leaves the process.
type Visibility uint8

// The visibilities, least first.
const (
	VisibilityNone Visibility = iota
	VisibilitySummary
	VisibilityFull
)

// Strategy says where reasoning comes from.
type Strategy string

// The strategies, in order of preference. StrategyAuto takes the first that the model supports.
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

// Info is what is in effect for a run, so that nobody has to guess.
type Info struct {
	Model      string
	Visibility Visibility
	Effort     Effort
	Strategy   Strategy
	Seed       uint64
	// Budget is the most reasoning tokens; 0 is unlimited.
	Budget int
	// Prompt is the length of the prompt in tokens.
	Prompt int
	// Iteration counts the turns since the last message of the user, from 1, where decisions are traced; else it is 0.
	Iteration int
}

// FinishReason says why a run ended.
type FinishReason string

// The finish reasons.
const (
	FinishStop      FinishReason = "stop"
	FinishLength    FinishReason = "length"
	FinishToolCalls FinishReason = "tool_calls"
)

// Finish details, where they apply.
const (
	DetailReasoningBudget = "reasoning_budget"
	DetailAnswerReserve   = "answer_reserve"
	DetailContextFull     = "context_full"
	DetailStopString      = "stop_string"
)

// Result is what a run amounts to.
type Result struct {
	Finish FinishReason
	// Detail adds to Finish, for instance that the budget closed the reasoning.
	Detail string
	// StopString is the stop string that ended the answer.
	StopString string
	// ReasoningUnavailable says that reasoning was asked for and the model gave none.
	ReasoningUnavailable bool
	// Score is what the model said of how sure it is, where strategy json or a call of report_reasoning gave it;
	// nil where none came.
	Score *float64
	// Specialist says that the run ended in calls of a specialist, to which it returns when they are answered.
	Specialist bool
	// Sealed is the reasoning as a value that the caller can carry to the next turn, where it was asked for.
	Sealed string
	// Trace is the id of the run's sealed trace, where one was asked for and is stored.
	Trace string
	// Rationale counts the calls with and without a reason where decisions are traced; else it is nil.
	Rationale *RationaleCount
	// SummarySource is "reasoning" or "posthoc" when there is a summary.
	SummarySource string
	Usage         Usage
	Timing        Timing
}

// Usage counts tokens.
type Usage struct {
	// Prompt counts the prompt and Cached how much of it the cache held already.
	Prompt, Cached int
	// Completion counts all generated tokens of the main sequence, Reasoning those that were reasoning, Summary those of
	// the summary pass, which are not part of Completion, and Answer those of the answer.
	Completion, Reasoning, Summary, Answer int
}
