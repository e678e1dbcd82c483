package agui

import (
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ProtocolVersion is the supported version of AG-UI.
const ProtocolVersion = "1.0"

// Form is the form of the events of reasoning messages.
type Form uint8

// The forms.
const (
	// FormStandard: REASONING_MESSAGE_START, _CONTENT and _END.
	FormStandard Form = iota
	// FormChunked: REASONING_MESSAGE_CHUNK. Each chunk names its message, because any other event closes the message, and
	// the next chunk opens it again.
	FormChunked
	// FormLegacy: THINKING_*, the names up to 0.0.45.
	FormLegacy
)

// EncoderConfig holds what an [Encoder] cannot learn from the events of a run.
type EncoderConfig struct {
	// ThreadID and RunID are the ids of the conversation and the run. ParentRunID is the run that it continues, and may
	// be empty.
	ThreadID, RunID, ParentRunID string
	// ProtocolVersion is the version that the client speaks. It is empty for clients before 1.0, which refuse some of
	// its fields.
	ProtocolVersion string
	// Model is the model's name.
	Model string
	Form  Form
	// Seal says that the run's sealed value was asked for. Hidden reasoning then has an empty message that carries it.
	Seal bool
	// Warnings are about the request.
	Warnings []wire.Warning
	// Clock gives the timestamps.
	Clock func() time.Time
	// NewID returns an id with a prefix that no other message of the conversation has.
	NewID func(prefix string) string
}

// Encoder writes the events of a run as events of AG-UI, which go to a function. It is for one goroutine at a time.
//
// A client's history reads user, reasoning, assistant. So the message of a summary begins before the answer, although
// its text is generated at the same time. [FormChunked] cannot begin a message and continue it later; there the answer
// waits for the end of the summary.
//
// Hidden reasoning that the run marks ([generation.Request.Phases]) shows as REASONING_START and REASONING_END.
//
// The events are [Event] values and, at the end, [RunFinished].
type Encoder struct {
	contract.Queue
	cfg EncoderConfig
	out func(event any) error
	err error
	// event is the last event, and piece what its delta points to.
	event Event
	piece string

	info reasoning.Info
	// ids are the ids of the messages of each kind of segment. assistant is the id of the assistant's first message.
	ids       [reasoning.Answer + 1]string
	assistant string
	calls     []string
	// specialist is the specialist that the current event belongs to; empty for the run's own events. theirs are the ids
	// of the current specialist's messages.
	specialist string
	theirs     [reasoning.Answer + 1]string
	// parent is the message that the calls belong to. bare says that the open call has no arguments yet.
	parent string
	bare   bool
	// begun are the kinds whose message was sent to the client.
	begun [reasoning.Answer + 1]bool
	// summary says which part of the summary is open. expected says that the model has reasoned and its summary will
	// come. over says that no summary will come any more.
	summary        summaryState
	expected, over bool
}

// summaryState says which part of the summary is open.
type summaryState uint8

const (
	summaryShut summaryState = iota
	// summarySpan: REASONING_START was sent, but the message is not open.
	summarySpan
	summaryMessage
)

// NewEncoder returns an encoder. send gets each event, which is valid until send returns. After its first error it gets
// no more.
func NewEncoder(cfg EncoderConfig, send func(event any) error) *Encoder {
	e := &Encoder{cfg: cfg, out: send}
	e.Waits, e.To = e.waits, e.push
	return e
}

// Push takes the next event of the run, which is the only one of its stream. It returns the error of send; later calls
// return the same error.
func (e *Encoder) Push(_ int, ev *reasoning.Event) error {
	e.Queue.Push(ev)
	return e.err
}

// End implements [wire.Encoder].
func (e *Encoder) End(err error) {
	if err != nil {
		_ = e.Fail(wire.FromError(err, fields)) // the client may be gone; the run has ended anyway
	}
}

// waits reports whether an event must wait for the summary.
func (e *Encoder) waits(ev *reasoning.Event) bool {
	if !e.expected || e.cfg.Form != FormChunked {
		return false
	}
	switch ev.Kind {
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		return ev.Segment != reasoning.Summary && ev.Segment != reasoning.Reasoning
	case reasoning.DelegationStart, reasoning.DelegationEnd:
		return !e.Empty()
	}
	return false
}

// summaryOver notes that the summary is complete or will not come, and sends the events that waited for it.
func (e *Encoder) summaryOver() {
	e.expected, e.over = false, true
	e.Release()
}

func (e *Encoder) push(ev *reasoning.Event) {
	switch ev.Kind {
	case reasoning.Started:
		e.start(ev.Info)
	case reasoning.StrategySwitched:
		e.note(ev.Info)
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		e.segment(ev)
	case reasoning.Warning:
		e.custom("warning", wire.Warning{Code: ev.Code, Message: ev.Text})
		if ev.Code == generation.CodeSummaryUnavailable {
			e.closeSummary()
			e.summaryOver()
		}
	case reasoning.Decided:
		if ev.Decision != nil {
			e.custom("rationale", decided{ev.Call.ID, ev.Decision})
		}
	case reasoning.Assumed:
		if ev.Assumption != nil {
			e.custom("assumption", ev.Assumption)
		}
	case reasoning.DelegationStart, reasoning.DelegationEnd:
		e.delegated(ev)
	case reasoning.Done:
		e.summaryOver()
		e.finish(ev.Result)
	}
}

// delegated sends the beginning and the end of a specialist, which gets messages of its own. Clients before 1.0 do not
// know subagents; for them its reasoning is the run's.
func (e *Encoder) delegated(ev *reasoning.Event) {
	if e.cfg.ProtocolVersion == "" || ev.Delegation == nil {
		return
	}
	event := Event{Type: "SUBAGENT_FINISHED", SubagentRunID: ev.Delegation.ID, Outcome: &Outcome{Type: "success"}}
	switch {
	case ev.Kind == reasoning.DelegationStart:
		event = Event{Type: "SUBAGENT_STARTED", SubagentRunID: ev.Delegation.ID, Name: "specialist"}
	case ev.Delegation.Outcome == reasoning.DelegationFailed:
		event = Event{Type: "SUBAGENT_ERROR", SubagentRunID: ev.Delegation.ID, Code: "delegation_failed",
			Message: "the specialist failed, and the original prompt is back"}
	case ev.Delegation.Outcome == reasoning.DelegationPending:
		event.Outcome.Type = "suspended"
	}
	e.send(event)
	e.theirs = [reasoning.Answer + 1]string{}
}

// note notes the settings in effect.
func (e *Encoder) note(info *reasoning.Info) {
	if info != nil {
		e.info = *info
	}
}

func (e *Encoder) start(info *reasoning.Info) {
	e.note(info)
	e.send(Event{Type: "RUN_STARTED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID, ParentRunID: e.cfg.ParentRunID,
		ProtocolVersion: ProtocolVersion})
	for _, w := range e.cfg.Warnings {
		e.custom("warning", w)
	}
}

// segment sends an event of a segment. It belongs to the specialist's message if the client knows subagents. Calls
// always belong to the run, because the client answers all of them.
func (e *Encoder) segment(ev *reasoning.Event) {
	if e.cfg.ProtocolVersion != "" && ev.Segment != reasoning.ToolCall {
		e.specialist = ev.Specialist
	}
	switch ev.Kind {
	case reasoning.SegmentStart:
		e.open(ev)
	case reasoning.SegmentDelta:
		e.delta(ev)
	default:
		e.close(ev)
	}
	e.specialist = ""
}

// message returns the id of the run's message for a kind of segment, or of the specialist's.
func (e *Encoder) message(s reasoning.Segment) string {
	if e.specialist != "" {
		if e.theirs[s] == "" {
			e.theirs[s] = e.cfg.NewID(map[bool]string{true: "reasoning_", false: "msg_"}[s == reasoning.Reasoning])
		}
		return e.theirs[s]
	}
	if e.ids[s] == "" {
		switch s {
		case reasoning.Reasoning:
			e.ids[s] = e.cfg.NewID("reasoning_")
		case reasoning.Summary:
			e.ids[s] = e.cfg.NewID(summaryPrefix)
		default:
			e.ids[s] = e.cfg.NewID("msg_")
			e.says(e.ids[s])
		}
	}
	return e.ids[s]
}

// says notes a message of the assistant.
func (e *Encoder) says(id string) {
	if e.assistant == "" {
		e.assistant = id
	}
}

func (e *Encoder) open(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Reasoning:
		if e.info.Visibility != reasoning.VisibilitySummary {
			e.openThoughts(ev.Segment, e.hasBody(), e.info.Visibility == reasoning.VisibilityNone)
		} else if !e.over {
			e.expected = true
			e.openSummary(summarySpan, false)
		}
	case reasoning.Summary:
		e.openSummary(summaryMessage, false)
	case reasoning.Preamble, reasoning.Answer:
		if e.expected || e.explains(ev.Segment) {
			e.openSummaryAhead()
		}
		e.send(Event{Type: "TEXT_MESSAGE_START", MessageID: e.message(ev.Segment), Role: "assistant"})
	case reasoning.ToolCall:
		if e.expected {
			e.openSummaryAhead()
		}
		if e.parent == "" {
			if e.parent = e.assistant; e.parent == "" {
				e.parent = e.cfg.NewID("msg_")
				e.says(e.parent)
			}
		}
		e.calls, e.bare = append(e.calls, ev.Call.ID), true
		e.send(Event{Type: "TOOL_CALL_START", ToolCallID: ev.Call.ID, ToolCallName: ev.Call.Name,
			ParentMessageID: e.parent})
	}
}

