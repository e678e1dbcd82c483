package reader

import (
	"strings"
	"unicode/utf8"

	"runner/reasoning"
)

// Sink turns the bytes of segments into events whose text is whole runes.
//
// A segment of text starts with its first text, so that none is empty. A tool call starts with Begin. Each byte that
// cannot be part of a rune becomes U+FFFD, as in a range over a Go string, at the latest at the segment's end.
type Sink struct {
	// Emit receives the events.
	Emit      func(reasoning.Event)
	separator string
	// Ledger keeps log probabilities, and Origin watches where reasoning comes from.
	Ledger ledger
	Origin origin

	// Next is the segment's next delta. Only its text changes from token to token.
	Next reasoning.Event
	open bool // the event SegmentStart was sent
	// Reported says that no segment has started since a call of report_reasoning.
	Reported bool
	spoken   [reasoning.Answer + 1]bool

	// withholding says that preambles are held back, see Withhold. withheld has them and what came after them. fresh says
	// that a segment has begun and none of its text is withheld yet.
	withholding, fresh bool
	withheld           []withheldText

	// arguments takes reasoning out of the arguments of calls. telling says that it is being sent. cut says that the
	// output has ended in the middle of the turn.
	arguments    arguments
	telling, cut bool

	held  [utf8.UTFMax]byte // an unfinished rune
	nheld int
	arena strings.Builder // memory of texts that no vocabulary piece holds
}

// withheldText is text that is held back. first says that it begins a segment. from is where the text comes from if it
// is reasoning.
type withheldText struct {
	segment reasoning.Segment
	from    reasoning.Strategy
	first   bool
	text    string
}

// Withhold holds preambles back until Settle. Reasoning passes, unless it comes after text that is held back.
func (k *Sink) Withhold() { k.withholding = true }

// Settle sends what is held back. Its preambles are sent as such if they are shown, and as reasoning if not. The
// segment before must be closed.
func (k *Sink) Settle(shown bool) {
	texts, on := k.withheld, k.Ledger.On
	k.withholding, k.withheld, k.Ledger.On = false, k.withheld[:0], false // the texts have already left the ledger
	for i := range texts {
		t := &texts[i]
		switch {
		case !t.first:
		case t.segment == reasoning.Preamble && shown:
			k.End()
			k.Begin(t.segment, reasoning.Call{})
		default:
			k.End()
			k.Reason(t.from)
		}
		k.delta(t.text, 0)
	}
	if len(texts) > 0 {
		k.End()
	}
	k.Ledger.On = on
}

// withholds reports whether text of the current segment is held back.
func (k *Sink) withholds() bool {
	return k.withholding && (k.Next.Segment == reasoning.Preamble || len(k.withheld) > 0)
}

// withhold holds back text that stands for n bytes of the model's output.
func (k *Sink) withhold(text string, n int) {
	from := k.Origin.from
	if k.Next.Segment == reasoning.Preamble {
		from = reasoning.StrategyNative
	}
	k.withheld = append(k.withheld, withheldText{k.Next.Segment, from, k.fresh, text})
	k.fresh = false
	k.Ledger.leave(n, UseForeign)
}

// Begin opens a segment. The segment before must be closed.
func (k *Sink) Begin(s reasoning.Segment, c reasoning.Call) {
	k.fresh = true
	k.Next = reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Call: c}
	if s == reasoning.ToolCall {
		k.arguments.reset()
		k.start()
	}
}

func (k *Sink) start() {
	k.open, k.Reported = true, false
	if k.Next.Segment == reasoning.Reasoning {
		k.Origin.note(k.Emit)
	}
	k.Emit(reasoning.Event{Kind: reasoning.SegmentStart, Segment: k.Next.Segment, Call: k.Next.Call})
	if k.Next.Segment == reasoning.ToolCall {
		return
	}
	if k.spoken[k.Next.Segment] && k.separator != "" {
		k.Emit(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: k.Next.Segment, Text: k.separator})
	}
	k.spoken[k.Next.Segment] = true
}

// Reason opens a segment of reasoning. from is the strategy that it comes from.
func (k *Sink) Reason(from reasoning.Strategy) {
	k.Begin(reasoning.Reasoning, reasoning.Call{})
	k.Origin.from = from
}

// Flush sends the bytes of an unfinished rune that can no longer be completed.
func (k *Sink) Flush() {
	if k.nheld > 0 {
		n := k.nheld
		k.nheld = 0
		k.delta(strings.Repeat("\uFFFD", n), n)
	}
}

