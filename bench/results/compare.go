package results

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"runner/bench"
)

// Difference compares the same test of two subjects, or of two runs.
type Difference struct {
	A, B *bench.Row
	// Timed says that the times are compared, and not the speeds.
	Timed bool
	bench.Comparison
}

// difference compares two rows. The same workload of two subjects or runs is compared by its speed in any case.
func difference(a, b *bench.Row) Difference {
	if a.Timed && b.Timed && a.Workload != b.Workload {
		return Difference{a, b, true, bench.Compare(timesOf(a), timesOf(b))}
	}
	return Difference{a, b, false, bench.Compare(a.Samples, b.Samples)}
}

// timesOf returns how long each run took, in milliseconds.
func timesOf(r *bench.Row) []float64 {
	list := make([]float64, len(r.SamplesNS))
	for i, ns := range r.SamplesNS {
		list[i] = float64(ns) / 1e6
	}
	return list
}

// Within compares each test of a run's first subject with that of the others: with those that have the same model, or
// else with the first model. It also compares the workloads of a subject with the first one of their group.
func Within(rows []bench.Row) []Difference {
	var list []Difference
	add := func(b *bench.Row, rows []bench.Row, same func(a *bench.Row) bool) bool {
		for k := range rows {
			if a := &rows[k]; same(a) {
				list = append(list, difference(a, b))
				return true
			}
		}
		return false
	}
	for i := range rows {
		b, before := &rows[i], rows[:i]
		sameTest := func(a *bench.Row) bool { return a.Test() == b.Test() }
		add(b, before, func(a *bench.Row) bool { return a.Group != "" && a.Group == b.Group && sameSubject(a, b) })
		_ = add(b, before, func(a *bench.Row) bool { return a.Model == b.Model && sameTest(a) && !sameSubject(a, b) }) ||
			add(b, before, func(a *bench.Row) bool { return a.Model != b.Model && sameTest(a) })
	}
	return list
}

// sameSubject reports whether two rows of a run have the same model, engine and threads.
func sameSubject(r, other *bench.Row) bool {
	return r.Model == other.Model && r.Subject == other.Subject && r.Threads == other.Threads
}