// explains reports whether an answer without reasoning before it may get a summary that explains it.
func (e *Encoder) explains(s reasoning.Segment) bool {
	if s != reasoning.Answer || e.over {
		return false
	}
	v := e.info.Visibility
	posthoc := e.info.Strategy == reasoning.StrategyPosthoc
	return v == reasoning.VisibilitySummary || v == reasoning.VisibilityFull && posthoc
}

// hasBody reports whether the reasoning has a message. Hidden reasoning has one if a value needs it.
func (e *Encoder) hasBody() bool {
	return e.info.Visibility != reasoning.VisibilityNone || e.cfg.Seal && e.specialist == ""
}

func (e *Encoder) delta(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Reasoning, reasoning.Summary:
		e.say(Event{Type: contents[e.cfg.Form], MessageID: e.message(ev.Segment)}, ev.Text)
	case reasoning.Preamble, reasoning.Answer:
		e.say(Event{Type: "TEXT_MESSAGE_CONTENT", MessageID: e.message(ev.Segment)}, ev.Text)
	case reasoning.ToolCall:
		e.bare = false
		e.say(Event{Type: "TOOL_CALL_ARGS", ToolCallID: ev.Call.ID}, ev.Text)
	}
}

func (e *Encoder) close(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Reasoning:
		if e.info.Visibility != reasoning.VisibilitySummary {
			e.closeThoughts(ev.Segment, e.hasBody())
		}
	case reasoning.Summary:
		e.closeSummary()
		e.summaryOver()
	case reasoning.Preamble, reasoning.Answer:
		e.send(Event{Type: "TEXT_MESSAGE_END", MessageID: e.message(ev.Segment)})
	case reasoning.ToolCall:
		if e.bare { // clients read arguments as JSON
			e.say(Event{Type: "TOOL_CALL_ARGS", ToolCallID: ev.Call.ID}, "{}")
		}
		e.send(Event{Type: "TOOL_CALL_END", ToolCallID: ev.Call.ID})
	}
}

