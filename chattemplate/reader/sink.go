package reader

import (
	"strings"
	"unicode/utf8"

	"runner/reasoning"
)

// Sink turns a stretch of bytes with a segment into events whose text is whole runes.
//
// A text segment starts with its first text, so that there are no empty ones; a tool call starts with its header.
// Bytes that cannot be part of a rune become U+FFFD, one each, as when a Go string is ranged over, at the latest at
// the segment's end.
type Sink struct {
	emit      func(reasoning.Event)
	separator string
	ledger    ledger
	origin    origin

	// next is the segment's next delta, without its text: it is filled in, not built anew, for every token.
	next reasoning.Event
	open bool // the event SegmentStart was sent
	// reported says that no segment has been opened since a call of report_reasoning.
	reported bool
	spoken   [reasoning.Answer + 1]bool

	held  [utf8.UTFMax]byte // an unfinished rune
	nheld int
	arena strings.Builder // memory of texts that no vocabulary piece holds
	parse *parser
}

// begin opens a segment; the one before must be closed.
func (k *Sink) begin(s reasoning.Segment, c reasoning.Call) {
	k.next = reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Call: c}
	if s == reasoning.ToolCall {
		k.start()
	}
}

func (k *Sink) start() {
	k.open, k.reported = true, false
	if k.next.Segment == reasoning.Reasoning {
		k.origin.note(k.emit)
	}
	k.emit(reasoning.Event{Kind: reasoning.SegmentStart, Segment: k.next.Segment, Call: k.next.Call})
	if k.next.Segment == reasoning.ToolCall {
		return
	}
	if k.spoken[k.next.Segment] && k.separator != "" {
		k.emit(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: k.next.Segment, Text: k.separator})
	}
	k.spoken[k.next.Segment] = true
}

// reason opens a reasoning segment that comes from a source.
func (k *Sink) reason(from reasoning.Strategy) {
	k.begin(reasoning.Reasoning, reasoning.Call{})
	k.origin.from = from
}

// flush sends the bytes of an unfinished rune, which nothing can complete any more.
func (k *Sink) flush() {
	if k.nheld > 0 {
		n := k.nheld
		k.nheld = 0
		k.delta(strings.Repeat("\uFFFD", n), n)
	}
}

// end closes the segment.
func (k *Sink) end() {
	k.flush()
	if k.open {
		k.open = false
		k.emit(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: k.next.Segment, Call: k.next.Call})
	}
}

// text adds bytes to the segment.
func (k *Sink) text(s string) {
	if k.nheld == 0 && wholeRunes(s) {
		if s != "" {
			k.delta(s, len(s))
		}
		return
	}
	k.repair(s)
}

// char adds one character that stands for n bytes of the model's.
func (k *Sink) char(c string, n int) {
	k.flush()
	k.delta(c, n)
}

// rune is char for a character that is in no string yet.
func (k *Sink) rune(c rune, n int) {
	k.reserve(utf8.UTFMax)
	from := k.arena.Len()
	k.arena.WriteRune(c)
	k.char(k.arena.String()[from:], n)
}

// keep returns a string of b.
func (k *Sink) keep(b []byte) string {
	k.reserve(len(b))
	from := k.arena.Len()
	k.arena.Write(b)
	return k.arena.String()[from:]
}

// reserve makes room for n bytes in the arena, so that writing them does not move what is there.
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

// repair sends what is whole of the held bytes and s and holds the rest.
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

// delta sends text that stands for n bytes of the model's.
func (k *Sink) delta(text string, n int) {
	if !k.open {
		k.start()
	}
	if k.parse != nil {
		k.parse.content.WriteString(text)
	}
	k.next.Text, k.next.Logprobs = text, nil
	if k.ledger.on {
		if k.next.Segment == reasoning.Answer {
			k.ledger.leave(n, useAnswer)
			k.next.Logprobs = k.ledger.take()
		} else {
			k.ledger.leave(n, useForeign)
		}
	}
	k.emit(k.next)
}

// drop takes bytes out of the stream that are nobody's text. The segment before them must be closed or flushed.
func (k *Sink) drop(n int, u use) { k.ledger.leave(n, u) }

// salvage sends text whose bytes have left the ledger before.
func (k *Sink) salvage(text string) {
	on := k.ledger.on
	k.ledger.on = false
	k.text(text)
	k.flush()
	k.ledger.on = on
}