// Between compares the tests of two runs. Rows belong together if model, test, subject and threads are equal; else if
// only model and test are, and each run has one such row. Models are equal if their descriptions are, or the names of
// their files, or size and number of weights. alone lists rows without a partner.
func Between(before, after []bench.Row) (list []Difference, alone []bench.Row) {
	used := make([]bool, len(after))
	pairs := make([]int, len(before))
	match := func(same func(a, b *bench.Row) bool) {
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
	match(func(a, b *bench.Row) bool {
		return sameModel(a, b) && a.Test() == b.Test() && a.Subject == b.Subject && a.Threads == b.Threads
	})
	only := func(rows []bench.Row, r *bench.Row) bool {
		n := 0
		for i := range rows {
			if sameModel(&rows[i], r) && rows[i].Test() == r.Test() {
				n++
			}
		}
		return n == 1
	}
	match(func(a, b *bench.Row) bool {
		return sameModel(a, b) && a.Test() == b.Test() && only(before, a) && only(after, b)
	})
	for i := range before {
		if pairs[i] == 0 {
			alone = append(alone, before[i])
			continue
		}
		list = append(list, difference(&before[i], &after[pairs[i]-1]))
	}
	for k := range after {
		if !used[k] {
			alone = append(alone, after[k])
		}
	}
	return list, alone
}

// sameModel reports whether rows of two runs are about the same model. llama-bench describes models in other words.
func sameModel(r, other *bench.Row) bool {
	return r.Model == other.Model || r.File != "" && filepath.Base(r.File) == filepath.Base(other.File) ||
		r.Size > 0 && r.Size == other.Size && r.Parameters == other.Parameters
}

// Unlike says in words what makes two runs hard to compare: another machine, other settings, or a machine that changed.
func Unlike(before, after []bench.Row) []string {
	var list []string
	say := func(format string, values ...any) {
		if text := fmt.Sprintf(format, values...); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	pairs, _ := Between(before, after)
	for i := range pairs {
		a, b := setting(pairs[i].A), setting(pairs[i].B)
		for k, name := range settingNames {
			if a[k] != b[k] && a[k] != "" && b[k] != "" {
				say("the %s differs: A has %s, B has %s", name, a[k], b[k])
			}
		}
	}
	for i, rows := range [][]bench.Row{before, after} {
		for k := range rows {
			if changed := rows[k].Changed; len(changed) > 0 {
				say("the machine changed during %c: %s", "AB"[i], strings.Join(changed, "; "))
			}
		}
	}
	for i, rows := range [][]bench.Row{before, after} {
		marked, all := 0, 0
		for k := range rows {
			marked, all = marked+rows[k].Doubtful(), all+len(rows[k].Runs)
		}
		if marked > 0 {
			list = append(list, fmt.Sprintf("the machine changed in %d of %d runs of %c", marked, all, "AB"[i]))
		}
	}
	return list
}

// settingNames are the names of what setting returns.
var settingNames = [...]string{"processor", "number of logical processors", "system", "GPU",
	"number of layers on the GPU", "batch size", "cache type", "setting of flash attention", "kind of kernels"}

// setting returns on what and how a row was measured. What is not known is empty.
func setting(r *bench.Row) [len(settingNames)]string {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	gpu, layers := r.GPU, fmt.Sprint(r.GPULayers)
	if gpu == "" {
		gpu, layers = "none", ""
	}
	return [...]string{r.CPU, number(r.Machine.Cores), r.Machine.System, gpu, layers, number(r.Batch), r.CacheKeys,
		map[bench.Choice]string{-1: "auto", 0: "off", 1: "on"}[r.FlashAttn], r.Kernels}
}

// WriteDifferences writes a table of differences of speeds and one of differences of times, or sentences where width is
// not 0 and there are not so many columns of text for a table.
func WriteDifferences(w io.Writer, list []Difference, width int) error {
	var speeds, times []Difference
	for _, d := range list {
		if d.Timed {
			times = append(times, d)
		} else {
			speeds = append(speeds, d)
		}
	}
	if err := writeDifferences(w, speeds, "t/s", width); err != nil {
		return err
	}
	if len(speeds) > 0 && len(times) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return writeDifferences(w, times, "total ms", width)
}

func writeDifferences(w io.Writer, list []Difference, unit string, width int) error {
	if len(list) == 0 {
		return nil
	}
	columns := [][]string{{"model"}, {"test"}, {"A"}, {"B"}, {"A " + unit}, {"B " + unit}, {"B/A [95%]"}, {"p"},
		{"significant"}}
	right := []bool{false, true, false, false, true, true, true, true, false}
	for i := range list {
		d := &list[i]
		test := d.A.Test()
		if b := d.B.Test(); b != test {
			test += " / " + b
		}
		model := d.A.Model
		if d.B.Model != model {
			model += " / " + d.B.Model
		}
		significant := "no"
		switch {
		case d.TooFew:
			significant = "too few runs"
		case d.Significant():
			significant = "yes"
		}
		a, b := d.A.Median, d.B.Median
		if d.Timed {
			a, b = bench.Median(timesOf(d.A)), bench.Median(timesOf(d.B))
		}
		for k, cell := range []string{model, test, d.A.Label(), d.B.Label(), fmt.Sprintf("%.2f", a),
			fmt.Sprintf("%.2f", b), d.ratio(), d.probability(), significant} {
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
		a, b := d.A.Test()+" of "+d.A.Label(), d.B.Test()+" of "+d.B.Label()
		if d.A.Model != d.B.Model {
			a, b = a+" with "+d.A.Model, b+" with "+d.B.Model
		}
		significant := "not significant"
		switch {
		case d.TooFew:
			significant = "too few runs to be significant"
		case d.Significant():
			significant = "significant"
		}
		what := "times the speed"
		if d.Timed {
			what = "times as long"
		}
		text := fmt.Sprintf("%s, against %s: %s %s, p %s, %s", b, a, d.ratio(), what, d.probability(), significant)
		if _, err := fmt.Fprintln(w, wrapped(text, width)); err != nil {
			return err
		}
	}
	return nil
}

// ratio formats the ratio, with its interval if there is more than one sample.
func (d *Difference) ratio() string {
	if len(d.A.Samples) == 1 && len(d.B.Samples) == 1 {
		return fmt.Sprintf("%.3f", d.Ratio)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", d.Ratio, d.Low, d.High)
}

// probability formats the p value.
func (d *Difference) probability() string {
	if d.P < 0.0005 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", d.P)
}
