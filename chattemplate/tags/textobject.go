package tags

import (
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// maxWait is about the most bytes of an answer that are held until it is known whether it is the object of strategy
// json.
const maxWait = 4096

// expect begins an answer that may be the object of strategy json.
func (m *Text) expect() {
	if m.s.Cfg.JSON != nil && !m.said {
		m.waiting = true
		m.s.Object.Reset(false, true)
	}
}

// wait holds a token's text until the first member of the object has come, or what cannot be the object.
func (m *Text) wait(piece string, control, special bool) {
	m.held = append(m.held, heldPiece{piece, control, control || special})
	m.nheld += len(piece)
	r := &m.s.Object
	if !control {
		r.Feed(piece)
	}
	switch {
	case r.Known:
		m.waiting, m.said, m.mode = false, true, modeObject
		r.Reset(false, false)
		m.again()
	case control || r.Ended() || m.nheld > maxWait:
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
		m.Push(p.text, p.control, p.special)
	}
}

// endWait ends an answer of which too little came to know what it is.
func (m *Text) endWait() {
	m.waiting = false
	if !m.s.Object.CutShort() {
		m.again()
		return
	}
	m.held = m.held[:0]
	m.s.Out.Drop(m.nheld, reader.UseForeign)
	m.nheld = 0
	m.s.Warn(reader.CodeUnfinishedObject)
}

// objectText takes text of the object, or after it.
func (m *Text) objectText(piece string, control, special bool) {
	r := &m.s.Object
	if !r.Ended() {
		piece = piece[r.Feed(piece):]
		if !r.Ended() || piece == "" && len(r.Left) == 0 {
			return
		}
	}
	left := r.Left
	if r.Place == reader.PlaceOver {
		if n := r.After(string(left)); n > 0 {
			m.s.Out.Drop(n, reader.UseForeign)
			left = left[n:]
		}
		if len(left) == 0 {
			n := r.After(piece)
			m.s.Out.Drop(n, reader.UseForeign)
			if piece = piece[n:]; piece == "" {
				r.Left = r.Left[:0]
				return
			}
		}
		m.s.Warn(reader.CodeTextAfterObject)
	}
	m.mode, m.state, m.trim, m.begun = modeAnswer, 0, false, len(left) > 0
	m.s.Out.Begin(reasoning.Answer, reasoning.Call{})
	m.s.Out.Text(string(left))
	m.Push(piece, control, special)
}

func isBlank(text string) bool { return strings.TrimLeft(text, " \t\r\n") == "" }
