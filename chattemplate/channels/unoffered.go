package channels

import (
	"bytes"
	"math"

	"runner/backend"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
)

// This file is about calls of functions that are not offered. The headers that a model may write name only what is
// offered. Where the model means another name, that makes it call a function that it does not mean: list_files would
// become delete_file. So a warning says when it is held, and a name that it is sure enough of is passed on, as other
// families do.

const (
	// unlikely is the share of its own distribution that a model must leave to the names that are offered. With less, a
	// warning says that it is held to them.
	unlikely = 0.01
	// excluded is the share below which the name that the model likes best is passed on. It is that small because small
	// models are surely wrong. The bundled one insists on a calculator that has another name, to which it leaves 3e-9. It
	// is right where it is held to that.
	excluded = 1e-10
	// maxUnoffered is the limit of bytes of a name that is passed on.
	maxUnoffered = 64
)

// Weighs implements family.Turn. Only the name of a function is weighed, and only where the model is free not to call.
func (t *turn) Weighs() int {
	if t.strictly || t.Place != reader.PlaceHeader || t.Hold() != hold.Hold(t.headers) {
		return 0
	}
	if _, ok := t.own.h.header.recipient(); !ok {
		return 0
	}
	return 1
}

// Chosen implements family.Turn.
func (t *turn) Chosen(out *backend.Output) backend.Token {
	if len(out.Top) == 0 || t.Weighs() == 0 {
		return out.Token
	}
	// The sampled token is one of those that are allowed, and usually the likeliest.
	best, share := out.Top[0].Token, float64(t.headers.Len())*math.Exp(float64(out.Logprob))
	if t.headers.Allows(best) || share >= unlikely {
		return out.Token
	}
	h := &t.own.h.header
	so, _ := h.recipient()
	name := &unofferedName{names: t.f.nameTokens(), vocab: t.f.cfg.Vocab, tails: t.tails[h.hasChannel()],
		name: bytes.Clone(bytes.TrimPrefix(so, []byte(functions)))}
	if share >= excluded || !name.Allows(best) || name.tails.Allows(best) {
		t.own.Warn(reader.CodeFunctionHeld)
		return out.Token
	}
	t.tails[false].Reset()
	t.tails[true].Reset()
	t.passedOn = true
	t.Enforce(name)
	return best
}

// holdTails lists what may come after the name of a function that is not offered, with and without its channel before.
func (t *turn) holdTails() (err error) {
	w := newHeaderWriter(t.f)
	t.tails = map[bool]*hold.OneOf{}
	w.add(w.ends)
	if t.tails[true], err = w.hold(); err != nil {
		return err
	}
	w.list = nil
	w.add(w.ends, w.commentary)
	w.add(w.ends, w.analysis)
	t.tails[false], err = w.hold()
	return err
}

// nameTokens are the tokens that a name may have.
func (f *Family) nameTokens() backend.Mask {
	f.namesOnce.Do(func() {
		v := f.cfg.Vocab
		f.names = backend.NewMask(v.Len())
		for i := range v.Len() {
			if t := backend.Token(i); v.Kind(t) == backend.Normal && !v.EndsGeneration(t) && isUnoffered(v.Piece(t)) {
				f.names.Set(t)
			}
		}
	})
	return f.names
}

// isUnoffered reports whether a name that is passed on may have text.
func isUnoffered(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isNameByte(c) || c == ':' || c == '/' {
			return false
		}
	}
	return text != ""
}

// recipient returns the recipient at the end of the header, as far as it has come. It reports false if another word or
// a part of the header has begun, or none has.
func (h *header) recipient() ([]byte, bool) {
	at := bytes.LastIndex(h.text, []byte(to))
	if at < 0 || h.parts[len(h.parts)-1].from > at {
		return nil, false
	}
	name := h.text[at+len(to):]
	return name, !bytes.ContainsAny(name, " \t\r\n")
}

// unofferedName allows the rest of the name of a function that is not offered, and the rest of the header.
type unofferedName struct {
	names backend.Mask
	vocab *backend.Vocab
	tails *hold.OneOf
	name  []byte
	ended bool
}

// Allows implements backend.Constraint.
func (u *unofferedName) Allows(t backend.Token) bool {
	return u.names.Has(t) && !u.ended && len(u.vocab.Piece(t)) <= u.room() || u.mayEnd() && u.tails.Allows(t)
}

// room returns how many bytes the name may still get.
func (u *unofferedName) room() int {
	return maxUnoffered - len(bytes.TrimPrefix(u.name, []byte(functions)))
}

// mayEnd reports whether the name is one.
func (u *unofferedName) mayEnd() bool {
	return len(bytes.Trim(bytes.TrimPrefix(u.name, []byte(functions)), ".")) > 0
}

// Fill implements backend.Constraint.
func (u *unofferedName) Fill(m backend.Mask) {
	m.Clear()
	if u.mayEnd() {
		u.tails.Fill(m)
	}
	if u.ended {
		return
	}
	for w := range u.names {
		m[w] |= u.names[w]
	}
	if u.room() < u.vocab.LongestPiece() {
		for i := range u.vocab.Len() {
			if t := backend.Token(i); m.Has(t) && !u.Allows(t) {
				m.Unset(t)
			}
		}
	}
}

// Accept implements hold.Hold.
func (u *unofferedName) Accept(t backend.Token) {
	switch {
	case !u.Allows(t):
	case u.names.Has(t) && !u.ended:
		u.name = append(u.name, u.vocab.Piece(t)...)
	default:
		u.ended = true
		u.tails.Accept(t)
	}
}

// Forced implements hold.Hold.
func (u *unofferedName) Forced(dst []backend.Token) []backend.Token { return dst }

// Prepare implements hold.Hold.
func (u *unofferedName) Prepare(int) (used int, ready bool, err error) { return 0, true, nil }

// Copy implements hold.Hold. Names are short, so there is no looking ahead.
func (u *unofferedName) Copy(hold.Hold) hold.Hold { return nil }
