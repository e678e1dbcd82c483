// Package origin holds text that knows where each byte came from, and the operations of Python's str on such text.
//
// A byte is Trusted, Outside or Unseen. Every operation keeps the origin of the bytes it keeps. What it puts in place
// of a byte has the origin of that byte. Operations charge nothing to a limit; the caller does so.
package origin

import (
	"iter"
	"strings"
)

// Origin says where a byte of text came from.
type Origin uint8

// The origins. The zero value is Outside, the safe choice.
const (
	// Outside text comes from a user, a tool, a client or a model, or was made from such text.
	Outside Origin = iota
	// Trusted text is a literal of the template, or a value that the program marked as trusted.
	Trusted
	// Unseen text is outside text that the program put there itself and that its caller has not seen.
	Unseen
)

// Text is an immutable string with the origin of each byte. The zero value is the empty text.
//
// Origins are stored as runs, so a text of one origin costs no more than its string.
type Text struct {
	s string
	// turns holds where the origin changes, in rising order. It is nil for a text of one origin.
	turns []turn
	// first is the origin of the first run.
	first Origin
}

// turn is the byte offset at which a run begins, and the origin of that run.
type turn struct {
	at int
	to Origin
}

// NewText returns s with one origin for all its bytes.
func NewText(s string, o Origin) Text { return Text{s: s, first: o} }

// String returns the text without its origins.
func (t Text) String() string { return t.s }

// Len returns the length in bytes.
func (t Text) Len() int { return len(t.s) }

// Runs yields the text in order, in pieces of one origin each. Neighbours differ in origin, and no piece is empty.
func (t Text) Runs() iter.Seq2[string, Origin] {
	return func(yield func(string, Origin) bool) {
		start, o := 0, t.first
		for _, turn := range t.turns {
			if !yield(t.s[start:turn.at], o) {
				return
			}
			start, o = turn.at, turn.to
		}
		if start < len(t.s) {
			yield(t.s[start:], o)
		}
	}
}

// Trusted reports whether every byte of t[i:j] is trusted. Offsets are in bytes. An empty span is trusted.
// It panics if the span is not inside the text.
func (t Text) Trusted(i, j int) bool {
	_ = t.s[i:j]
	if i == j {
		return true
	}
	k := t.runAt(i)
	if t.origin(k) != Trusted {
		return false
	}
	return k == len(t.turns) || j <= t.turns[k].at
}

// AllTrusted reports whether every byte is trusted.
func (t Text) AllTrusted() bool { return t.Trusted(0, len(t.s)) }

// runAt returns the index of the run that holds byte i.
func (t Text) runAt(i int) int {
	lo, hi := 0, len(t.turns)
	for lo < hi {
		m := (lo + hi) / 2
		if t.turns[m].at <= i {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// OriginAt returns the origin of byte i.
func (t Text) OriginAt(i int) Origin { return t.origin(t.runAt(i)) }

// origin returns the origin of run k.
func (t Text) origin(k int) Origin {
	if k == 0 {
		return t.first
	}
	return t.turns[k-1].to
}

// Slice returns the bytes from i up to j.
func (t Text) Slice(i, j int) Text {
	if i == 0 && j == len(t.s) {
		return t
	}
	if i >= j {
		return Text{}
	}
	if len(t.turns) == 0 {
		return Text{s: t.s[i:j], first: t.first}
	}
	a, b := t.runAt(i), t.runAt(j-1)
	out := Text{s: t.s[i:j], first: t.origin(a)}
	if a < b {
		out.turns = append([]turn(nil), t.turns[a:b]...)
		for k := range out.turns {
			out.turns[k].at -= i
		}
	}
	return out
}

// Redacted returns the text with an ellipsis in place of each outside run. It may appear in errors and logs.
func (t Text) Redacted() string {
	if t.AllTrusted() {
		return t.s
	}
	var b strings.Builder
	for s, o := range t.Runs() {
		if o == Trusted {
			b.WriteString(s)
		} else {
			b.WriteString("…")
		}
	}
	return b.String()
}

// Builder builds a Text piece by piece. The zero value is ready to use.
type Builder struct {
	buf         []byte
	turns       []turn
	first, last Origin
}

// Len returns the length of the text so far, in bytes.
func (b *Builder) Len() int { return len(b.buf) }

// Cap returns the size of the buffer, in bytes.
func (b *Builder) Cap() int { return cap(b.buf) }

// Reset empties the builder and keeps its buffer.
func (b *Builder) Reset() { b.buf, b.turns = b.buf[:0], b.turns[:0] }

// mark prepares for bytes of origin o to be appended.
func (b *Builder) mark(o Origin) {
	switch {
	case len(b.buf) == 0:
		b.first, b.last = o, o
	case o != b.last:
		b.turns = append(b.turns, turn{len(b.buf), o})
		b.last = o
	}
}

// Add appends s with one origin for all its bytes.
func (b *Builder) Add(s string, o Origin) {
	if s != "" {
		b.mark(o)
		b.buf = append(b.buf, s...)
	}
}

// AddText appends t.
func (b *Builder) AddText(t Text) {
	if len(t.turns) == 0 {
		b.Add(t.s, t.first)
		return
	}
	for s, o := range t.Runs() {
		b.Add(s, o)
	}
}

// Text returns a copy of the text so far.
func (b *Builder) Text() Text {
	t := Text{s: string(b.buf), first: b.first}
	if len(b.turns) > 0 {
		t.turns = append([]turn(nil), b.turns...)
	}
	return t
}

// Concat returns a followed by b.
func Concat(a, b Text) Text {
	if a.s == "" {
		return b
	}
	if b.s == "" {
		return a
	}
	out := Text{s: a.s + b.s, first: a.first}
	aLast := a.origin(len(a.turns))
	if len(a.turns)+len(b.turns) == 0 && aLast == b.first {
		return out
	}
	out.turns = make([]turn, 0, len(a.turns)+len(b.turns)+1)
	out.turns = append(out.turns, a.turns...)
	if aLast != b.first {
		out.turns = append(out.turns, turn{len(a.s), b.first})
	}
	for _, t := range b.turns {
		out.turns = append(out.turns, turn{len(a.s) + t.at, t.to})
	}
	return out
}
