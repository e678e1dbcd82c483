package anthropic

import (
	"encoding/json"
	"slices"

	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// reply turns the events of a run into the content blocks of a message, one after the other. If the message is
// streamed, each addition is sent and not kept. Otherwise all are kept in the message.
type reply struct {
	contract.Ending
	reasoning.SummaryFirst
	// seal makes the signature of a summary, which must not come back as reasoning.
	seal    func(thoughts string) (string, error)
	eager   map[string]bool
	message Message
	// request is the id of the request, for errors.
	request string

	// send gets the events of a stream; nil if the message is not streamed. Their data is valid until send returns. err
	// is its first error.
	send func(event string, data any) error
	err  error
	// event, delta and piece are what is sent of a block.
	event blockEvent
	delta blockDelta
	piece string

	// block is the open block; nil if there is none. Its text is that of a segment. whole says that it is sent as a whole.
	block   any
	segment reasoning.Segment
	whole   bool
	text    []byte
	// sealed has the sealed values that no block has yet, joined.
	sealed string
}

func newReply(p *prompt, id, model string) *reply {
	r := &reply{eager: p.eager, message: Message{ID: id, Type: "message", Role: "assistant",
		Model: model, Content: []any{}}}
	if p.turn != nil {
		r.seal = contract.Reply(p.turn, nil).Seal
	}
	r.Warnings = slices.Clip(p.warnings)
	r.To = r.take
	return r
}

// Push implements [wire.Encoder].
func (r *reply) Push(_ int, e *reasoning.Event) error {
	r.SummaryFirst.Push(e)
	return r.err
}

// End implements [wire.Encoder].
func (r *reply) End(err error) {
	if err != nil {
		r.Release()
		r.tell("error", errorResponse(wireError(err), r.request))
	}
}

// tell sends an event of a stream.
func (r *reply) tell(event string, data any) {
	if r.send != nil && r.err == nil {
		r.err = r.send(event, data)
	}
}

// tellBlock sends an event about the open block.
func (r *reply) tellBlock(event string, block any, delta *blockDelta) {
	r.event.Type, r.event.ContentBlock, r.event.Delta = event, block, delta
	r.tell(event, &r.event)
}

func (r *reply) take(e *reasoning.Event) {
	switch e.Kind {
	case reasoning.SegmentStart, reasoning.SegmentDelta:
		if r.block == nil || r.segment != e.Segment || e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall {
			r.open(e)
		}
		r.add(e.Text)
	case reasoning.SegmentEnd: // consecutive segments of the same kind are one block
		if e.Segment == reasoning.ToolCall {
			r.close()
		}
	case reasoning.Sealed:
		r.sealed = seal.Join(r.sealed, e.Text)
	default:
		r.Note(e)
		switch e.Kind {
		case reasoning.Started:
			r.start()
		case reasoning.Done:
			r.done()
		}
	}
}

// start sends what is before the first block.
func (r *reply) start() {
	s := messageStart{Type: "message_start"}
	s.Message.Message = r.message
	if r.Info != nil {
		s.Message.Usage.InputTokens = r.Info.Prompt
	}
	r.tell("message_start", &s)
	r.tell("ping", mark{"ping"})
}

// open begins the block of a segment.
func (r *reply) open(e *reasoning.Event) {
	r.close()
	if e.Segment != reasoning.Summary {
		r.carry()
	}
	r.segment, r.whole = e.Segment, false
	switch e.Segment {
	case reasoning.Reasoning, reasoning.Summary:
		r.begin(&ThinkingBlock{Type: "thinking"})
	case reasoning.ToolCall:
		r.whole = !r.eager[e.Call.Name]
		r.begin(&ToolUseBlock{Type: "tool_use", ID: e.Call.ID, Name: e.Call.Name, Input: json.RawMessage("{}")})
	default:
		r.begin(&TextBlock{Type: "text"})
	}
}

func (r *reply) begin(block any) {
	r.block = block
	r.tellBlock("content_block_start", block, nil)
}

// add adds to the text of the open block. The text of reasoning is kept for its signature.
func (r *reply) add(text string) {
	if text == "" {
		return
	}
	if r.send == nil || r.whole || r.segment == reasoning.Reasoning {
		r.text = append(r.text, text...)
	}
	if !r.whole {
		r.tellText(text)
	}
}

// tellText sends more of the open block's text.
func (r *reply) tellText(text string) {
	r.piece = text
	switch r.block.(type) {
	case *ThinkingBlock:
		r.delta = blockDelta{Type: "thinking_delta", Thinking: &r.piece}
	case *ToolUseBlock:
		r.delta = blockDelta{Type: "input_json_delta", PartialJSON: &r.piece}
	default:
		r.delta = blockDelta{Type: "text_delta", Text: &r.piece}
	}
	r.tellBlock("content_block_delta", nil, &r.delta)
}

// carry sends sealed values that no block has yet in a thinking block without text.
func (r *reply) carry() {
	if r.sealed != "" {
		r.begin(&ThinkingBlock{Type: "thinking"})
		r.close()
	}
}

// close ends the open block, if there is one. The signature of a thinking block is the sealed reasoning up to there.
func (r *reply) close() {
	text := string(r.text)
	r.text = r.text[:0]
	switch block := r.block.(type) {
	case nil:
		return
	case *TextBlock:
		block.Text = text
	case *ThinkingBlock:
		block.Thinking = text
		if r.segment == reasoning.Summary && r.sealed == "" {
			r.sealed, _ = r.seal("") // without a key no value is ever opened
		}
		block.Signature, r.sealed = r.sealed, ""
		r.tellBlock("content_block_delta", nil, &blockDelta{Type: "signature_delta", Signature: &block.Signature})
	case *ToolUseBlock:
		input := text
		if r.whole || !json.Valid([]byte(text)) { // the latter is possible with eager_input_streaming
			input = inputOf(text)
		}
		if block.Input = json.RawMessage(input); r.whole && input != "{}" {
			r.tellText(input)
		}
	}
	r.tellBlock("content_block_stop", nil, nil)
	if r.event.Index++; r.send == nil {
		r.message.Content = append(r.message.Content, r.block)
	}
	r.block = nil
}

// done ends the message.
func (r *reply) done() {
	r.close()
	r.carry()
	m := &r.message
	m.StopReason, m.Usage, m.ReasoningInfo = stopReason(r.Result), usageOf(r.Result.Usage), contract.InfoOf(r.Info)
	if m.Warnings = r.Warnings; r.Result.StopString != "" {
		m.StopSequence = &r.Result.StopString
	}
	d := MessageDelta{Type: "message_delta", Usage: m.Usage, ReasoningInfo: m.ReasoningInfo, Warnings: m.Warnings}
	d.Delta.StopReason, d.Delta.StopSequence = m.StopReason, m.StopSequence
	r.tell("message_delta", &d)
	r.tell("message_stop", mark{"message_stop"})
}

// inputOf returns the arguments of a call as JSON: an object as the model wrote it, or anything else as a string.
func inputOf(arguments string) string {
	if object, ok := contract.Object(arguments); ok {
		return string(object)
	}
	return wire.Quote(arguments)
}
