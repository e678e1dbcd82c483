package lineeditor

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"runner/cmd/runner/render"
)

// tab is how a tab is shown. It fits into the narrowest terminal.
const tab = "  "

// row is one row of the terminal.
type row struct {
	text string // as it is drawn
	// start is the offset of the row's first character. indent is the width of what precedes it.
	start, indent int
	ended         bool // a newline ends the row, not the width of the terminal
}

// layout is a text as rows, with the cursor.
type layout struct {
	rows   []row
	cursor int    // the cursor's row
	before string // what the cursor's row shows before the cursor
}

// typesetter breaks text into rows.
type typesetter struct {
	layout
	columns int
	line    strings.Builder
	start   int
	indent  int
	width   int
}

// lay breaks a text into rows of some columns. A prompt precedes the first line, and more precedes the other lines.
// The cursor is at a byte offset of the text.
func lay(prompt, more string, b buffer, columns int) layout {
	t := &typesetter{columns: max(columns, 2)}
	t.label(prompt)
	for at := 0; ; {
		end := after(b.text, at)
		cluster := b.text[at:end]
		if cluster != "" && cluster != "\n" {
			t.makeRoom(at, cluster)
		}
		if at == b.at {
			t.cursor, t.before = len(t.rows), t.line.String()
		}
		switch cluster {
		case "":
			t.endRow(at, true)
			return t.layout
		case "\n":
			t.endRow(end, true)
			t.label(more)
		default:
			t.put(cluster)
		}
		at = end
	}
}

// label writes a prompt, which is not part of the text.
func (t *typesetter) label(text string) {
	for at := 0; at < len(text); {
		end := after(text, at)
		t.makeRoom(t.start, text[at:end])
		t.put(text[at:end])
		at = end
	}
	t.indent = t.width
}

// makeRoom begins a new row if a cluster does not fit in the current one.
func (t *typesetter) makeRoom(at int, cluster string) {
	if w := width(cluster); w > 0 && t.width > 0 && t.width+w > t.columns {
		t.endRow(at, false)
	}
}

func (t *typesetter) put(cluster string) {
	t.line.WriteString(visible(cluster))
	t.width += width(cluster)
}

// endRow ends the current row. The next one begins at an offset of the text.
func (t *typesetter) endRow(next int, ended bool) {
	t.rows = append(t.rows, row{text: t.line.String(), start: t.start, indent: t.indent, ended: ended})
	t.line.Reset()
	t.start, t.indent, t.width = next, 0, 0
}

// offset returns the offset of the text that is in a column of a row.
func (l layout) offset(text string, in, column int) int {
	r := l.rows[in]
	end := len(text)
	if in+1 < len(l.rows) {
		end = l.rows[in+1].start
		if r.ended {
			end-- // before the newline
		}
	}
	at, w, last := r.start, r.indent, r.start
	for at < end {
		next := after(text, at)
		if w += width(text[at:next]); w > column {
			break
		}
		last, at = at, next
	}
	if at == end && !r.ended {
		return last // the end of a row that goes on is the start of the next one
	}
	return at
}

// circle carries a mark that has no character of its own. Otherwise the mark would go to what precedes the text.
const circle = "◌"

// visible is how a cluster is drawn. It has no control characters.
func visible(cluster string) string {
	switch cluster {
	case "\t":
		return tab
	case "\n", "\r", "\r\n":
		return "␊"
	}
	first, _ := utf8.DecodeRuneInString(cluster)
	if unicode.IsMark(first) || unicode.IsLetter(first) && displaywidth.String(cluster) == 0 {
		return circle + cluster
	}
	return render.Clean(cluster)
}

func width(cluster string) int {
	if len(cluster) == 1 && cluster[0] >= 0x20 && cluster[0] < 0x7f {
		return 1
	}
	return displaywidth.String(visible(cluster))
}
