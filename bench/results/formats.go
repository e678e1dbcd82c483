package results

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"runner/bench"
)

// Formats are the names of what Write writes.
var Formats = []string{"md", "csv", "json", "jsonl"}

// Write writes rows in a format. width is how many columns of text there are for a table, or 0 for any number.
func Write(w io.Writer, format string, rows []bench.Row, width int) error {
	switch format {
	case "md":
		return writeMarkdown(w, rows, width)
	case "csv":
		return writeCSV(w, rows)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	case "jsonl":
		e := json.NewEncoder(w)
		for i := range rows {
			if err := e.Encode(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("no format is called %q", format)
}

// writeCSV writes a column for each key of the JSON whose value is a number or a text, and one for the doubtful runs.
func writeCSV(w io.Writer, rows []bench.Row) error {
	c := csv.NewWriter(w)
	var columns [][]int
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[bench.Row]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch kind := f.Type.Kind(); {
		case name == "":
			continue
		case kind == reflect.Slice && f.Type.Elem().Kind() != reflect.String:
			continue
		case kind == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			continue
		}
		columns, names = append(columns, f.Index), append(names, name)
	}
	if err := c.Write(append(names, "doubtful_runs")); err != nil {
		return err
	}
	for i := range rows {
		v := reflect.ValueOf(rows[i])
		var line []string
		for _, k := range columns {
			switch x := v.FieldByIndex(k).Interface().(type) {
			case time.Time:
				line = append(line, x.Format(time.RFC3339))
			case []string:
				line = append(line, strings.Join(x, "; "))
			default:
				line = append(line, fmt.Sprint(x))
			}
		}
		doubtful := "" // nothing watched the runs
		if len(rows[i].Runs) > 0 {
			doubtful = fmt.Sprint(rows[i].Doubtful())
		}
		if err := c.Write(append(line, doubtful)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// column is a column of the table of results.
type column struct {
	name  string
	right bool
	// subject marks what is the same for all tests of a subject.
	subject bool
	value   func(r *bench.Row) string
}

// columns begin with those of llama-bench.
var columns = []column{
	{"model", false, true, func(r *bench.Row) string { return r.Model }},
	{"size", true, true, func(r *bench.Row) string { return bytesText(r.Size) }},
	{"params", true, true, func(r *bench.Row) string {
		if r.Parameters == 0 {
			return ""
		}
		return bench.Billions(r.Parameters)
	}},
	{"backend", false, true, func(r *bench.Row) string { return r.Subject }},
	{"threads", true, true, func(r *bench.Row) string { return fmt.Sprint(r.Threads) }},
	{"test", true, false, (*bench.Row).Test},
	{"t/s", true, false, func(r *bench.Row) string { return fmt.Sprintf("%.2f ± %.2f", r.Mean, r.Deviation) }},
	{"median [95%]", true, false, func(r *bench.Row) string {
		if len(r.Samples) == 1 {
			return fmt.Sprintf("%.2f", r.Median)
		}
		return fmt.Sprintf("%.2f [%.2f, %.2f]", r.Median, r.Low, r.High)
	}},
	{"tokens", true, false, func(r *bench.Row) string {
		if r.Tokens == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f", r.Tokens)
	}},
	{"answer ms", true, false, func(r *bench.Row) string { return milliseconds(r.AnswerNS) }},
	{"total ms", true, false, func(r *bench.Row) string {
		if r.Workload == "" {
			return ""
		}
		return milliseconds(cmp.Or(r.MedianNS, r.MeanNS))
	}},
	{"TTFT ms", true, false, func(r *bench.Row) string { return milliseconds(r.FirstNS) }},
	{"gap p50/p95 ms", true, false, func(r *bench.Row) string {
		if r.Gap50NS == 0 {
			return ""
		}
		return milliseconds(r.Gap50NS) + "/" + milliseconds(r.Gap95NS)
	}},
	{"roofline", true, false, func(r *bench.Row) string {
		if r.Roofline == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f%%", 100*r.Roofline)
	}},
	{"doubtful runs", true, false, func(r *bench.Row) string {
		if r.Doubtful() == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d", r.Doubtful(), len(r.Runs))
	}},
	{"load s", true, true, func(r *bench.Row) string {
		if r.LoadNS == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", float64(r.LoadNS)/1e9)
	}},
	{"memory", true, true, func(r *bench.Row) string { return bytesText(r.Memory) }},
}

// writeMarkdown writes a table of all rows, and the conditions below it. Columns without a value are left out. If the
// table is too wide, each subject gets a table of its own, below a line with what is the same for its tests. Mean and
// deviation are then left out.
func writeMarkdown(w io.Writer, rows []bench.Row, width int) error {
	if len(rows) == 0 {
		return nil
	}
	cells, right := cellsOf(rows, func(c column) bool { return true })
	if width > 0 && tableWidth(cells) > width {
		for from := 0; from < len(rows); {
			same := func(a, b *bench.Row) bool {
				return a.Subject == b.Subject && a.Threads == b.Threads && a.Model == b.Model && a.File == b.File
			}
			var list, rest []bench.Row
			for _, r := range rows[from:] {
				if same(&r, &rows[from]) {
					list = append(list, r)
				} else {
					rest = append(rest, r)
				}
			}
			rows = slices.Concat(rows[:from], list, rest)
			if _, err := fmt.Fprintf(w, "%s\n\n", wrapped(subjectLine(&list[0]), width)); err != nil {
				return err
			}
			cells, right := cellsOf(list, func(c column) bool { return !c.subject && c.name != "t/s" })
			if err := writeTable(w, cells, right); err != nil {
				return err
			}
			if from += len(list); from < len(rows) {
				fmt.Fprintln(w)
			}
		}
	} else if err := writeTable(w, cells, right); err != nil {
		return err
	}
	for _, line := range conditions(rows) {
		if _, err := fmt.Fprintln(w, wrapped(line, cmp.Or(width, proseWidth))); err != nil {
			return err
		}
	}
	return nil
}

// proseWidth is the width of text below a table that may have any width.
const proseWidth = 120

// wrapped breaks a text between words, so that its lines have at most width columns. 0 is no limit.
func wrapped(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width > 0 && column+1+n > width:
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

// subjectLine says what is the same for all tests of a subject.
func subjectLine(r *bench.Row) string {
	var facts []string
	for _, c := range columns {
		value := c.value(r)
		if !c.subject || value == "" {
			continue
		}
		switch c.name {
		case "threads":
			if value += " " + c.name; r.Threads == 1 {
				value = "1 thread"
			}
		case "memory":
			value += " " + c.name
		case "params":
			continue // the model's name has them
		case "load s":
			value = "loaded in " + value + " s"
		}
		facts = append(facts, value)
	}
	return strings.Join(facts, ", ")
}

// cellsOf returns the columns of a table of rows, without those that have no value.
func cellsOf(rows []bench.Row, wanted func(c column) bool) (cells [][]string, right []bool) {
	for _, c := range columns {
		if !wanted(c) {
			continue
		}
		list := []string{c.name}
		for i := range rows {
			list = append(list, c.value(&rows[i]))
		}
		if slices.ContainsFunc(list[1:], func(x string) bool { return x != "" }) {
			cells, right = append(cells, list), append(right, c.right)
		}
	}
	return cells, right
}

// tableWidth returns how many columns of text a table takes.
func tableWidth(cells [][]string) int {
	width := 1
	for _, c := range cells {
		most := 0
		for _, cell := range c {
			most = max(most, utf8.RuneCountInString(cell))
		}
		width += most + 3
	}
	return width
}

// writeTable writes columns, whose first cells are their names.
func writeTable(w io.Writer, columns [][]string, right []bool) error {
	if len(columns) == 0 {
		return nil
	}
	widths := make([]int, len(columns))
	for i, c := range columns {
		for _, cell := range c {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for line := range columns[0] {
		var b strings.Builder
		b.WriteString("|")
		for i, c := range columns {
			cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace(c[line])
			space := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if right[i] {
				cell = space + cell
			} else {
				cell += space
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
		if line == 0 {
			b.WriteString("|")
			for i, n := range widths {
				if right[i] {
					b.WriteString(" " + strings.Repeat("-", n-1) + ": |")
				} else {
					b.WriteString(" " + strings.Repeat("-", n) + " |")
				}
			}
			b.WriteString("\n")
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// conditions says on which machine rows were measured, and in which state it was.
func conditions(rows []bench.Row) []string {
	r := &rows[0]
	var facts []string
	add := func(format string, values ...any) { facts = append(facts, fmt.Sprintf(format, values...)) }
	if r.CPU != "" {
		add("%s", r.CPU)
	}
	if r.Machine.Cores > 0 {
		add("%d logical processors", r.Machine.Cores)
	}
	if r.Machine.GPUCores > 0 {
		add("%d GPU cores", r.Machine.GPUCores)
	}
	if r.GPU != "" {
		add("%s", r.GPU)
	}
	var rates []float64
	for i := range rows {
		rates = append(rates, rows[i].Bandwidths...)
	}
	if len(rates) > 0 {
		add("%.1f to %.1f GB/s read from memory beside the runs", slices.Min(rates)/1e9, slices.Max(rates)/1e9)
	}
	for _, f := range differing(rows, func(r *bench.Row) string { return r.Model }, func(r *bench.Row) string {
		if r.PerToken == 0 {
			return ""
		}
		return bytesText(r.PerToken)
	}) {
		add("a token%s reads %s", f.of, f.value)
	}
	for _, f := range differing(rows, func(r *bench.Row) string { return r.Subject },
		func(r *bench.Row) string { return r.Kernels }) {
		add("kernels%s: %s", f.of, f.value)
	}
	if r.Commit != "" {
		add("build %s", r.Commit)
	}
	var lines []string
	if len(facts) > 0 {
		lines = append(lines, "", strings.Join(facts, "; "))
	}
	if s := states(r); s != "" {
		lines = append(lines, "", s)
	}
	if len(r.Changed) > 0 {
		lines = append(lines, "", "**The machine changed while it was measured: "+strings.Join(r.Changed, "; ")+".**")
	}
	if list := doubts(rows); len(list) > 0 {
		lines = append(lines, "", "**Runs are doubtful: "+strings.Join(list, "; ")+".**")
	}
	return lines
}

// maxDoubts is how many doubtful runs the text below a table explains. The JSON has all.
const maxDoubts = 10

// doubts says what makes runs doubtful.
func doubts(rows []bench.Row) []string {
	var list []string
	more := 0
	for i := range rows {
		r := &rows[i]
		for k := range r.Runs {
			switch changed := r.Runs[k].Changed; {
			case len(changed) == 0:
			case len(list) == maxDoubts:
				more++
			default:
				list = append(list, fmt.Sprintf("in run %d of %s of %s, %s", k+1, r.Test(), r.Label(),
					strings.Join(changed, ", and ")))
			}
		}
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// fact is something that holds for some rows. of is " of" and their name, or nothing if it holds for all.
type fact struct{ of, value string }

// differing returns a fact for each value that rows have.
func differing(rows []bench.Row, name, value func(r *bench.Row) string) []fact {
	var list []fact
	same := true
	for i := range rows {
		f := fact{" of " + name(&rows[i]), value(&rows[i])}
		same = same && f.value == value(&rows[0])
		if f.value != "" && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	if same && len(list) > 0 {
		return []fact{{"", list[0].value}}
	}
	return list
}

// states describes the machine before and after.
func states(r *bench.Row) string {
	var list []string
	pair := func(name, format string, before, after float64) {
		if before > 0 || after > 0 {
			list = append(list, fmt.Sprintf(name+" "+format+" before, "+format+" after", before, after))
		}
	}
	pair("clock", "%.2f GHz", r.Before.Clock/1e9, r.After.Clock/1e9)
	pair("mean clock of all processors", "%.2f GHz", r.Before.Frequency/1e9, r.After.Frequency/1e9)
	pair("temperature", "%.0f °C", r.Before.Temperature, r.After.Temperature)
	pair("load", "%.1f", r.Before.Load, r.After.Load)
	return strings.Join(list, "; ")
}

func milliseconds(ns int64) string {
	if ns == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(ns)/1e6)
}

// bytesText formats a size as llama-bench does.
func bytesText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
}
