package anthropic

import (
	"encoding/json"
	"strconv"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// sender takes the frames of a stream.
type sender interface {
	Send(event string, data []byte) error
}

// encoder is the sink of a streamed reply. It allocates nothing for a delta.
type encoder struct {
	to    sender
	reply reply
	buf   []byte
	index int
	kind  blockKind
	err   error
}

func newEncoder(to sender, r reply) *encoder { return &encoder{to: to, reply: r} }

// MessageDelta is the data of the event message_delta. The other events have no types in Go: message_start with the
// known fields of the Message; content_block_start, content_block_delta and content_block_stop with the index of a
// block and a part of it; ping; and message_stop.
//
// How the answer ended, in the second last event of a stream.
//
//openapi:answer MessageDelta
type MessageDelta struct {
	// The type of the event.
	Type string `json:"type" api:"=message_delta"`
	// What is only known at the end.
	Delta struct {
		StopReason string `json:"stop_reason" api:"#StopReason"`
		// The stop sequence that ended the answer, if one did.
		StopSequence *string `json:"stop_sequence"`
		// Always null.
		StopDetails *struct{} `json:"stop_details" api:"null"`
	} `json:"delta"`
	Usage Usage `json:"usage"`
	// The settings of the reasoning that were used.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// What was not done as requested, and what was wrong with the model's output. Absent if there is nothing to report.
	Warnings []Warning `json:"warnings,omitempty"`
}

// send sends a frame whose data is in buf.
func (e *encoder) send(event string) {
	if e.err == nil {
		e.err = e.to.Send(event, e.buf)
	}
}

// start sends what is before the first block. How much of the prompt was cached is only known at the end.
func (e *encoder) start(prompt int) {
	b := append(e.buf[:0], `{"type":"message_start","message":{"id":`...)
	b = wire.AppendString(b, e.reply.id)
	b = append(b, `,"type":"message","role":"assistant","model":`...)
	b = wire.AppendString(b, e.reply.model)
	e.buf = append(b,
		`,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":`...)
	e.buf = append(strconv.AppendInt(e.buf, int64(prompt), 10), `,"output_tokens":0}}}`...)
	e.send("message_start")
	e.buf = append(e.buf[:0], `{"type":"ping"}`...)
	e.send("ping")
}

func (e *encoder) open(kind blockKind, call reasoning.Call) {
	e.kind = kind
	if kind == redactedBlock {
		return // it is sent as a whole when the block is closed
	}
	b := e.begin("content_block_start")
	b = append(b, `,"content_block":`...)
	switch kind {
	case textBlock:
		b = append(b, `{"type":"text","text":""}}`...)
	case thinkingBlock:
		b = append(b, `{"type":"thinking","thinking":"","signature":""}}`...)
	case toolBlock:
		b = wire.AppendString(append(b, `{"type":"tool_use","id":`...), call.ID)
		b = wire.AppendString(append(b, `,"name":`...), call.Name)
		b = append(b, `,"input":{}}}`...)
	}
	e.buf = b
	e.send("content_block_start")
}

// begin writes the beginning of the data of a frame about the open block.
func (e *encoder) begin(event string) []byte {
	b := append(append(append(e.buf[:0], `{"type":"`...), event...), `","index":`...)
	return strconv.AppendInt(b, int64(e.index), 10)
}

func (e *encoder) text(s string) {
	switch e.kind {
	case thinkingBlock:
		e.delta(`{"type":"thinking_delta","thinking":`, s)
	case toolBlock:
		e.delta(`{"type":"input_json_delta","partial_json":`, s)
	default:
		e.delta(`{"type":"text_delta","text":`, s)
	}
}

func (e *encoder) delta(head, s string) {
	b := append(append(e.begin("content_block_delta"), `,"delta":`...), head...)
	e.buf = append(wire.AppendString(b, s), "}}"...)
	e.send("content_block_delta")
}

func (e *encoder) close(signature string) {
	switch e.kind {
	case redactedBlock:
		b := append(e.begin("content_block_start"), `,"content_block":{"type":"redacted_thinking","data":`...)
		e.buf = append(wire.AppendString(b, signature), "}}"...)
		e.send("content_block_start")
	case thinkingBlock:
		e.delta(`{"type":"signature_delta","signature":`, signature)
	}
	e.buf = append(e.begin("content_block_stop"), '}')
	e.send("content_block_stop")
	e.index++
}

func (e *encoder) finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning) {
	d := MessageDelta{
		Type: "message_delta", Usage: usageOf(r.Usage), ReasoningInfo: contract.InfoOf(info), Warnings: warnings,
	}
	d.Delta.StopReason = stopReason(r)
	if r.StopString != "" {
		d.Delta.StopSequence = &r.StopString
	}
	e.buf, _ = json.Marshal(d) // strings and numbers never fail
	e.send("message_delta")
	e.buf = append(e.buf[:0], `{"type":"message_stop"}`...)
	e.send("message_stop")
}
