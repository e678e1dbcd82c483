package hold

import (
	"slices"
	"strings"

	"runner/backend"
)

// Text is text of any kind that has to go on to something else, because an answer or a call is owed. It cannot end the
// turn, and it cannot run over the end of the reasoning into what follows.
type Text struct {
	vocab *backend.Vocab
	// outside are the tokens that cannot stand in text.
	outside []backend.Token
	// free is what may stand in text, made when it is first needed.
	free backend.Mask
	// mark ends reasoning in text; empty where a token of its own does. spanning are the tokens that may run over it,
	// and tail is the end of the text so far.
	mark     string
	spanning []backend.Token
	tail     []byte
	// marked says that the mark counts here.
	marked bool
}

// NewText returns a hold for text in which the outside tokens have no place.
func NewText(v *backend.Vocab, outside ...backend.Token) *Text {
	return &Text{vocab: v, outside: outside}
}

// EndsWith says which mark ends reasoning. A model may spell it even where it is a token of its own.
func (x *Text) EndsWith(mark string) {
	x.mark = mark
	last := mark[len(mark)-1]
	for t := range backend.Token(x.vocab.Len()) {
		if p := x.vocab.Piece(t); strings.IndexByte(p[:max(0, len(p)-1)], last) >= 0 && x.isText(t) {
			x.spanning = append(x.spanning, t)
		}
	}
}

// Begin starts a new text. In reasoning the mark counts.
func (x *Text) Begin(reasoning bool) {
	x.tail, x.marked = x.tail[:0], reasoning && x.mark != ""
}

// Allows implements backend.Constraint.
func (x *Text) Allows(t backend.Token) bool { return x.isText(t) && !x.spans(t) }

// Fill implements backend.Constraint.
func (x *Text) Fill(m backend.Mask) {
	if x.free == nil {
		x.free = backend.NewMask(x.vocab.Len())
		for t := range backend.Token(x.vocab.Len()) {
			if x.isText(t) {
				x.free.Set(t)
			}
		}
	}
	copy(m, x.free)
	for _, t := range x.spanning {
		if x.spans(t) {
			m.Unset(t)
		}
	}
}

// Accept implements Hold.
func (x *Text) Accept(t backend.Token) {
	if x.marked {
		x.tail = append(x.tail, x.vocab.Piece(t)...)
		x.tail = x.tail[max(0, len(x.tail)-len(x.mark)+1):]
	}
}

// Forced implements Hold.
func (x *Text) Forced(dst []backend.Token) []backend.Token { return dst }

// Prepare implements Hold.
func (x *Text) Prepare(int) (used int, ready bool, err error) { return 0, true, nil }

// isText reports whether t may stand in text that goes on to something else.
func (x *Text) isText(t backend.Token) bool {
	if x.vocab.EndsGeneration(t) || x.vocab.Kind(t) == backend.Unused || !x.vocab.Valid(t) {
		return false
	}
	return !slices.Contains(x.outside, t)
}

// spans reports whether t would end the reasoning and go on with text of the answer, which its form would not see.
func (x *Text) spans(t backend.Token) bool {
	if !x.marked {
		return false
	}
	p := x.vocab.Piece(t)
	if strings.IndexByte(p, x.mark[len(x.mark)-1]) < 0 {
		return false
	}
	text := string(x.tail) + p
	i := strings.Index(text, x.mark)
	return i >= 0 && strings.Trim(text[i+len(x.mark):], "\n") != ""
}