// End closes the segment. It sends nothing for a segment that never started. Reasoning in the arguments of a call comes
// as a segment after it.
func (k *Sink) End() {
	k.Flush()
	if !k.open {
		return
	}
	var thoughts string
	if k.argues() {
		k.telling = k.arguments.depth > 0 || len(k.arguments.thoughts) > 0
		k.Next.Text, thoughts = k.arguments.finish(k.cut)
		if k.Next.Logprobs = nil; k.Next.Text != "" {
			k.Emit(k.Next)
		}
	}
	k.open = false
	k.Emit(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: k.Next.Segment, Call: k.Next.Call})
	if thoughts != "" {
		call := k.Next
		k.Reason(reasoning.StrategyMarkers)
		k.Salvage(thoughts)
		k.End()
		k.Next = call
	}
	k.telling = false
}

// argues reports whether reasoning is looked for in the text of the segment, because it is the arguments of a call.
func (k *Sink) argues() bool {
	return (k.arguments.on || k.arguments.token) && k.Next.Segment == reasoning.ToolCall
}

// Think begins or ends reasoning in the arguments of a call, at a mark that is a token.
func (k *Sink) Think(opens bool) {
	k.Flush()
	if text := k.arguments.think(opens); text != "" {
		k.Next.Text, k.Next.Logprobs = text, nil
		k.Emit(k.Next)
	}
}

// Marked reports whether the next text of a call's arguments is reasoning between markers.
func (k *Sink) Marked() bool { return k.argues() && k.arguments.depth > 0 || k.telling }

// Text adds bytes to the segment.
func (k *Sink) Text(s string) {
	if k.nheld == 0 && wholeRunes(s) {
		if s != "" {
			k.delta(s, len(s))
		}
		return
	}
	k.repair(s)
}

// char adds one character that stands for n bytes of the model's output.
func (k *Sink) char(c string, n int) {
	k.Flush()
	k.delta(c, n)
}

// rune is char for a character that is not yet in a string.
func (k *Sink) rune(c rune, n int) {
	k.reserve(utf8.UTFMax)
	from := k.arena.Len()
	k.arena.WriteRune(c)
	k.char(k.arena.String()[from:], n)
}

// Keep returns a copy of b. It seldom allocates.
func (k *Sink) Keep(b []byte) string {
	k.reserve(len(b))
	from := k.arena.Len()
	k.arena.Write(b)
	return k.arena.String()[from:]
}

// reserve makes room for n bytes in the arena, so that writing them does not move earlier text.
func (k *Sink) reserve(n int) {
	if k.arena.Cap()-k.arena.Len() < n {
		k.arena = strings.Builder{}
		k.arena.Grow(max(512, n))
	}
}

// wholeRunes reports whether s is valid UTF-8.
func wholeRunes(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return utf8.ValidString(s[i:])
		}
	}
	return true
}

// repair sends the whole runes of the held bytes and s, and holds the rest.
func (k *Sink) repair(s string) {
	size := k.nheld + len(s)
	k.reserve(3 * size)
	from := k.arena.Len()
	for k.nheld > 0 && len(s) > 0 {
		k.held[k.nheld] = s[0]
		k.nheld++
		s = s[1:]
		k.drain()
	}
	if k.nheld == 0 {
		for len(s) > 0 && utf8.FullRuneInString(s) {
			r, n := utf8.DecodeRuneInString(s)
			k.arena.WriteRune(r)
			s = s[n:]
		}
		k.nheld = copy(k.held[:], s)
	}
	if text := k.arena.String()[from:]; text != "" {
		k.delta(text, size-k.nheld)
	}
}

// drain writes the whole runes at the beginning of the held bytes.
func (k *Sink) drain() {
	for k.nheld > 0 && utf8.FullRune(k.held[:k.nheld]) {
		r, n := utf8.DecodeRune(k.held[:k.nheld])
		k.arena.WriteRune(r)
		k.nheld = copy(k.held[:], k.held[n:k.nheld])
	}
}

// delta sends text that stands for n bytes of the model's output.
func (k *Sink) delta(text string, n int) {
	if !k.open && k.withholds() {
		k.withhold(text, n)
		return
	}
	if !k.open {
		k.start()
	}
	if k.argues() {
		if text = k.arguments.push(text); text == "" {
			k.Ledger.leave(n, UseForeign)
			return
		}
	}
	k.Next.Text, k.Next.Logprobs = text, nil
	if k.Ledger.On {
		if k.Next.Segment == reasoning.Answer {
			k.Ledger.leave(n, useAnswer)
			k.Next.Logprobs = k.Ledger.take()
		} else {
			k.Ledger.leave(n, UseForeign)
		}
	}
	k.Emit(k.Next)
}

// Drop skips n bytes of output that are not text of a segment. The segment before them must be closed or flushed.
func (k *Sink) Drop(n int, u Use) { k.Ledger.leave(n, u) }

// Salvage sends text whose bytes have already left the ledger.
func (k *Sink) Salvage(text string) {
	on := k.Ledger.On
	k.Ledger.On = false
	k.Text(text)
	k.Flush()
	k.Ledger.On = on
}
