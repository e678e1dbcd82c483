package results

import (
	"fmt"
	"io"

	"runner/bench"
)

// Difference compares the same test of two subjects, or of two runs.
type Difference struct {
	A, B *Row
	bench.Comparison
}

// Within compares the subjects of a run that have the same model: each test of the first one with that of the others.
// It compares workloads with the first one of their group.
func Within(rows []Row) []Difference {
	var list []Difference
	for i := range rows {
		for k := range rows[:i] {
			a, b := &rows[k], &rows[i]
			if a.Group != "" && a.Group == b.Group {
				list = append(list, Difference{a, b, bench.Compare(a.Samples, b.Samples)})
				break
			}
			if a.Model != b.Model || a.Test() != b.Test() {
				continue
			}
			if a.Subject != b.Subject || a.Threads != b.Threads {
				list = append(list, Difference{a, b, bench.Compare(a.Samples, b.Samples)})
			}
			break
		}
	}
	return list
}

// Between compares the tests of two runs. Rows belong together if model, test, subject and threads are equal; else if
// only model and test are, and each run has one such row. alone lists rows without a partner.
func Between(before, after []Row) (list []Difference, alone []Row) {
	used := make([]bool, len(after))
	pairs := make([]int, len(before))
	match := func(same func(a, b *Row) bool) {
		for i := range before {
			if pairs[i] > 0 {
				continue
			}
			for k := range after {
				if !used[k] && same(&before[i], &after[k]) {
					pairs[i], used[k] = k+1, true
					break
				}
			}
		}
	}
	match(func(a, b *Row) bool {
		return a.Model == b.Model && a.Test() == b.Test() && a.Subject == b.Subject && a.Threads == b.Threads
	})
	only := func(rows []Row, r *Row) bool {
		n := 0
		for i := range rows {
			if rows[i].Model == r.Model && rows[i].Test() == r.Test() {
				n++
			}
		}
		return n == 1
	}
	match(func(a, b *Row) bool {
		return a.Model == b.Model && a.Test() == b.Test() && only(before, a) && only(after, b)
	})
	for i := range before {
		if pairs[i] == 0 {
			alone = append(alone, before[i])
			continue
		}
		a, b := &before[i], &after[pairs[i]-1]
		list = append(list, Difference{a, b, bench.Compare(a.Samples, b.Samples)})
	}
	for k := range after {
		if !used[k] {
			alone = append(alone, after[k])
		}
	}
	return list, alone
}

// WriteDifferences writes a table of differences, or sentences if width is not 0 and there are not so many columns of
// text for it.
func WriteDifferences(w io.Writer, list []Difference, width int) error {
	columns := [][]string{{"model"}, {"test"}, {"A"}, {"B"}, {"A t/s"}, {"B t/s"}, {"B/A [95%]"}, {"p"}, {"significant"}}
	right := []bool{false, true, false, false, true, true, true, true, false}
	for i := range list {
		d := &list[i]
		test := d.A.Test()
		if b := d.B.Test(); b != test {
			test += " / " + b
		}
		significant := "no"
		if d.Significant() {
			significant = "yes"
		}
		for k, cell := range []string{d.A.Model, test, d.A.label(), d.B.label(), fmt.Sprintf("%.2f", d.A.Median),
			fmt.Sprintf("%.2f", d.B.Median), fmt.Sprintf("%.3f [%.3f, %.3f]", d.Ratio, d.Low, d.High),
			fmt.Sprintf("%.3f", d.P), significant} {
			columns[k] = append(columns[k], cell)
		}
	}
	if width > 0 && tableWidth(columns) > width {
		return writeSentences(w, list, width)
	}
	return writeTable(w, columns, right)
}

func writeSentences(w io.Writer, list []Difference, width int) error {
	for i := range list {
		d := &list[i]
		a, b := d.A.Test()+" of "+d.A.label(), d.B.Test()+" of "+d.B.label()
		significant := "not significant"
		if d.Significant() {
			significant = "significant"
		}
		text := fmt.Sprintf("%s, against %s: %.3f times [%.3f, %.3f] the speed, p %.3f, %s", b, a, d.Ratio, d.Low, d.High,
			d.P, significant)
		if _, err := fmt.Fprintln(w, wrapped(text, width)); err != nil {
			return err
		}
	}
	return nil
}

// label names the subject of a row and its threads.
func (r *Row) label() string {
	if r.Threads == 1 {
		return r.Subject + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", r.Subject, r.Threads)
}
