package hold

import (
	"slices"
	"strings"

	"runner/backend"
)

// Text allows any text, but the turn may not end, because an answer or a call is still required. No token may contain
// both the end of the reasoning and text after it.
type Text struct {
	vocab *backend.Vocab
	// outside are the tokens that may not come in text.
	outside []backend.Token
	// free has all tokens that may come in text. It is made when it is first needed, for all copies.
	free *backend.Mask
	// mark is the text that ends the reasoning; empty if EndsWith was not called. spanning are the tokens that may
	// contain its end and text after it. tail is the end of the text so far.
	mark     string
	spanning []backend.Token
	tail     []byte
	// marked says that the text is reasoning that ends with mark.
	marked bool
}

// NewText returns a constraint on text in which the tokens outside may not come.
func NewText(v *backend.Vocab, outside ...backend.Token) *Text {
	return &Text{vocab: v, outside: outside, free: new(backend.Mask)}
}

// EndsWith sets the mark that ends reasoning, for a mark that is spelled out.
func (x *Text) EndsWith(mark string) {
	x.mark = mark
	last := mark[len(mark)-1]
	for t := range backend.Token(x.vocab.Len()) {
		if p := x.vocab.Piece(t); strings.IndexByte(p[:max(0, len(p)-1)], last) >= 0 && x.isText(t) {
			x.spanning = append(x.spanning, t)
		}
	}
}

// Begin starts a new text. The mark applies only to reasoning.
func (x *Text) Begin(reasoning bool) {
	x.tail, x.marked = x.tail[:0], reasoning && x.mark != ""
}

// Allows implements backend.Constraint.
func (x *Text) Allows(t backend.Token) bool { return x.isText(t) && !x.spans(t) }

// Fill implements backend.Constraint.
func (x *Text) Fill(m backend.Mask) {
	copy(m, x.findFree())
	for _, t := range x.spanning {
		if x.spans(t) {
			m.Unset(t)
		}
	}
}

// findFree returns free.
func (x *Text) findFree() backend.Mask {
	if *x.free != nil {
		return *x.free
	}
	*x.free = backend.NewMask(x.vocab.Len())
	for t := range backend.Token(x.vocab.Len()) {
		if x.isText(t) {
			x.free.Set(t)
		}
	}
	return *x.free
}

// Copy implements Hold.
func (x *Text) Copy(to Hold) Hold {
	c, ok := to.(*Text)
	if !ok {
		c = new(Text)
	}
	tail := append(c.tail[:0], x.tail...)
	*c = *x
	c.tail = tail
	return c
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

// isText reports whether t may come in text without ending it.
func (x *Text) isText(t backend.Token) bool {
	if x.vocab.EndsGeneration(t) || x.vocab.Kind(t) == backend.Unused || !x.vocab.Valid(t) {
		return false
	}
	return !slices.Contains(x.outside, t)
}

// spans reports whether t would end the reasoning and begin the answer. The answer's form would not see that text.
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
