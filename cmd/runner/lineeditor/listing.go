package lineeditor

import (
	"fmt"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"runner/cmd/runner/render"
)

// listLimit is how many candidates a list shows.
const listLimit = 100

// gap is the width between the columns of a list.
const gap = 2

// listed returns candidates as a list for a terminal of some columns, without the first bytes, in which all are alike.
func listed(candidates []string, alike, columns int) string {
	var shown []string
	for _, c := range candidates[:min(len(candidates), listLimit)] {
		shown = append(shown, shortened(strings.TrimRight(render.CleanLine(c[alike:]), " "), columns))
	}
	if more := len(candidates) - listLimit; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	for rows := 1; ; rows++ {
		if text, ok := inRows(shown, rows, columns); ok || rows == len(shown) {
			return text
		}
	}
}

// inRows returns names in some rows, to be read column by column. ok says that they fit.
func inRows(names []string, rows, columns int) (text string, ok bool) {
	lines, begin := make([]string, rows), 0
	for first := 0; first < len(names); first += rows {
		column, widest := names[first:min(first+rows, len(names))], 0
		for i, name := range column {
			lines[i] += strings.Repeat(" ", begin-displaywidth.String(lines[i])) + name
			widest = max(widest, displaywidth.String(name))
		}
		if begin+widest > columns {
			return strings.Join(lines, "\n"), false
		}
		begin += widest + gap
	}
	return strings.Join(lines, "\n"), true
}

// shortened returns a name that is at most some columns wide. What is cut off ends in an ellipsis.
func shortened(name string, columns int) string {
	if displaywidth.String(name) <= columns {
		return name
	}
	return fitting(name, columns-1) + "…"
}
