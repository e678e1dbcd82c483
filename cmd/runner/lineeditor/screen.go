package lineeditor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"runner/cmd/runner/render"
)

// Control sequences of ECMA-48, and private ones of xterm that other terminals know or ignore.
const (
	pasteOn     = "\x1b[?2004h"
	pasteOff    = "\x1b[?2004l"
	wrapOff     = "\x1b[?7l"
	wrapOn      = "\x1b[?7h"
	clearRow    = "\x1b[K"
	clearBelow  = "\x1b[J"
	clearScreen = "\x1b[H\x1b[2J"
	dim         = "\x1b[2m"
	plain       = "\x1b[0m"
)

// display draws a text that is being edited. It begins at the start of a row.
type display interface {
	// draw changes what is shown to a layout. hint is dim text after an empty text.
	draw(l layout, hint string)
	// finish shows the whole text and goes to the row after it.
	finish(l layout)
	// note shows a message above the text. The next draw shows the text again.
	note(message string)
	// clear clears the screen. The next draw shows the text again.
	clear()
	// columns is the width that a row of text may have.
	columns() int
	// err is the first error in writing to the terminal.
	err() error
}

// output writes to a terminal.
type output struct {
	w      io.Writer
	size   func() (columns, rows int)
	failed error
}

func (o *output) columns() int {
	columns, _ := o.size()
	return columns - 1
}

func (o *output) err() error { return o.failed }

func (o *output) write(text string) {
	if o.failed == nil && text != "" {
		_, o.failed = io.WriteString(o.w, text)
	}
}

// writeNote writes a message of any number of lines.
func (o *output) writeNote(message string) {
	o.write(strings.ReplaceAll(render.Clean(message), "\n", "\r\n") + "\r\n")
}

// screen is a terminal that knows escape sequences. It draws each change with one write.
//
// It leaves the last column free, because terminals differ in where the cursor is after that column. It goes to the
// cursor's column by writing again what precedes it. So the cursor is right even if the terminal has another opinion
// of the width of a character.
type screen struct {
	output
	shown   []string // the visible rows
	cursor  int      // the cursor's row in shown
	before  string   // what precedes the cursor in its row
	top     int      // the first visible row of the layout
	width   int      // the terminal's size when shown was drawn
	height  int
	started bool
}

func (s *screen) draw(l layout, hint string) {
	columns, height := s.size()
	rows, cursor := s.window(l, max(height, 1))
	if hint = fitting(hint, columns-1-displaywidth.String(l.before)); hint != "" {
		rows[cursor] += dim + hint + plain
	}
	if columns != s.width || height != s.height { // the terminal may have moved or cut the rows
		s.width, s.height = columns, height
		s.restart()
	}
	s.change(rows, cursor, l.before)
}

// window returns the rows that fit on the screen, and the cursor's row in them.
func (s *screen) window(l layout, height int) ([]string, int) {
	s.top = max(min(s.top, l.cursor, len(l.rows)-height), l.cursor-height+1, 0)
	return texts(l.rows[s.top:min(s.top+height, len(l.rows))]), l.cursor - s.top
}

func texts(rows []row) []string {
	var all []string
	for _, r := range rows {
		all = append(all, r.text)
	}
	return all
}

// restart goes to the first visible row and forgets what is shown.
func (s *screen) restart() {
	s.write(up(s.cursor) + "\r" + clearBelow)
	s.shown, s.cursor, s.before = nil, 0, ""
}

// change draws the rows that differ from the shown ones.
func (s *screen) change(rows []string, cursor int, before string) {
	first := 0
	for first < min(len(rows), len(s.shown)) && rows[first] == s.shown[first] {
		first++
	}
	same := first == len(rows) && first == len(s.shown)
	if same && cursor == s.cursor && before == s.before && s.started {
		return
	}
	if added, ok := s.appended(rows, cursor, before); ok {
		s.write(added)
	} else {
		s.write(wrapOff + s.rewrite(rows, first, cursor) + "\r" + before + wrapOn)
	}
	s.shown, s.cursor, s.before, s.started = slices.Clone(rows), cursor, before, true
}

// appended returns the text that was added at the end of the last row, if there is no other change.
func (s *screen) appended(rows []string, cursor int, before string) (string, bool) {
	last := len(s.shown) - 1
	if last < 0 || len(rows) != last+1 || s.cursor != last || cursor != last || s.shown[last] != s.before ||
		rows[last] != before || !slices.Equal(rows[:last], s.shown[:last]) {
		return "", false
	}
	added, ok := strings.CutPrefix(rows[last], s.before)
	return added, ok && boundary(rows[last], len(s.before)) == len(s.before)
}

// rewrite returns what draws the rows from first on and goes to the cursor's row.
func (s *screen) rewrite(rows []string, first, cursor int) string {
	var b strings.Builder
	at := s.cursor
	move := func(to int) {
		b.WriteString(up(at-to) + down(to-at))
		at = to
	}
	if first < len(rows) {
		move(min(first, max(len(s.shown)-1, 0)))
		for i, text := range rows[first:] {
			if i > 0 || first > at {
				b.WriteString("\r\n")
			}
			b.WriteString("\r" + text + clearRow)
			at = first + i
		}
	}
	if len(s.shown) > len(rows) {
		move(len(rows))
		b.WriteString("\r" + clearBelow)
	}
	move(cursor)
	return b.String()
}

func (s *screen) finish(l layout) {
	s.draw(l, "")
	if len(l.rows) > len(s.shown) {
		s.restart()
		s.write(wrapOff + strings.Join(texts(l.rows), "\r\n") + wrapOn)
	} else {
		s.write(down(len(s.shown) - 1 - s.cursor))
	}
	s.write("\r\n")
	s.shown, s.cursor, s.before, s.top, s.started = nil, 0, "", 0, false
}

func (s *screen) note(message string) {
	s.restart()
	s.writeNote(message)
	s.started = false
}

func (s *screen) clear() {
	s.write(clearScreen)
	s.shown, s.cursor, s.before, s.started = nil, 0, "", false
}

// fitting shortens a hint to some columns.
func fitting(hint string, columns int) string {
	w := 0
	for at := 0; at < len(hint); {
		end := after(hint, at)
		if w += width(hint[at:end]); w > columns {
			return render.Clean(hint[:at])
		}
		at = end
	}
	return render.Clean(hint)
}

func up(rows int) string {
	if rows <= 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA", rows)
}

func down(rows int) string {
	if rows <= 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dB", rows)
}
