package render

import (
	"strings"

	"github.com/rivo/uniseg"
)

// ProseWidth is the width, in columns, beyond which text is hard to read.
const ProseWidth = 100

// Wrap breaks text between words into lines of at most width columns. A longer word gets a line of its own.
func Wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := uniseg.StringWidth(word)
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// Hanging returns text after a first column. Its lines are at most width columns wide. All but the first begin at
// column indent.
func Hanging(first, text string, indent, width int) string {
	lines := strings.Split(Wrap(text, max(width-indent, 20)), "\n")
	return first + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// Pad adds spaces to text until it is n columns wide. It adds at least one.
func Pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-uniseg.StringWidth(text), 1))
}

// Clipped returns a text that is at most some columns wide, with an ellipsis in place of the rest.
func Clipped(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	for rest, at := text, 1; rest != ""; {
		cluster, more, w, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		if at += w; at > columns {
			break
		}
		b.WriteString(cluster)
		rest = more
	}
	return b.String() + "…"
}
