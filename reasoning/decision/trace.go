package decision

import (
	"runner/reasoning"
)

// Kind says what a trace event reports.
type Kind string

// The kinds of trace event, with the fields that they have beside those of all.
const (
	// RunStarted has goal, model, strategy, visibility, effort and seed.
	RunStarted Kind = "run-started"
	// ToolCallStart has callIndex, toolCallId, toolName, and rationale if the reason was known before the call.
	ToolCallStart Kind = "tool-call-start"
	// DecisionEvaluated has decision, rationale, and for a call callIndex, toolCallId and toolName. It comes with every reason of the model's.
	DecisionEvaluated Kind = "decision-evaluated"
	// AlternativesConsidered has decision, alternatives and what DecisionEvaluated has for a call. It follows that.
	AlternativesConsidered Kind = "alternatives-considered"
	// AssumptionRecorded has assumption, and because if the model gave a reason.
	AssumptionRecorded Kind = "assumption-recorded"
	// CuratorDecision has action and reason: what the runner kept from the model.
	CuratorDecision Kind = "curator-decision"
	// StrategySwitched has from, to and reason.
	StrategySwitched Kind = "strategy-switched"
	// KernelStateSnapshot has terminatedBy and terminationRationale.
	KernelStateSnapshot Kind = "kernel-state-snapshot"
	// RunCompleted has status, totalTokens, totalCostUsd, durationMs, toolCalls and, where reasons were asked for, rationaleMissing.
	RunCompleted Kind = "run-completed"
)

// Statuses of a run.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
)

// Event is one line of a trace. Its JSON form leaves out what is empty, except the fields of all kinds and the numbers of RunCompleted.
type Event struct {
	Type  Kind   `json:"type"`
	RunID string `json:"runId"`
	// Timestamp is in milliseconds since 1970.
	Timestamp int64 `json:"timestamp"`
	// Iter counts the turns since the user's last message, from 1, and Seq the run's trace events, from 0.
	Iter int `json:"iter"`
	Seq  int `json:"seq"`

	Goal       string  `json:"goal,omitempty"`
	Model      string  `json:"model,omitempty"`
	Strategy   string  `json:"strategy,omitempty"`
	Visibility string  `json:"visibility,omitempty"`
	Effort     string  `json:"effort,omitempty"`
	Seed       *uint64 `json:"seed,omitempty"`

	Decision string `json:"decision,omitempty"`
	// CallIndex counts the calls of the turn, from 0.
	CallIndex    *int                 `json:"callIndex,omitempty"`
	ToolCallID   string               `json:"toolCallId,omitempty"`
	ToolName     string               `json:"toolName,omitempty"`
	Rationale    *reasoning.Rationale `json:"rationale,omitempty"`
	Alternatives []reasoning.Rejected `json:"alternatives,omitempty"`

	Assumption string `json:"assumption,omitempty"`
	Because    string `json:"because,omitempty"`

	Action string `json:"action,omitempty"`
	Reason string `json:"reason,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`

	TerminatedBy         string `json:"terminatedBy,omitempty"`
	TerminationRationale string `json:"terminationRationale,omitempty"`

	*Totals
}

// Totals are the numbers of RunCompleted.
type Totals struct {
	Status string `json:"status"`
	// TotalTokens counts prompt, completion and summary.
	TotalTokens int `json:"totalTokens"`
	// TotalCostUSD is 0: a model on the own machine has no price.
	TotalCostUSD float64 `json:"totalCostUsd"`
	// DurationMS is the time from the request to the last token, in milliseconds.
	DurationMS int64 `json:"durationMs"`
	ToolCalls  int   `json:"toolCalls"`
	// RationaleMissing counts the calls without a reason; nil where reasons were not asked for.
	RationaleMissing *int `json:"rationaleMissing,omitempty"`
}
