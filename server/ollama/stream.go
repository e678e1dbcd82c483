package ollama

import (
	"encoding/json"
	"strconv"
	"time"

	"runner/reasoning"
	"runner/server/wire"
)

// sender takes the lines of a stream.
type sender interface {
	Send(event string, data []byte) error
}

// encoder is the sink of a streamed answer. It allocates nothing for a delta.
type encoder struct {
	to   sender
	head head
	// lead is the beginning of each line up to its time. The others are the JSON before and after its text.
	lead                      []byte
	beforeText, beforeThought string
	after                     string
	buf                       []byte
	err                       error
}

func newEncoder(to sender, h head) *encoder {
	e := &encoder{to: to, head: h}
	e.lead = append(wire.AppendString(append(e.lead, `{"model":`...), h.model), `,"created_at":"`...)
	e.beforeText, e.beforeThought, e.after = `","response":`, `","response":"","thinking":`, `,"done":false`
	if h.chat {
		e.beforeText = `","message":{"role":"assistant","content":`
		e.beforeThought = `","message":{"role":"assistant","content":"","thinking":`
		e.after = `},"done":false`
	}
	return e
}

// send sends the line in buf.
func (e *encoder) send() {
	if e.err == nil {
		e.err = e.to.Send("", e.buf)
	}
}

// part begins a line in buf that has a piece of text.
func (e *encoder) part(before, text string) {
	b := e.head.clock().UTC().AppendFormat(append(e.buf[:0], e.lead...), time.RFC3339Nano)
	e.buf = append(wire.AppendString(append(b, before...), text), e.after...)
}

func (e *encoder) content(text string, logprobs []reasoning.TokenLogprobs) {
	e.part(e.beforeText, text)
	if len(logprobs) > 0 {
		e.buf = appendLogprobs(append(e.buf, `,"logprobs":`...), logprobs)
	}
	e.buf = append(e.buf, '}')
	e.send()
}

// appendLogprobs appends tokens as a list of Logprob values.
func appendLogprobs(b []byte, list []reasoning.TokenLogprobs) []byte {
	for i := range list {
		b = appendToken(append(b, "[,"[min(i, 1)]), list[i].Text, list[i].Logprob)
		for j, a := range list[i].Top {
			if j == 0 {
				b = append(b, `,"top_logprobs":`...)
			}
			b = append(appendToken(append(b, "[,"[min(j, 1)]), a.Text, a.Logprob), '}')
		}
		if len(list[i].Top) > 0 {
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendToken appends a token as a TokenLogprob without the closing brace.
func appendToken(b []byte, text string, logprob float32) []byte {
	b = wire.AppendString(append(b, `{"token":`...), text)
	b = strconv.AppendFloat(append(b, `,"logprob":`...), float64(wire.Logprob(logprob)), 'f', -1, 64)
	if text == "" {
		return b
	}
	b = append(b, `,"bytes":`...)
	for i := range len(text) {
		b = strconv.AppendUint(append(b, "[,"[min(i, 1)]), uint64(text[i]), 10)
	}
	return append(b, ']')
}

func (e *encoder) thinking(text string) {
	e.part(e.beforeThought, text)
	e.buf = append(e.buf, '}')
	e.send()
}

func (e *encoder) call(c ToolCall) {
	e.whole(e.head.response(Message{ToolCalls: []ToolCall{c}}, Ending{}))
}

func (e *encoder) finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning) {
	e.whole(e.head.response(Message{}, e.head.ending(info, r, warnings)))
}

// fail ends the stream with an error.
func (e *encoder) fail(err *wire.Error) { e.whole(errorResponse(err)) }

func (e *encoder) whole(v any) {
	e.buf, _ = json.Marshal(v) // values of these types never fail
	e.send()
}
