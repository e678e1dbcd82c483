package agui

import (
	"strings"
	"time"

	"runner/reasoning"
	"runner/reasoning/seal"
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
	// Interrupts says that calls end the run with the outcome interrupt.
	Interrupts bool
	// Warnings are about the request.
	Warnings []wire.Warning
	// Clock gives the timestamps.
	Clock func() time.Time
	// NewID returns an id with a prefix that no other message of the conversation has.
	NewID func(prefix string) string
}

// Encoder writes the events of a run as events of AG-UI, which go to a function. It is for one goroutine at a time.
//
// A client's history reads user, reasoning, assistant. A summary is generated at the same time as the answer, so the
// answer waits for it.
//
// Hidden reasoning that the run marks ([generation.Request.Phases]) shows as REASONING_START and REASONING_END.
//
// A message of reasoning begins with its first text, so none is empty, and no message begins with blank lines.
//
// A sealed value stands in the message of its reasoning or of the summary, which is open then. Without these it stands
// in the assistant's next message. Calls carry it too, because some clients keep nothing else. If nothing follows, an
// empty reasoning message carries it. All stretches of reasoning are one message, so each value has those before it.
//
// The events are [Event] values and, at the end, [RunFinished].
type Encoder struct {
	reasoning.SummaryFirst
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
	// thinking is the kind of the open stretch of reasoning that is shown; Header if there is none. begun says that its
	// message is open, which is so from its first text on. said has the ids of the messages with text.
	thinking reasoning.Segment
	begun    bool
	said     map[string]bool
	// parts end the open segments, by kind; another kind of event means that none is open. active is the id of the open
	// specialist.
	parts  [reasoning.Answer + 1]reasoning.Event
	active string
	// sealed has the values so far, joined. unsent says that no message has the last one yet.
	sealed string
	unsent bool
}

// NewEncoder returns an encoder. send gets each event, which is valid until send returns. After its first error it gets
// no more.
func NewEncoder(cfg EncoderConfig, send func(event any) error) *Encoder {
	e := &Encoder{cfg: cfg, out: send, said: map[string]bool{}}
	e.To = e.push
	return e
}

// Push takes the next event of the run, which is the only one of its stream. It returns the error of send; later calls
// return the same error.
func (e *Encoder) Push(_ int, ev *reasoning.Event) error {
	e.SummaryFirst.Push(ev)
	return e.err
}

// End implements [wire.Encoder].
func (e *Encoder) End(err error) {
	if err != nil {
		_ = e.Fail(wire.FromError(err, fields)) // the client may be gone; the run has ended anyway
	}
}

func (e *Encoder) push(ev *reasoning.Event) {
	switch ev.Kind {
	case reasoning.Started:
		e.start(ev.Info)
	case reasoning.StrategySwitched:
		e.note(ev.Info)
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd, reasoning.Sealed:
		e.segment(ev)
	case reasoning.Warning:
		e.custom("warning", wire.Warning{Code: ev.Code, Message: ev.Text})
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
		e.finish(ev.Result)
	}
}

