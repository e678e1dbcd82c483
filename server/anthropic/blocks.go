package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/wire"
)

// sink takes the content blocks of a reply, one after the other. The encoders of streams and of whole replies are both
// sinks, so that they have the same content.
type sink interface {
	// open begins a block.
	open(kind blockKind, call reasoning.Call)
	// text adds to the open block.
	text(s string)
	// close ends the block. signature is the signature of a thinking block or the data of a redacted one.
	close(signature string)
	// finish ends the reply. info holds the settings that were in effect.
	finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning)
}

type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	redactedBlock
	toolBlock
)

// sealFunc seals a part of a reply's reasoning.
type sealFunc func(thoughts string, calls seal.Calls) (string, error)

// blocks turns the events of a run into content blocks in the right order.
type blocks struct {
	out     sink
	display display
	seal    sealFunc
	eager   map[string]bool

	kind    blockKind
	segment reasoning.Segment
	// thoughts is the text of an open thinking block. input is the input of an open call if whole says that it is
	// sent as a whole.
	thoughts, input []byte
	whole           bool
	// calls says whether the reply has calls, as far as that is known.
	calls seal.Calls
	// held are events that wait for the summary or for the sealed reasoning.
	held              []reasoning.Event
	summarized, ended bool
	warnings          []Warning
	// info holds the settings in effect; nil before the run has started.
	info *reasoning.Info
}

func newBlocks(out sink, p *prompt, seal sealFunc) *blocks {
	return &blocks{out: out, display: p.display, eager: p.eager, seal: seal,
		warnings: p.warnings[:len(p.warnings):len(p.warnings)]}
}

// push takes the next event.
func (b *blocks) push(e *reasoning.Event) {
	switch e.Kind {
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		if b.holds(e.Segment) {
			b.held = append(b.held, *e)
			return
		}
		b.take(e)
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil {
			b.info = e.Info
		}
	case reasoning.Warning:
		b.warn(e.Code, e.Text)
	case reasoning.Done:
		b.done(e.Result)
	}
}

// holds reports whether a segment must wait for one that is sent before it.
func (b *blocks) holds(s reasoning.Segment) bool {
	switch s {
	case reasoning.ToolCall:
		return !b.ended && (b.display == displaySummary || b.display == displaySealed)
	case reasoning.Answer, reasoning.Preamble:
		return !b.summarized && b.display == displaySummary
	}
	return false
}

func isCall(e reasoning.Event) bool { return e.Segment == reasoning.ToolCall }

// release passes on the events that were held, if they need not wait any more.
func (b *blocks) release() {
	held := b.held
	b.held = nil
	for i := range held {
		b.push(&held[i])
	}
}

func (b *blocks) take(e *reasoning.Event) {
	if e.Kind == reasoning.SegmentEnd {
		switch e.Segment {
		case reasoning.ToolCall:
			b.close()
		case reasoning.Summary:
			b.close()
			b.summarized = true
			b.release()
		}
		return // consecutive segments of the same kind are one block
	}
	if b.kind == noBlock || b.segment != e.Segment || e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall {
		b.open(e)
	}
	switch {
	case e.Text == "":
	case b.kind == toolBlock && b.whole:
		b.input = append(b.input, e.Text...)
	default:
		if b.segment == reasoning.Reasoning {
			b.thoughts = append(b.thoughts, e.Text...)
		}
		b.out.text(e.Text)
	}
}

func (b *blocks) open(e *reasoning.Event) {
	if e.Segment == reasoning.ToolCall {
		b.calls = seal.WithCalls
	}
	b.close()
	b.segment = e.Segment
	switch e.Segment {
	case reasoning.Reasoning, reasoning.Summary:
		b.kind = thinkingBlock
	case reasoning.ToolCall:
		b.kind, b.whole = toolBlock, !b.eager[e.Call.Name]
	default:
		b.kind = textBlock
	}
	b.out.open(b.kind, e.Call)
}

// close ends the open block, if there is one. The signature of a thinking block seals the reasoning in it; a summary
// has none.
func (b *blocks) close() {
	kind := b.kind
	b.kind = noBlock
	switch kind {
	case noBlock:
	case thinkingBlock:
		b.out.close(b.sign(string(b.thoughts)))
		b.thoughts = b.thoughts[:0]
	case toolBlock:
		if input := inputOf(b.input); b.whole && input != "{}" {
			b.out.text(input)
		}
		b.input = b.input[:0]
		b.out.close("")
	default:
		b.out.close("")
	}
}

// sign seals thoughts. If that fails, the block has no signature, and counts as the client's own text when it is sent
// back.
func (b *blocks) sign(thoughts string) string {
	value, err := b.seal(thoughts, b.calls)
	if err != nil {
		b.warn(generation.CodeNotSealed, "a thinking block could not be signed: "+err.Error())
	}
	return value
}

func (b *blocks) done(r *reasoning.Result) {
	b.summarized = true
	b.release()
	if b.calls == seal.Undecided && !slices.ContainsFunc(b.held, isCall) {
		b.calls = seal.NoCalls
	}
	b.close()
	if r.Sealed != "" && (b.display == displaySummary || b.display == displaySealed) {
		b.out.open(redactedBlock, reasoning.Call{})
		b.out.close(r.Sealed)
	}
	b.ended = true
	b.release()
	b.close()
	b.out.finish(b.info, r, b.warnings)
}

func (b *blocks) warn(code, text string) {
	b.warnings = append(b.warnings, Warning{Code: code, Message: text})
}

// inputOf returns the arguments of a call as JSON: an object as the model wrote it, or anything else as a string.
func inputOf(arguments []byte) string {
	text := strings.TrimSpace(string(arguments))
	if text == "" {
		return "{}"
	}
	if text[0] == '{' && json.Valid([]byte(text)) {
		return text
	}
	return string(wire.AppendString(nil, string(arguments)))
}
