package agui

import (
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// RunFinished is the event at the end of a run that did not fail.
//
//openapi:answer AguiRunFinished
type RunFinished struct {
	// The type of the event.
	Type string `json:"type" api:"=RUN_FINISHED"`
	// As in the request.
	ThreadID string `json:"threadId"`
	// As in the request.
	RunID string `json:"runId"`
	// How the run ended.
	Outcome Outcome `json:"outcome"`
	// The token counts of the run, and those of the summary if there is one. Absent if the run was cancelled.
	Usage []TokenUsage `json:"usage,omitempty"`
	// What `runAgent` returns in addition to the messages. Absent if the run was cancelled.
	Result    *RunResult `json:"result,omitempty"`
	Timestamp int64      `json:"timestamp" api:"#AguiTimestamp"`
}

// Outcome says how a run ended.
//
//openapi:answer AguiOutcome
type Outcome struct {
	// `interrupt` if calls wait and the request has `interrupts`, and `cancelled` if the run was stopped. Requests without
	// a `protocolVersion` get only `success`.
	Type string `json:"type" api:"=success,interrupt,cancelled"`
	// The ids of the calls that wait for the client. Absent if there are none, or if the request had no
	// `protocolVersion`.
	PendingToolCallIDs []string `json:"pendingToolCallIds,omitempty"`
	// The calls that wait, if the type is `interrupt`.
	Interrupts []Interrupt `json:"interrupts,omitempty"`
}

// Interrupt is a call that waits for an entry of `resume`.
//
//openapi:answer AguiInterrupt
type Interrupt struct {
	// The id of the call.
	ID string `json:"id"`
	// Why the run waits.
	Reason string `json:"reason" api:"=tool_call"`
	// The id of the call.
	ToolCallID string `json:"toolCallId"`
}

// TokenUsage counts tokens.
//
//openapi:answer AguiUsage
type TokenUsage struct {
	// The name of the model.
	Model string `json:"model"`
	// The tokens of the prompt. Absent for the summary.
	InputTokens *int `json:"inputTokens,omitempty"`
	// The tokens of the prompt that were in the cache. Absent for the summary.
	CachedInputTokens *int `json:"cachedInputTokens,omitempty"`
	// The generated tokens.
	OutputTokens int `json:"outputTokens"`
	// The generated tokens that were reasoning. Absent for the summary.
	ReasoningTokens *int `json:"reasoningTokens,omitempty"`
	// The sum of `inputTokens` and `outputTokens`.
	TotalTokens int `json:"totalTokens"`
}

// RunResult is what the function runAgent of AG-UI's clients returns for a run in addition to its messages.
//
//openapi:answer AguiResult
type RunResult struct {
	// Why the answer ended: by itself or at a stop string (`stop`), at a limit (`length`), or with calls.
	FinishReason reasoning.FinishReason `json:"finish_reason" api:"=stop,length,tool_calls"`
	FinishDetail string                 `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID      string                 `json:"trace_id,omitempty" api:"#TraceID"`
	// True if reasoning was requested and the model gave none.
	ReasoningUnavailable bool     `json:"reasoning_unavailable,omitempty"`
	SummarySource        string   `json:"reasoning_summary_source,omitempty" api:"#SummarySource"`
	Score                *float64 `json:"score,omitempty" api:"#Score"`
	// The settings of the reasoning that were used.
	Info contract.ReasoningInfo `json:"reasoning_info"`
}

// finish ends a run that did not fail.
func (e *Encoder) finish(r *reasoning.Result) {
	if e.unsent { // nothing came after the reasoning
		e.openThoughts(reasoning.Reasoning, true)
		e.begin(e.message(reasoning.Reasoning))
		if e.cfg.Form == FormChunked {
			e.say(Event{Type: "REASONING_MESSAGE_CHUNK", MessageID: e.message(reasoning.Reasoning)}, "")
		}
		e.carry("message", e.message(reasoning.Reasoning))
		e.closeThoughts(reasoning.Reasoning)
	}
	u := &r.Usage
	f := RunFinished{
		Type: "RUN_FINISHED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID, Timestamp: e.cfg.Clock().UnixMilli(),
		Outcome: Outcome{Type: "success"},
		Usage: []TokenUsage{{
			Model: e.cfg.Model, InputTokens: &u.Prompt, CachedInputTokens: &u.Cached, OutputTokens: u.Completion,
			ReasoningTokens: &u.Reasoning,
			TotalTokens:     u.Prompt + u.Completion,
		}},
		Result: &RunResult{
			FinishReason: r.Finish, FinishDetail: r.Detail, TraceID: r.Trace, ReasoningUnavailable: r.ReasoningUnavailable,
			SummarySource: r.SummarySource, Score: contract.Score(r),
			Info: *contract.InfoOf(&e.info),
		},
	}
	switch {
	case e.cfg.ProtocolVersion == "":
	case e.cfg.Interrupts && len(e.calls) > 0:
		f.Outcome.Type = "interrupt"
		for _, id := range e.calls {
			f.Outcome.Interrupts = append(f.Outcome.Interrupts, Interrupt{id, "tool_call", id})
		}
	default:
		f.Outcome.PendingToolCallIDs = e.calls
	}
	if u.Summary > 0 {
		f.Usage = append(f.Usage, TokenUsage{Model: e.cfg.Model, OutputTokens: u.Summary, TotalTokens: u.Summary})
	}
	e.write(&f)
}

// Fail ends the run with an error, even if the run has not started. It returns the error of send. For clients of 1.0 a
// run that was cancelled has that outcome.
func (e *Encoder) Fail(err *wire.Error) error {
	e.Release()
	if err.Code == wire.CodeClientCancelled && e.cfg.ProtocolVersion != "" && e.event.Type != "" {
		e.cancelled()
		return e.err
	}
	e.send(Event{Type: "RUN_ERROR", Message: err.Error(), Code: err.Code})
	return e.err
}

// closeParts ends the open segments.
func (e *Encoder) closeParts() {
	for i := range e.parts {
		if e.parts[i].Kind == reasoning.SegmentEnd {
			e.segment(&e.parts[i])
		}
	}
}

// cancelled ends a run that was cancelled, and what is open in it.
func (e *Encoder) cancelled() {
	e.closeParts()
	if e.active != "" {
		e.delegated(&reasoning.Event{Kind: reasoning.DelegationEnd,
			Delegation: &reasoning.Delegation{ID: e.active, Outcome: reasoning.DelegationFailed}})
	}
	e.write(&RunFinished{Type: "RUN_FINISHED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID,
		Outcome: Outcome{Type: "cancelled"}, Timestamp: e.cfg.Clock().UnixMilli()})
}