// The events of reasoning, by form.
var (
	contents  = [...]string{"REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT"}
	spanStart = [...]string{"REASONING_START", "REASONING_START", "THINKING_START"}
	spanEnd   = [...]string{"REASONING_END", "REASONING_END", "THINKING_END"}
)

// openThoughts begins a stretch of reasoning, with or without a message. stays says that no text follows at once; then
// FormChunked needs an empty chunk to begin the message.
func (e *Encoder) openThoughts(of reasoning.Segment, body, stays bool) {
	e.send(Event{Type: spanStart[e.cfg.Form], MessageID: e.message(of)})
	if body {
		e.openBody(of, stays)
	}
}

// openBody begins the message of a stretch of reasoning.
func (e *Encoder) openBody(of reasoning.Segment, stays bool) {
	id := e.message(of)
	switch e.cfg.Form {
	case FormStandard:
		e.send(Event{Type: "REASONING_MESSAGE_START", MessageID: id, Role: "reasoning"})
	case FormChunked:
		if stays {
			e.say(Event{Type: "REASONING_MESSAGE_CHUNK", MessageID: id}, "")
		}
	case FormLegacy:
		e.send(Event{Type: "THINKING_TEXT_MESSAGE_START", MessageID: id})
	}
	if e.specialist == "" {
		e.begun[of] = true
	}
}

