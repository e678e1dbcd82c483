package lineeditor

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// dumbScreen is a terminal that knows only characters, carriage return and newline. It shows one row of the text: the
// one with the cursor. When the cursor goes to another row, that row is written below. Hints are not shown.
type dumbScreen struct {
	output
	shown  string // the written row
	before string // what precedes the cursor in it
	row    int    // its number in the text
	begun  bool
}

func (s *dumbScreen) draw(l layout, _ string) {
	for s.begun && s.row < l.cursor { // complete the rows that the cursor has left
		s.replace(l.rows[s.row].text, l.rows[s.row].text)
		s.newRow()
		s.row++
	}
	if s.begun && s.row > l.cursor {
		s.newRow()
	}
	s.begun, s.row = true, l.cursor
	s.replace(l.rows[l.cursor].text, l.before)
}

// replace changes the written row.
func (s *dumbScreen) replace(text, before string) {
	if text == s.shown && before == s.before {
		return
	}
	added, ok := strings.CutPrefix(text, s.shown)
	if ok && s.before == s.shown && before == text && boundary(text, len(s.shown)) == len(s.shown) {
		s.write(added)
	} else {
		erased := max(displaywidth.String(s.shown)-displaywidth.String(text), 0)
		s.write("\r" + text + strings.Repeat(" ", erased) + "\r" + before)
	}
	s.shown, s.before = text, before
}

func (s *dumbScreen) newRow() {
	s.write("\r\n")
	s.shown, s.before = "", ""
}

func (s *dumbScreen) finish(l layout) {
	l.cursor = len(l.rows) - 1
	l.before = l.rows[l.cursor].text
	s.draw(l, "")
	s.newRow()
	s.begun = false
}

func (s *dumbScreen) note(message string) {
	s.newRow()
	s.writeNote(message)
	s.begun = false
}

func (s *dumbScreen) clear() {
	s.newRow()
	s.begun = false
}
