package decision

import (
	"runner/reasoning"
)

// Kind says what a trace event reports.
type Kind string

// The kinds of trace event, with the fields that each has in addition to the common ones.
const (
	// RunStarted has task, model, provider, seed and config.
	RunStarted Kind = "run-started"
	// ToolCallStart has callIndex, toolCallId, toolName, and rationale if the model has stated its reason by the end
	// of the call.
	ToolCallStart Kind = "tool-call-start"
	// ToolCallEnd has callIndex, toolCallId, toolName and ok, which is true: the call is complete. The caller answers it.
	ToolCallEnd Kind = "tool-call-end"
	// DecisionEvaluated has decisionType, reason, rationale, confidence, and for a call callIndex, toolCallId and
	// toolName. It is for a reason that is not in ToolCallStart. The confidence is 0 if the model stated none; then the
	// rationale has none.
	DecisionEvaluated Kind = "decision-evaluated"
	// AlternativesConsidered has chosen, alternatives, and the fields of DecisionEvaluated for a call.
	AlternativesConsidered Kind = "alternatives-considered"
	// AssumptionRecorded has assumption and rationale, whose why is empty if the model gave no reason.
	AssumptionRecorded Kind = "assumption-recorded"
	// CuratorDecision reports what the runner withheld from the model. It has action, targetRef and rationale.
	CuratorDecision Kind = "curator-decision"
	// StrategySwitched has from, to, reason and rationale.
	StrategySwitched Kind = "strategy-switched"
	// PhaseEnter and PhaseExit enclose what a specialist does. They have phase.
	PhaseEnter Kind = "phase-enter"
	PhaseExit  Kind = "phase-exit"
	// KernelStateSnapshot comes once, at the end. It has status, terminatedBy, terminationRationale and the fields of
	// State.
	KernelStateSnapshot Kind = "kernel-state-snapshot"
	// RunCompleted has status and the fields of Totals.
	RunCompleted Kind = "run-completed"
)

// Statuses of a run.
const (
	StatusSuccess   = "success"
	StatusFailure   = "failure"
	StatusCancelled = "cancelled"
)

// Statuses of a KernelStateSnapshot.
const (
	stateDone   = "done"
	stateFailed = "failed"
)

// specialist is the phase of a specialist.
const specialist = "specialist"

// provider is the model's provider in RunStarted.
const provider = "runner"

// Event is one line of a trace. JSON leaves out empty fields, except the common ones and those of State and Totals.
type Event struct {
	Kind  Kind   `json:"kind"`
	RunID string `json:"runId"`
	// ParentRunID, RootRunID and Depth are set for a specialist, whose run is a part of the other.
	ParentRunID string `json:"parentRunId,omitempty"`
	RootRunID   string `json:"rootRunId,omitempty"`
	Depth       int    `json:"depth,omitempty"`
	// Timestamp is in milliseconds since 1970.
	Timestamp int64 `json:"timestamp"`
	// Iter counts the turns since the user's last message, from 1.
	Iter int `json:"iter"`
	// Seq counts the trace events of the run, from 0.
	Seq int `json:"seq"`

	// Task is what the user asked for. RunStarted has it even if it is empty.
	Task     *string   `json:"task,omitempty"`
	Model    string    `json:"model,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Seed     *uint64   `json:"seed,omitempty"`
	Config   *Settings `json:"config,omitempty"`

	DecisionType string `json:"decisionType,omitempty"`
	// CallIndex counts the calls of the turn, from 0.
	CallIndex    *int                 `json:"callIndex,omitempty"`
	ToolCallID   string               `json:"toolCallId,omitempty"`
	ToolName     string               `json:"toolName,omitempty"`
	OK           bool                 `json:"ok,omitempty"`
	Phase        string               `json:"phase,omitempty"`
	Chosen       string               `json:"chosen,omitempty"`
	Alternatives []reasoning.Rejected `json:"alternatives,omitempty"`

	Assumption string `json:"assumption,omitempty"`
	Action     string `json:"action,omitempty"`
	TargetRef  string `json:"targetRef,omitempty"`
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`

	Reason     string               `json:"reason,omitempty"`
	Confidence *float64             `json:"confidence,omitempty"`
	Rationale  *reasoning.Rationale `json:"rationale,omitempty"`

	Status               string               `json:"status,omitempty"`
	TerminatedBy         string               `json:"terminatedBy,omitempty"`
	TerminationRationale *reasoning.Rationale `json:"terminationRationale,omitempty"`

	*State
	*Totals
}

// Settings are the settings in effect when the run began.
type Settings struct {
	Strategy   string `json:"strategy,omitempty"`
	Visibility string `json:"visibility,omitempty"`
	Effort     string `json:"effort,omitempty"`
}

// State says how far a run had got when it ended.
type State struct {
	// ToolsUsed names the functions that were called, each once, in the order of their first calls.
	ToolsUsed []string `json:"toolsUsed"`
	// StepsCount counts the steps of the run's path, and StepsByType says how many of each type there were.
	StepsCount  int            `json:"stepsCount"`
	StepsByType map[string]int `json:"stepsByType"`
	// OutputLen is the length of the answer in characters, and OutputPreview its beginning; nil if there is none.
	OutputLen     int     `json:"outputLen"`
	OutputPreview *string `json:"outputPreview"`
	// LLMCalls counts the turns of the model, without that of a summary.
	LLMCalls int `json:"llmCalls"`
	Tokens   int `json:"tokens"`
	// ScratchpadKeys is empty and Cost 0; readers demand them.
	ScratchpadKeys [0]string `json:"scratchpadKeys"`
	Cost           int       `json:"cost"`
}

// Totals are the numbers of RunCompleted.
type Totals struct {
	// TotalTokens counts the tokens of the prompt, the completion and the summary.
	TotalTokens int `json:"totalTokens"`
	// TotalCostUSD is always 0: a model on the user's own machine has no price.
	TotalCostUSD float64 `json:"totalCostUsd"`
	// DurationMS is the time from the request to the last token, in milliseconds.
	DurationMS int64 `json:"durationMs"`
	ToolCalls  int   `json:"toolCalls"`
	// RationaleMissing is the number of calls without a reason; nil if reasons were not asked for.
	RationaleMissing *int `json:"rationaleMissing,omitempty"`
}
