package seal

import (
	"cmp"
	"crypto/subtle"
	"encoding/binary"
	"slices"
	"strings"
)

// History opens the values of one conversation. Call Open once for each message, from the first to the last: a value
// opens in one message, and never after a later one of its turn or of a turn that began later. A History is for one
// goroutine at a time.
type History struct {
	keys  *Keyring
	scope Scope
	// last is the last value that was opened, without its text.
	last content
}

// History returns a History for a conversation. Its values belong to the scope's conversation unless they name
// another one.
func (r *Keyring) History(s Scope) *History { return &History{keys: r, scope: s} }

// Place is the place of a message that carries values.
type Place struct {
	// Question is the nearest user message before it.
	Question Question
	// Calls are the ids of its calls.
	Calls []string
}

// Value is what a client sent back: a value, or several that [Join] joined.
type Value struct {
	Sealed string
	// Elsewhere is the conversation that the value belongs to; nil means the history's.
	Elsewhere *Conversation
}

// Join joins the values of one turn for formats that have one place for all of them. Either may be empty.
func Join(values, more string) string {
	if values == "" || more == "" {
		return values + more
	}
	return values + separator + more
}

// separator is between joined values. It is no character of base64url.
const separator = "."

// Open returns the reasoning in the values of one message, and an error for each value: nil if it was opened. Of joined
// values it is the first error, and others may have been opened; those that an earlier message had are left out without
// an error if another one opens. The same value may be there several times. The errors are those listed in the package
// doc, and ErrScope for an incomplete scope.
func (h *History) Open(p Place, values []Value) (text string, errs []error) {
	errs = make([]error, len(values))
	var opened []content
	own := messageCalls{calls: p.Calls}
	for i, v := range values {
		before := len(opened)
		for sealed := range strings.SplitSeq(v.Sealed, separator) {
			c, err := h.open(&p, &own, sealed, v.Elsewhere)
			if err == nil {
				opened = append(opened, c)
			} else if errs[i] == nil {
				errs[i] = err
			}
			if err == ErrTampered {
				break // a text of many dots is no list of values
			}
		}
		if errs[i] == ErrRepeated && len(opened) > before {
			errs[i] = nil // an earlier message has the first of these values, too
		}
	}
	slices.SortStableFunc(opened, func(a, b content) int {
		return cmp.Or(cmp.Compare(a.begun, b.begun), cmp.Compare(a.piece, b.piece))
	})
	var b strings.Builder
	for i, c := range opened {
		switch {
		case i > 0 && c.turn == opened[i-1].turn && c.piece == opened[i-1].piece:
			continue
		case i > 0 && c.turn != opened[i-1].turn && b.Len() > 0:
			b.WriteString("\n\n")
		}
		b.WriteString(c.text)
		h.last = c
		h.last.text = ""
	}
	return b.String(), errs
}

// Open returns a text that Keyring.Seal sealed within the same scope.
func (r *Keyring) Open(s Scope, value string) (string, error) {
	text, errs := r.History(s).Open(Place{}, []Value{{Sealed: value}})
	return text, errs[0]
}

// open opens one value for a message. The order of the checks is part of the package's contract.
func (h *History) open(p *Place, own *messageCalls, sealed string, of *Conversation) (c content, err error) {
	scope := h.scope
	if of != nil {
		scope.Conversation = *of
	}
	if !scope.complete() {
		return c, ErrScope
	}
	k, plain, err := h.keys.unbox(sealed)
	if err != nil {
		return c, err
	}
	want := scope.appendTo(make([]byte, 0, scopeSize))
	if !fits(plain[1:1+scopeSize], want) {
		return c, ErrForeign
	}
	c.readPlace(plain)
	switch {
	case !c.fits(k, p, own):
		return content{}, ErrForeign
	case !c.after(&h.last):
		return content{}, ErrRepeated
	}
	// Nothing after the place is looked at before it is known to be this one: the time would show the text's length.
	if !c.readText(plain) {
		return content{}, ErrTampered
	}
	return c, nil
}

// after reports whether a value is a later one of the same turn, or of a turn that began later.
func (c *content) after(last *content) bool {
	return c.begun > last.begun || c.turn == last.turn && c.piece > last.piece
}

// fits reports whether a message is the one that the value was sealed for.
func (c *content) fits(k *key, p *Place, own *messageCalls) bool {
	if len(p.Calls) > 0 {
		return c.calls != NoCalls && own.all(k, &c.turn)
	}
	return c.calls != WithCalls && subtle.ConstantTimeCompare(c.question.digest[:], p.Question.digest[:]) == 1
}

// messageCalls compares the calls of one message with turns. It remembers the results, so that the cost is the sum of
// values and calls, not their product.
type messageCalls struct {
	calls []string
	known map[[turnSize]byte]bool
}

// all reports whether all calls belong to a turn.
func (b *messageCalls) all(k *key, turn *[turnSize]byte) bool {
	all, known := b.known[*turn]
	if !known {
		if b.known == nil {
			b.known = map[[turnSize]byte]bool{}
		}
		all = !slices.ContainsFunc(b.calls, func(id string) bool { return !isCall(k, turn, id) })
		b.known[*turn] = all
	}
	return all
}

// content is what a value holds in addition to its scope.
type content struct {
	turn     [turnSize]byte
	begun    uint64 // when the turn began, in microseconds since 1970
	piece    uint32
	calls    Calls
	question Question
	text     string
}

// appendTo appends the content in the form that a value has.
func (c *content) appendTo(dst []byte) []byte {
	dst = append(dst, c.turn[:]...)
	dst = binary.BigEndian.AppendUint64(dst, c.begun)
	dst = binary.BigEndian.AppendUint32(dst, c.piece)
	dst = append(dst, byte(c.calls))
	dst = append(dst, c.question.digest[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.text)))
	return append(dst, c.text...)
}

// readPlace reads everything except the text from an authentic plaintext.
func (c *content) readPlace(plain []byte) {
	at := plain[1+scopeSize:]
	c.turn = [turnSize]byte(at)
	c.begun = binary.BigEndian.Uint64(at[turnSize:])
	c.piece = binary.BigEndian.Uint32(at[turnSize+8:])
	c.calls = Calls(at[turnSize+12])
	c.question.digest = [32]byte(at[turnSize+13:])
}

// readText reads the text from an authentic plaintext. It refuses what sealWith never writes.
func (c *content) readText(plain []byte) bool {
	n := binary.BigEndian.Uint32(plain[textOffset-4:])
	if c.calls > WithCalls || n > MaxText || classOf(textOffset+int(n)) != len(plain) {
		return false
	}
	text, padding := plain[textOffset:textOffset+n], plain[textOffset+n:]
	var filled byte
	for _, b := range padding {
		filled |= b
	}
	c.text = string(text)
	return filled == 0
}