// closeThoughts ends a stretch of reasoning.
func (e *Encoder) closeThoughts(of reasoning.Segment, body bool) {
	id := e.message(of)
	switch {
	case !body, e.cfg.Form == FormChunked:
	case e.cfg.Form == FormStandard:
		e.send(Event{Type: "REASONING_MESSAGE_END", MessageID: id})
	default:
		e.send(Event{Type: "THINKING_TEXT_MESSAGE_END", MessageID: id})
	}
	e.send(Event{Type: spanEnd[e.cfg.Form], MessageID: id})
}

// openSummaryAhead begins the message of a summary whose text comes later, so that it is before the answer.
func (e *Encoder) openSummaryAhead() {
	if !e.begun[reasoning.Summary] {
		e.openSummary(summaryMessage, true)
	}
}

// openSummary opens the parts of the summary that are not open yet. stays is as in openThoughts. The summary belongs to
// the run, even while a specialist is active.
func (e *Encoder) openSummary(to summaryState, stays bool) {
	specialist := e.specialist
	e.specialist = ""
	if e.summary == summaryShut {
		e.openThoughts(reasoning.Summary, false, false)
		e.summary = summarySpan
	}
	if e.summary < to {
		e.openBody(reasoning.Summary, stays)
		e.summary = summaryMessage
	}
	e.specialist = specialist
}

// closeSummary closes the open parts of the summary.
func (e *Encoder) closeSummary() {
	if e.summary != summaryShut {
		e.closeThoughts(reasoning.Summary, e.summary == summaryMessage)
		e.summary = summaryShut
	}
}

// seal sends the run's sealed value, if it is not empty, and closes the summary. The message that carries it must be
// open, so a closed one is opened again. It is the message of the reasoning or of the summary, or without both the
// assistant's.
func (e *Encoder) seal(value string) {
	of := reasoning.Reasoning
	switch {
	case value == "":
		e.closeSummary()
		return
	case e.summary != summaryShut:
		e.openSummary(summaryMessage, true)
		e.sealed("message", e.message(reasoning.Summary), value)
		e.closeSummary()
	case !e.begun[of] && !e.begun[reasoning.Summary] && e.assistant != "":
		e.send(Event{Type: "TEXT_MESSAGE_START", MessageID: e.assistant, Role: "assistant"})
		e.sealed("message", e.assistant, value)
		e.send(Event{Type: "TEXT_MESSAGE_END", MessageID: e.assistant})
	default:
		if !e.begun[of] && e.begun[reasoning.Summary] {
			of = reasoning.Summary
		}
		e.openThoughts(of, true, true)
		e.sealed("message", e.message(of), value)
		e.closeThoughts(of, true)
	}
	for _, id := range e.calls {
		e.sealed("tool-call", id, value)
	}
}