// delegated sends the beginning and the end of a specialist, which gets messages of its own. Clients before 1.0 do not
// know subagents; for them its reasoning is the run's.
func (e *Encoder) delegated(ev *reasoning.Event) {
	if e.cfg.ProtocolVersion == "" || ev.Delegation == nil {
		return
	}
	e.closeParts() // a specialist that is cut ends with open segments
	event := Event{Type: "SUBAGENT_FINISHED", SubagentRunID: ev.Delegation.ID, Outcome: &Outcome{Type: "success"}}
	e.active = ""
	switch {
	case ev.Kind == reasoning.DelegationStart:
		e.active = ev.Delegation.ID
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

// segment sends an event of a segment, or a sealed value. It belongs to the specialist's message if the client knows
// subagents. Calls always belong to the run, because the client answers all of them.
func (e *Encoder) segment(ev *reasoning.Event) {
	if e.cfg.ProtocolVersion != "" && ev.Segment != reasoning.ToolCall {
		e.specialist = ev.Specialist
	}
	switch ev.Kind {
	case reasoning.SegmentStart:
		e.parts[ev.Segment] = *ev
		e.parts[ev.Segment].Kind = reasoning.SegmentEnd
		e.open(ev)
	case reasoning.SegmentDelta:
		e.delta(ev)
	case reasoning.Sealed:
		e.seal(ev.Text)
	default:
		e.parts[ev.Segment].Kind = reasoning.Started
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
		e.openThoughts(ev.Segment, e.info.Visibility == reasoning.VisibilityFull)
	case reasoning.Summary:
		e.openThoughts(ev.Segment, true)
	case reasoning.Preamble, reasoning.Answer:
		id := e.message(ev.Segment)
		e.send(Event{Type: "TEXT_MESSAGE_START", MessageID: id, Role: "assistant"})
		if ev.Segment == reasoning.Answer { // a call that follows other text has the value
			e.carry("message", id)
		}
	case reasoning.ToolCall:
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

func (e *Encoder) delta(ev *reasoning.Event) {
	if ev.Segment == reasoning.ToolCall {
		e.bare = false
		e.say(Event{Type: "TOOL_CALL_ARGS", ToolCallID: ev.Call.ID}, ev.Text)
		return
	}
	id, text, kind := e.message(ev.Segment), ev.Text, "TEXT_MESSAGE_CONTENT"
	if !e.said[id] {
		if text = strings.TrimLeft(text, "\r\n"); text == "" {
			return
		}
		e.said[id] = true
	}
	if e.thinking == ev.Segment {
		e.begin(id)
		kind = contents[e.cfg.Form]
	}
	e.say(Event{Type: kind, MessageID: id}, text)
}

func (e *Encoder) close(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Summary:
		if e.begun {
			e.carry("message", e.message(ev.Segment))
		}
		e.closeThoughts(ev.Segment)
	case reasoning.Reasoning:
		e.closeThoughts(ev.Segment)
	case reasoning.Preamble, reasoning.Answer:
		e.send(Event{Type: "TEXT_MESSAGE_END", MessageID: e.message(ev.Segment)})
	case reasoning.ToolCall:
		if e.bare { // clients read arguments as JSON
			e.say(Event{Type: "TOOL_CALL_ARGS", ToolCallID: ev.Call.ID}, "{}")
		}
		e.send(Event{Type: "TOOL_CALL_END", ToolCallID: ev.Call.ID})
		e.unsent = e.sealed != ""
		e.carry("tool-call", ev.Call.ID)
	}
}

// The events of reasoning, by form.
var (
	contents  = [...]string{"REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT"}
	spanStart = [...]string{"REASONING_START", "REASONING_START", "THINKING_START"}
	spanEnd   = [...]string{"REASONING_END", "REASONING_END", "THINKING_END"}
)

// openThoughts begins a stretch of reasoning. If it is shown, its first text begins a message.
func (e *Encoder) openThoughts(of reasoning.Segment, shown bool) {
	e.send(Event{Type: spanStart[e.cfg.Form], MessageID: e.message(of)})
	if shown {
		e.thinking = of
	}
}

// begin begins the message of the open stretch of reasoning, unless it is open.
func (e *Encoder) begin(id string) {
	switch {
	case e.begun:
	case e.cfg.Form == FormStandard:
		e.send(Event{Type: "REASONING_MESSAGE_START", MessageID: id, Role: "reasoning"})
	case e.cfg.Form == FormLegacy:
		e.send(Event{Type: "THINKING_TEXT_MESSAGE_START", MessageID: id})
	}
	e.begun = true
}

// closeThoughts ends a stretch of reasoning.
func (e *Encoder) closeThoughts(of reasoning.Segment) {
	id := e.message(of)
	if e.thinking == of {
		switch {
		case !e.begun:
		case e.cfg.Form == FormStandard:
			e.send(Event{Type: "REASONING_MESSAGE_END", MessageID: id})
		case e.cfg.Form == FormLegacy:
			e.send(Event{Type: "THINKING_TEXT_MESSAGE_END", MessageID: id})
		}
		e.thinking, e.begun = reasoning.Header, false
	}
	e.send(Event{Type: spanEnd[e.cfg.Form], MessageID: id})
}

// seal takes a sealed value. The message of its reasoning gets it at once, if there is one.
func (e *Encoder) seal(value string) {
	e.sealed, e.unsent = seal.Join(e.sealed, value), true
	if e.begun && e.thinking == reasoning.Reasoning {
		e.carry("message", e.message(reasoning.Reasoning))
	}
}

// carry sends the values so far with a message, which is open, or with a call, if the last one is unsent.
func (e *Encoder) carry(subtype, id string) {
	if e.unsent {
		e.send(Event{Type: "REASONING_ENCRYPTED_VALUE", Subtype: subtype, EntityID: id, EncryptedValue: e.sealed})
		e.unsent = false
	}
}
