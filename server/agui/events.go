package agui

import "runner/reasoning"

// Event is an event of the protocol, except RUN_FINISHED. It has the fields that its type needs:
//
//	RUN_STARTED                     threadId, runId, parentRunId, protocolVersion
//	REASONING_START, _END           messageId; they enclose the messages of a stretch of reasoning
//	REASONING_MESSAGE_START         messageId, role; _CONTENT has a delta, and _END ends it
//	TEXT_MESSAGE_START              likewise
//	TOOL_CALL_START                 toolCallId, toolCallName, parentMessageId; _ARGS has a delta, and _END ends it
//	SUBAGENT_STARTED                subagentRunId, name; _FINISHED (outcome) or _ERROR (message, code) ends it
//	REASONING_ENCRYPTED_VALUE       subtype (message or tool-call), entityId, encryptedValue
//	CUSTOM                          name and value: "warning", "rationale" (with the call's id) or "assumption"
//	RUN_ERROR                       message, code
//
// What a specialist writes has its subagentRunId.
type Event struct {
	Type            string   `json:"type"`
	ThreadID        string   `json:"threadId,omitempty"`
	RunID           string   `json:"runId,omitempty"`
	ParentRunID     string   `json:"parentRunId,omitempty"`
	ProtocolVersion string   `json:"protocolVersion,omitempty"`
	MessageID       string   `json:"messageId,omitempty"`
	ToolCallID      string   `json:"toolCallId,omitempty"`
	ToolCallName    string   `json:"toolCallName,omitempty"`
	ParentMessageID string   `json:"parentMessageId,omitempty"`
	Role            string   `json:"role,omitempty"`
	Delta           *string  `json:"delta,omitempty"`
	Subtype         string   `json:"subtype,omitempty"`
	EntityID        string   `json:"entityId,omitempty"`
	EncryptedValue  string   `json:"encryptedValue,omitempty"`
	SubagentRunID   string   `json:"subagentRunId,omitempty"`
	Name            string   `json:"name,omitempty"`
	Value           any      `json:"value,omitempty"`
	Message         string   `json:"message,omitempty"`
	Code            string   `json:"code,omitempty"`
	Outcome         *Outcome `json:"outcome,omitempty"`
	// Timestamp is in milliseconds since 1970.
	Timestamp int64 `json:"timestamp"`
}

// decided is a decision with the call that it is about.
type decided struct {
	ToolCallID string `json:"toolCallId"`
	*reasoning.Decision
}

// custom sends a CUSTOM event, for what the protocol has no event for.
func (e *Encoder) custom(name string, value any) {
	e.send(Event{Type: "CUSTOM", Name: name, Value: value})
}

// say sends an event with a delta.
func (e *Encoder) say(event Event, delta string) {
	e.piece, event.Delta = delta, &e.piece
	e.send(event)
}

// send sends an event. It belongs to the current specialist, if there is one.
func (e *Encoder) send(event Event) {
	e.event = event
	if e.event.Timestamp = e.cfg.Clock().UnixMilli(); e.specialist != "" {
		e.event.SubagentRunID = e.specialist
	}
	e.write(&e.event)
}

func (e *Encoder) write(event any) {
	if e.err == nil {
		e.err = e.out(event)
	}
}
