package render

import (
	"fmt"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	// nameColumns is the most columns of a file's name beside a bar.
	nameColumns = 26
	// numberColumns has room for the sizes, the speed and the time beside a bar, with a space before each.
	numberColumns = 1 + len("1000.0 MiB / 11.3 GiB") + 1 + len("1000.0 MiB/s") + 1 + len("1h23m45s")
	// leastBar is the shortest bar that is drawn.
	leastBar = 6
	// leastName is the shortest end of a name that says something.
	leastName = 8
	// usualState is not shown.
	usualState = "downloading"
)

// row is what is shown of one file.
type row struct {
	name, state string
	// names is how many columns the names of all files take.
	names       int
	done, total int64
	speed, left string
}

// text formats the row in at most width columns: with a bar if there is room for one, else without it. A state that is
// not the usual one takes the place of the bar, or of the speed and the time.
func (r *row) text(width int) string {
	bar := width - r.names - 1 - numberColumns
	if bar < leastBar {
		return r.short(width)
	}
	middle := r.bar(bar)
	if r.state != usualState {
		middle = padded(shortened(r.state, bar), bar)
	}
	return fmt.Sprintf("%s %s %21s %12s %8s", padded(shortened(r.name, r.names), r.names), middle,
		Size(r.done)+" / "+Size(r.total), r.speed, r.left)
}

// short is text without a bar. The numbers come before the name, and of them the total.
func (r *row) short(width int) string {
	numbers := []string{sizes(r.done, r.total), r.speed, r.left}
	if r.state != usualState {
		numbers = []string{sizes(r.done, r.total), r.state}
	}
	for len(numbers) > 1 && width-1-uniseg.StringWidth(strings.Join(numbers, " ")) < leastName {
		numbers = numbers[:len(numbers)-1]
	}
	rest := strings.TrimRight(strings.Join(numbers, " "), " ")
	name := max(0, min(r.names, width-1-uniseg.StringWidth(rest)))
	return shortened(strings.TrimSpace(padded(shortened(r.name, name), name)+" "+rest), width)
}

// bar draws how much is done in width columns.
func (r *row) bar(width int) string {
	inner, full := width-2, 0
	if r.total > 0 {
		full = int(float64(inner) * float64(min(r.done, r.total)) / float64(r.total))
	}
	filled := strings.Repeat("=", full)
	if full > 0 && full < inner {
		filled = filled[1:] + ">"
	}
	return "[" + filled + strings.Repeat("-", inner-full) + "]"
}

// sizes formats two numbers of bytes, with one unit where that is the same.
func sizes(done, total int64) string {
	a, b := Size(done), Size(total)
	if number, ok := strings.CutSuffix(a, b[strings.LastIndexByte(b, ' '):]); ok {
		a = number
	}
	return a + "/" + b
}

// shortened returns the end of a long text, which says more of a file's name than its beginning: the quantization and
// the part.
func shortened(text string, columns int) string {
	for uniseg.StringWidth(text) > columns {
		rest := strings.TrimPrefix(text, "…")
		if rest == "" {
			return ""
		}
		_, rest, _, _ = uniseg.FirstGraphemeClusterInString(rest, -1)
		text = "…" + rest
	}
	return text
}

func padded(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-uniseg.StringWidth(text)))
}
