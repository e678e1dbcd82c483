package results

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Formats are the names of what Write writes.
var Formats = []string{"md", "csv", "json", "jsonl"}

// Write writes rows in a format.
func Write(w io.Writer, format string, rows []Row) error {
	switch format {
	case "md":
		return writeMarkdown(w, rows)
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

// writeCSV writes a column for each key of the JSON whose value is a number or a text.
func writeCSV(w io.Writer, rows []Row) error {
	c := csv.NewWriter(w)
	kind := reflect.TypeFor[Row]()
	var columns []int
	var names []string
	for i := range kind.NumField() {
		f := kind.Field(i)
		switch f.Type.Kind() {
		case reflect.Slice:
			continue
		case reflect.Struct:
			if f.Type != reflect.TypeFor[time.Time]() {
				continue
			}
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		columns, names = append(columns, i), append(names, name)
	}
	if err := c.Write(names); err != nil {
		return err
	}
	for i := range rows {
		v := reflect.ValueOf(rows[i])
		var line []string
		for _, k := range columns {
			switch x := v.Field(k).Interface().(type) {
			case time.Time:
				line = append(line, x.Format(time.RFC3339))
			default:
				line = append(line, fmt.Sprint(x))
			}
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// writeMarkdown writes a table that begins with the columns of llama-bench, and the conditions below it. Columns
// without a value are left out.
func writeMarkdown(w io.Writer, rows []Row) error {
	columns := []struct {
		name  string
		right bool
		value func(r *Row) string
	}{
		{"model", false, func(r *Row) string { return r.Model }},
		{"size", true, func(r *Row) string { return bytesText(r.Size) }},
		{"params", true, func(r *Row) string {
			if r.Parameters == 0 {
				return ""
			}
			return billions(r.Parameters)
		}},
		{"backend", false, func(r *Row) string { return r.Subject }},
		{"threads", true, func(r *Row) string { return fmt.Sprint(r.Threads) }},
		{"test", true, (*Row).Test},
		{"t/s", true, func(r *Row) string { return fmt.Sprintf("%.2f ± %.2f", r.Mean, r.Deviation) }},
		{"median [95%]", true, func(r *Row) string { return fmt.Sprintf("%.2f [%.2f, %.2f]", r.Median, r.Low, r.High) }},
		{"tokens", true, func(r *Row) string {
			if r.Tokens == 0 {
				return ""
			}
			return fmt.Sprintf("%.0f", r.Tokens)
		}},
		{"answer ms", true, func(r *Row) string { return milliseconds(r.AnswerNS) }},
		{"total ms", true, func(r *Row) string {
			if r.Workload == "" {
				return ""
			}
			return milliseconds(r.MeanNS)
		}},
		{"TTFT ms", true, func(r *Row) string { return milliseconds(r.FirstNS) }},
		{"gap p50/p95 ms", true, func(r *Row) string {
			if r.Gap50NS == 0 {
				return ""
			}
			return milliseconds(r.Gap50NS) + "/" + milliseconds(r.Gap95NS)
		}},
		{"roofline", true, func(r *Row) string {
			if r.Roofline == 0 {
				return ""
			}
			return fmt.Sprintf("%.0f%%", 100*r.Roofline)
		}},
		{"load s", true, func(r *Row) string {
			if r.LoadNS == 0 {
				return ""
			}
			return fmt.Sprintf("%.2f", float64(r.LoadNS)/1e9)
		}},
		{"memory", true, func(r *Row) string { return bytesText(r.Memory) }},
	}
	var cells [][]string
	var right []bool
	for _, c := range columns {
		column := []string{c.name}
		for i := range rows {
			column = append(column, c.value(&rows[i]))
		}
		if slices.ContainsFunc(column[1:], func(x string) bool { return x != "" }) {
			cells, right = append(cells, column), append(right, c.right)
		}
	}
	if err := writeTable(w, cells, right); err != nil || len(rows) == 0 {
		return err
	}
	for _, line := range conditions(&rows[0]) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
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
func conditions(r *Row) []string {
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
	if r.Bandwidth > 0 {
		add("%.1f GB/s read from memory", r.Bandwidth/1e9)
	}
	if r.PerToken > 0 {
		add("a token reads %s", bytesText(r.PerToken))
	}
	if r.Kernels != "" {
		add("kernels: %s", r.Kernels)
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
	return lines
}

// states describes the machine before and after.
func states(r *Row) string {
	var list []string
	pair := func(name, format string, before, after float64) {
		if before > 0 || after > 0 {
			list = append(list, fmt.Sprintf(name+" "+format+" before, "+format+" after", before, after))
		}
	}
	pair("clock", "%.2f GHz", r.Before.Frequency/1e9, r.After.Frequency/1e9)
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
