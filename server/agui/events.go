package agui

import (
	"encoding/json"
	"strconv"

	"runner/reasoning"
	"runner/server/wire"
)

// The events as they are written. encode.go says which events there are, and when.

// warn sends a warning as a CUSTOM event.
func (e *Encoder) warn(code, message string) {
	e.begin("CUSTOM")
	e.field("name", "warning")
	e.buf = wire.AppendString(append(e.buf, `,"value":{"code":`...), code)
	e.buf = wire.AppendString(append(e.buf, `,"message":`...), message)
	e.buf = append(e.buf, '}')
	e.send()
}

// decided is a decision in the form that clients get.
type decided struct {
	ToolCallID string `json:"toolCallId"`
	*reasoning.Decision
}

// decided sends a decision with the call that it is about.
func (e *Encoder) decided(call reasoning.Call, d *reasoning.Decision) {
	if d != nil {
		e.custom("rationale", decided{call.ID, d})
	}
}

// assumed sends an assumption of the model.
func (e *Encoder) assumed(a *reasoning.Assumption) {
	if a != nil {
		e.custom("assumption", a)
	}
}

// custom sends a CUSTOM event, for what the protocol has no event for.
func (e *Encoder) custom(name string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		return // never: these values can always be encoded
	}
	e.begin("CUSTOM")
	e.field("name", name)
	e.buf = append(append(e.buf, `,"value":`...), body...)
	e.send()
}

// sealed sends the sealed value of a message or call.
func (e *Encoder) sealed(subtype, id, value string) {
	e.begin("REASONING_ENCRYPTED_VALUE")
	e.field("subtype", subtype)
	e.field("entityId", id)
	e.field("encryptedValue", value)
	e.send()
}

// text sends an event with a delta.
func (e *Encoder) text(event, of, id, delta string) {
	e.begin(event)
	e.field(of, id)
	e.field("delta", delta)
	e.send()
}

// mark sends an event with only the id of a message or call.
func (e *Encoder) mark(event, of, id string) {
	e.begin(event)
	e.field(of, id)
	e.send()
}

// begin begins an event.
func (e *Encoder) begin(event string) {
	e.buf = append(append(append(e.buf[:0], `{"type":"`...), event...), '"')
}

// field adds a string to the event.
func (e *Encoder) field(name, value string) {
	e.buf = append(append(append(e.buf, `,"`...), name...), `":`...)
	e.buf = wire.AppendString(e.buf, value)
}

// send ends the event and sends it.
func (e *Encoder) send() {
	if e.specialist != "" {
		e.field("subagentRunId", e.specialist)
	}
	e.buf = strconv.AppendInt(append(e.buf, `,"timestamp":`...), e.cfg.Clock().UnixMilli(), 10)
	e.buf = append(e.buf, '}')
	if e.err == nil {
		e.err = e.out(e.buf)
	}
}
