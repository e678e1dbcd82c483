package markup

import (
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// maxWait limits the text that is held until it is known whether an answer is the object of strategy json, in bytes.
// The token that passes the limit is held too.
const maxWait = 4096

// expect waits for the object of strategy json, if it may come.
func (t *Text) expect() {
	if t.core.Cfg.JSON != nil && !t.said {
		t.waiting = true
		t.core.Object.Reset(false, true)
	}
}

// wait holds the text of a token. It ends when the first member of the object has come, or when the text cannot be the
// object.
func (t *Text) wait(piece string, control, special bool) {
	t.held = append(t.held, heldPiece{piece, control, control || special})
	t.nheld += len(piece)
	r := &t.core.Object
	if !control {
		r.Feed(piece)
	}
	switch {
	case r.Known:
		t.waiting, t.said, t.mode = false, true, modeObject
		r.Reset(false, false)
		t.again()
	case control || r.Ended() || t.nheld > maxWait:
		t.waiting = false
		t.again()
	}
}

// again reads the held text once more, after a change of mode.
func (t *Text) again() {
	t.state = 0
	held := t.held
	t.held, t.nheld = nil, 0
	for _, p := range held {
		t.Push(p.text, p.control, p.special)
	}
}

// endWait ends an answer that is too short to know whether it is the object.
func (t *Text) endWait() {
	t.waiting = false
	if !t.core.Object.CutShort() {
		t.again()
		return
	}
	t.held = t.held[:0]
	t.core.Out.Drop(t.nheld, reader.UseForeign)
	t.nheld = 0
	t.core.Warn(reader.CodeUnfinishedObject)
}

// objectText takes text in the object or after it.
func (t *Text) objectText(piece string, control, special bool) {
	r := &t.core.Object
	if !r.Ended() {
		piece = piece[r.Feed(piece):]
		if !r.Ended() || piece == "" && len(r.Left) == 0 {
			return
		}
	}
	left := r.Left
	if r.Place == reader.PlaceOver {
		if n := r.After(string(left)); n > 0 {
			t.core.Out.Drop(n, reader.UseForeign)
			left = left[n:]
		}
		if len(left) == 0 {
			n := r.After(piece)
			t.core.Out.Drop(n, reader.UseForeign)
			if piece = piece[n:]; piece == "" {
				r.Left = r.Left[:0]
				return
			}
		}
		t.core.Warn(reader.CodeTextAfterObject)
	}
	t.mode, t.state, t.trim, t.begun = modeAnswer, 0, false, len(left) > 0
	t.core.Out.Begin(t.core.Shown, reasoning.Call{})
	t.core.Out.Text(string(left))
	t.Push(piece, control, special)
}

func isBlank(text string) bool { return strings.TrimLeft(text, " \t\r\n") == "" }
