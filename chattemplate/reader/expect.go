package reader

import (
	"strings"

	"runner/reasoning"
)

// maxWait is about the most bytes of an answer that are held until it is known whether it is the object of strategy
// json.
const maxWait = 4096

// expect begins an answer that may be the object of strategy json.
func (m *Text) expect() {
	if m.s.cfg.JSON != nil && !m.said {
		m.waiting = true
		m.s.object.reset(false, true)
	}
}

// wait holds a token's text until the first member of the object has come, or what cannot be the object.
func (m *Text) wait(piece string, control, special bool) {
	m.held = append(m.held, heldPiece{piece, control, control || special})
	m.nheld += len(piece)
	r := &m.s.object
	if !control {
		r.feed(piece)
	}
	switch {
	case r.known:
		m.waiting, m.said, m.mode = false, true, modeObject
		r.reset(false, false)
		m.again()
	case control || r.ended() || m.nheld > maxWait:
		m.waiting = false
		m.again()
	}
}

// again takes what is held once more, after a change of mode.
func (m *Text) again() {
	m.state = 0
	held := m.held
	m.held, m.nheld = nil, 0
	for _, p := range held {
		m.push(p.text, p.control, p.special)
	}
}

// endWait ends an answer of which too little came to know what it is.
func (m *Text) endWait() {
	m.waiting = false
	if !m.s.object.cutShort() {
		m.again()
		return
	}
	m.held = m.held[:0]
	m.s.out.drop(m.nheld, useForeign)
	m.nheld = 0
	m.s.warn(CodeUnfinishedObject)
}

// objectText takes text of the object, or after it.
func (m *Text) objectText(piece string, control, special bool) {
	r := &m.s.object
	if !r.ended() {
		piece = piece[r.feed(piece):]
		if !r.ended() || piece == "" && len(r.left) == 0 {
			return
		}
	}
	left := r.left
	if r.place == placeOver {
		if n := r.after(string(left)); n > 0 {
			m.s.out.drop(n, useForeign)
			left = left[n:]
		}
		if len(left) == 0 {
			n := r.after(piece)
			m.s.out.drop(n, useForeign)
			if piece = piece[n:]; piece == "" {
				r.left = r.left[:0]
				return
			}
		}
		m.s.warn(CodeTextAfterObject)
	}
	m.mode, m.state, m.trim, m.begun = modeAnswer, 0, false, len(left) > 0
	m.s.out.begin(reasoning.Answer, reasoning.Call{})
	m.s.out.text(string(left))
	m.push(piece, control, special)
}

// after returns how much of text is only white space or the end of the block of code around the object.
func (r *Object) after(text string) int {
	for i := range len(text) {
		if !isSpace(text[i]) && !(r.fenced && text[i] == '`') {
			return i
		}
	}
	return len(text)
}

func isBlank(text string) bool { return strings.TrimLeft(text, " \t\r\n") == "" }
