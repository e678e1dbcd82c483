package lineeditor

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// emulator is a terminal in memory. It knows what the editor may send. Anything else is a fault. It measures text with
// another library than the editor.
type emulator struct {
	columns, rows int
	cells         [][]string // a wide character is followed by an empty cell
	row, column   int
	noWrap        bool
	dumb          bool
	fault         string
}

func newEmulator(columns, rows int) *emulator {
	e := &emulator{}
	e.resize(columns, rows)
	return e
}

// output is what an editor writes to.
func (e *emulator) output() output {
	return output{w: e, size: func() (columns, rows int) { return e.columns, e.rows }}
}

// resize cuts or extends the rows, as xterm does. Rows leave at the top if the cursor would leave at the bottom.
func (e *emulator) resize(columns, rows int) {
	old := e.cells
	if gone := e.row - rows + 1; gone > 0 {
		old, e.row = old[gone:], e.row-gone
	}
	e.columns, e.rows, e.cells = columns, rows, nil
	for r := range rows {
		e.cells = append(e.cells, e.blank())
		if r < len(old) {
			copy(e.cells[r], old[r])
		}
	}
	e.column = min(e.column, columns-1)
}

func (e *emulator) blank() []string {
	row := make([]string, e.columns)
	for i := range row {
		row[i] = " "
	}
	return row
}

func (e *emulator) faulty(format string, args ...any) {
	if e.fault == "" {
		e.fault = fmt.Sprintf(format, args...)
	}
}

func (e *emulator) Write(p []byte) (int, error) {
	for s := string(p); s != ""; {
		switch {
		case s[0] == '\r':
			e.column, s = 0, s[1:]
		case s[0] == '\n':
			e.newline()
			s = s[1:]
		case s[0] == 0x1b && !e.dumb:
			s = e.sequence(s)
		case s[0] < 0x20 || s[0] == 0x7f:
			e.faulty("control character %q", s[0])
			s = s[1:]
		default:
			cluster, rest, w, _ := uniseg.FirstGraphemeClusterInString(s, -1)
			if r, _ := utf8.DecodeRuneInString(cluster); r >= 0x80 && r < 0xa0 {
				e.faulty("control character %q", r)
			}
			e.put(cluster, w)
			s = rest
		}
	}
	return len(p), nil
}

func (e *emulator) newline() {
	if e.row++; e.row == e.rows {
		e.cells = append(e.cells[1:], e.blank())
		e.row--
	}
}

func (e *emulator) put(cluster string, w int) {
	switch {
	case w == 0 && e.column == 0:
		return
	case w == 0:
		at := e.column - 1
		if e.cells[e.row][at] == "" {
			at--
		}
		e.cells[e.row][at] += cluster
		return
	case e.column+w > e.columns && e.noWrap:
		e.faulty("%q at column %d of %d", cluster, e.column, e.columns)
		return
	case e.column+w > e.columns:
		e.column = 0
		e.newline()
	}
	e.cells[e.row][e.column] = cluster
	for i := 1; i < w; i++ {
		e.cells[e.row][e.column+i] = ""
	}
	e.column += w
}

func (e *emulator) sequence(s string) string {
	end := strings.IndexFunc(s[min(2, len(s)):], func(r rune) bool { return r >= 0x40 && r <= 0x7e }) + 2
	if len(s) < 3 || s[1] != '[' || end < 2 {
		e.faulty("sequence %q", s)
		return ""
	}
	name := s[2 : end+1]
	n, _ := strconv.Atoi(name[:len(name)-1])
	switch {
	case name == "?7l", name == "?7h":
		e.noWrap = name == "?7l"
	case name == "?2004h", name == "?2004l", name == "2m", name == "0m":
	case name == "K":
		e.clear(e.row, e.column)
	case name == "J":
		e.clear(e.row, e.column)
		for r := e.row + 1; r < e.rows; r++ {
			e.clear(r, 0)
		}
	case name == "2J":
		for r := range e.rows {
			e.clear(r, 0)
		}
	case name == "H":
		e.row, e.column = 0, 0
	case name[len(name)-1] == 'A' && n > 0:
		e.row = max(e.row-n, 0)
	case name[len(name)-1] == 'B' && n > 0:
		e.row = min(e.row+n, e.rows-1)
	default:
		e.faulty("sequence %q", s[:end+1])
	}
	return s[end+1:]
}

func (e *emulator) clear(row, from int) { copy(e.cells[row][from:], e.blank()) }

// line returns a row without the spaces at its end.
func (e *emulator) line(row int) string {
	return strings.TrimRight(strings.Join(e.cells[row], ""), " ")
}

// picture is what a terminal of some columns has to show for a text. It is worked out in the simplest way.
type picture struct {
	rows        []string
	row, column int // of the cursor
}

func draw(prompt, more, text string, at, columns int) picture {
	p := picture{rows: []string{""}}
	column := 0
	put := func(s string) {
		cluster, rest, w, state := "", s, 0, -1
		for rest != "" {
			cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
			if column+w > columns-1 && w > 0 && column > 0 {
				p.rows, column = append(p.rows, ""), 0
			}
			p.rows[len(p.rows)-1] += cluster
			column += w
		}
	}
	put(prompt)
	for rest, offset := text, 0; ; {
		cluster, next, w, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		shown := cluster
		switch r, _ := utf8.DecodeRuneInString(cluster); {
		case cluster == "\t":
			shown, w = tab, len(tab)
		case cluster == "\x1b":
			shown, w = "␛", 1
		case unicode.IsMark(r):
			shown, w = "◌"+cluster, 1
		}
		wraps := cluster != "\n" && w > 0 && column > 0 && column+w > columns-1
		if wraps {
			p.rows, column = append(p.rows, ""), 0
		}
		if offset == at {
			p.row, p.column = len(p.rows)-1, column
		}
		switch cluster {
		case "":
			return p
		case "\n":
			p.rows, column = append(p.rows, ""), 0
			put(more)
		default:
			p.rows[len(p.rows)-1] += shown
			column += w
		}
		offset += len(cluster)
		rest = next
	}
}
