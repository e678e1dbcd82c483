package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/bench"
	"runner/bench/machine"
)

// subject returns a subject of the example's model.
func subject(name string, info backend.Info) bench.Subject {
	return bench.NewSubject(name, nil, info, "", "off")
}

// test returns the workload of a test of tokens.
func test(subject int, t bench.Test) bench.Workload {
	return bench.Workload{Subject: subject, Name: t.Name(), Group: t.Name(), Test: t}
}

// example has two engines, of which the second is twice as fast.
func example() []bench.Row {
	info := backend.Info{Architecture: "gpt-oss", Parameters: 20.9e9, Quantization: "MXFP4", Bytes: 12 << 30, Threads: 2,
		BatchSize: 512, Path: "/models/one.gguf", Backend: "llama.cpp", Kernels: "fast"}
	subjects := []bench.Subject{subject("a", info), subject("b", info)}
	for i := range subjects {
		r := &subjects[i].Row
		r.LoadNS, r.Memory, r.PerToken = int64(time.Second)*int64(i+1), int64(3+i)<<30, 2e9
		r.Commit, r.CPU, r.Before = "abc", "Some CPU", machine.State{Clock: 3e9, Load: 1}
		r.Machine = machine.Facts{Processor: "Some CPU", Cores: 2, System: "linux/amd64"}
	}
	var list []bench.Row
	for _, t := range []bench.Test{{Prompt: 512}, {Generate: 4}} {
		for subject := range subjects {
			var samples []bench.Sample
			for k := range 5 {
				s := bench.Sample{Took: time.Duration(1000+k) * time.Millisecond / time.Duration(subject+1), Tokens: t.Tokens(),
					Start: time.Date(2026, 1, 2, 3, 4, k, 0, time.UTC)}
				if t.Prompt > 0 {
					s.First = s.Took
				}
				if t.Generate > 0 {
					s.Bandwidth = float64(20+k) * 1e9
				}
				for range t.Generate {
					s.Gaps = append(s.Gaps, s.Took/4)
				}
				samples = append(samples, s)
			}
			list = append(list, bench.NewRow(subjects, test(subject, t), samples))
		}
	}
	return bench.Finish(list, subjects, machine.State{Clock: 2e9, Load: 2}, time.Minute)
}

// equal compares what rows say. Rows that were read do not have the samples that the others were made of.
func equal(a, b []bench.Row) bool {
	text := func(rows []bench.Row) string {
		b, _ := json.Marshal(rows)
		return string(b)
	}
	return text(a) == text(b)
}

func TestRows(t *testing.T) {
	rows := example()
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	pp, tg := rows[0], rows[2]
	if pp.FirstNS != 1002e6 || pp.MeanNS != 1002e6 || pp.Gap50NS != 0 || pp.Roofline != 0 {
		t.Errorf("reading: first token %d, mean %d, gap %d, roofline %v", pp.FirstNS, pp.MeanNS, pp.Gap50NS, pp.Roofline)
	}
	// In the run in the middle: four tokens in 1.002 s, each of which reads 2 of 22 GB.
	if want := 4 / 1.002 * 2 / 22; tg.Roofline < want-1e-9 || tg.Roofline > want+1e-9 {
		t.Errorf("generating: %v of the roofline, want %v", tg.Roofline, want)
	}
	if len(tg.Changed) != 1 || !strings.Contains(tg.Changed[0], "3.00 to 2.00 GHz") {
		t.Errorf("what changed is %q", tg.Changed)
	}
}

// doubtful has one test with a run at a lower clock and one beside other work.
func doubtful(crowded, elsewhere bool) []bench.Row {
	var samples []bench.Sample
	for k := range 5 {
		s := bench.Sample{Took: time.Second, Tokens: 4, Before: machine.State{Clock: 1e9, Waiting: float64(k)},
			After: machine.State{Clock: 3e9, Temperature: 60, Waiting: float64(k)}}
		switch k {
		case 1:
			s.After.Clock = 2e9
		case 3:
			s.After.Waiting += 0.5
		}
		samples = append(samples, s)
	}
	a := []bench.Subject{subject("a", backend.Info{Threads: 2})}
	if elsewhere {
		a[0].Elsewhere()
	}
	if crowded {
		a[0].Row.Machine.Cores = 1
	}
	row := bench.NewRow(a, test(0, bench.Test{Generate: 4}), samples)
	return bench.Finish([]bench.Row{row}, a, machine.State{}, 0)
}

// TestDoubtfulRuns: a run in which the machine changed is marked in the table and in the JSON, with the reason. Threads
// that wait say nothing where the benchmark has more of them than processors.
func TestDoubtfulRuns(t *testing.T) {
	slow, busy := "the clock was 2.00 GHz instead of 3.00", "threads waited for a processor 50% of the time"
	for crowded, want := range map[bool][]string{false: {1: slow, 3: busy}, true: {1: slow, 3: ""}} {
		row := doubtful(crowded, false)[0]
		for k, m := range row.Runs {
			got := strings.Join(m.Changed, "; ")
			if k < len(want) && got != want[k] || k >= len(want) && got != "" {
				t.Errorf("run %d: %q, want %q", k, got, want)
			}
		}
	}
	if list := doubtful(false, true)[0].Runs; list != nil {
		t.Errorf("an engine elsewhere has %+v", list)
	}
	rows := doubtful(false, false)
	var table, text bytes.Buffer
	if err := Write(&table, "md", rows, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| doubtful runs |", "|        2 of 5 |", "in run 2 of tg4 of a, 2 threads, " + slow,
		"in run 4 of tg4 of a, 2 threads, " + busy} {
		if got := strings.ReplaceAll(table.String(), "\n", " "); !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if err := Write(&text, "json", rows, 0); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again[0].Runs, rows[0].Runs) || again[0].Runs[0].Temperature != 60 {
		t.Errorf("the JSON has %+v, want %+v", again[0].Runs, rows[0].Runs)
	}
	var lines bytes.Buffer
	if err := Write(&lines, "csv", rows, 0); err != nil {
		t.Fatal(err)
	}
	list, err := csv.NewReader(&lines).ReadAll()
	if err != nil || len(list) != 2 || list[0][len(list[0])-1] != "doubtful_runs" || list[1][len(list[1])-1] != "2" {
		t.Errorf("%v, the CSV has %q", err, list)
	}
	if got := Unlike(rows, rows); len(got) != 2 || got[1] != "the machine changed in 2 of 5 runs of B" {
		t.Errorf("a comparison says %q", got)
	}
}

// TestManyDoubts: the text below a table explains some of the doubtful runs and counts the others.
func TestManyDoubts(t *testing.T) {
	rows := slices.Repeat(doubtful(false, false), 7)
	list := doubts(rows)
	if len(list) != maxDoubts+1 || list[maxDoubts] != "and 4 more" {
		t.Errorf("%d texts, the last %q", len(list), list[len(list)-1])
	}
}

// TestLlamaBench: the keys of llama-bench are there, with values of its types.
func TestLlamaBench(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "json", example(), 0); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	for key, kind := range map[string]any{"build_commit": "", "cpu_info": "", "gpu_info": "", "backends": "",
		"model_filename": "", "model_type": "", "model_size": 0.0, "model_n_params": 0.0, "n_batch": 0.0, "n_threads": 0.0,
		"n_gpu_layers": 0.0, "build_number": 0.0, "n_ubatch": 0.0, "cpu_mask": "", "cpu_strict": 0.0, "poll": 0.0,
		"type_k": "", "type_v": "", "split_mode": "", "main_gpu": 0.0, "no_kv_offload": 0.0, "flash_attn": 0.0,
		"tensor_split": "", "tensor_buft_overrides": "", "use_mmap": 0.0, "embeddings": 0.0, "no_op_offload": 0.0,
		"devices": "", "no_host": 0.0,
		"load_mode": "", "n_cpu_moe": 0.0, "fit_target": 0.0, "fit_min_ctx": 0.0,
		"n_prompt": 0.0, "n_gen": 0.0, "n_depth": 0.0, "test_time": "", "avg_ns": 0.0,
		"stddev_ns": 0.0, "avg_ts": 0.0, "stddev_ts": 0.0, "samples_ns": []any{}, "samples_ts": []any{}} {
		if got := reflect.TypeOf(rows[0][key]); got != reflect.TypeOf(kind) {
			t.Errorf("%s is of type %v, want %v", key, got, reflect.TypeOf(kind))
		}
	}
}

// settings are what versions of llama.cpp's scripts/compare-llama-bench.py join the rows of two commits by.
var settings = []string{"cpu_info", "gpu_info", "backends", "n_gpu_layers", "tensor_buft_overrides", "model_filename",
	"model_type", "n_batch", "n_ubatch", "embeddings", "cpu_mask", "cpu_strict", "poll", "n_threads", "type_k", "type_v",
	"use_mmap", "no_kv_offload", "split_mode", "main_gpu", "tensor_split", "flash_attn", "n_prompt", "n_gen", "n_depth",
	"n_cpu_moe", "load_mode", "fit_target", "fit_min_ctx"}

// TestComparer: llama.cpp's scripts/compare-llama-bench.py can tell the rows of a run apart, and finds all that it
// needs. It averages rows that have the same settings, and drops those that lack one.
func TestComparer(t *testing.T) {
	info := backend.Info{Architecture: "gpt-oss", Backend: "llama.cpp", Path: "/models/one.gguf", Threads: 2}
	subjects := []bench.Subject{subject("builtin", info), subject("isolated", info)}
	for i := range subjects {
		subjects[i].Row.Commit, subjects[i].Row.CPU = "abc", "Some CPU"
	}
	sample := []bench.Sample{{Start: time.Unix(1e9, 0), Took: time.Second, Tokens: 9}}
	var rows []bench.Row
	for subject := range subjects {
		for _, t := range []bench.Test{{Prompt: 512}, {Generate: 128}, {Generate: 128, Depth: 4096}} {
			rows = append(rows, bench.NewRow(subjects, test(subject, t), sample))
		}
		for _, name := range []string{"answer", "answer, trace"} {
			w := bench.Workload{Subject: subject, Name: name, Group: "answer"}
			rows = append(rows, bench.NewRow(subjects, w, sample))
		}
	}
	var b bytes.Buffer
	if err := Write(&b, "json", rows, 0); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(b.Bytes(), &objects); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for i, o := range objects {
		key := ""
		for _, name := range slices.Concat(settings, []string{"build_commit", "test_time", "avg_ts"}) {
			if o[name] == nil {
				t.Errorf("%s of %s lacks %s", rows[i].Test(), rows[i].Subject, name)
			}
		}
		for _, name := range settings {
			key += fmt.Sprintf("%v|", o[name])
		}
		what := rows[i].Test() + " of " + rows[i].Subject
		if other := seen[key]; other != "" {
			t.Errorf("%s has the settings of %s", what, other)
		}
		seen[key] = what
	}
	b.Reset()
	if err := Write(&b, "csv", rows, 0); err != nil {
		t.Fatal(err)
	}
	names, err := csv.NewReader(&b).Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(settings, []string{"build_commit", "test_time", "avg_ts"}) {
		if !slices.Contains(names, name) {
			t.Errorf("the CSV lacks %s", name)
		}
	}
}

// TestReadWhatWasWritten: JSON in both forms gives the rows again, and CSV has a line for each.
func TestReadWhatWasWritten(t *testing.T) {
	rows := example()
	for _, format := range []string{"json", "jsonl"} {
		var b bytes.Buffer
		if err := Write(&b, format, rows, 0); err != nil {
			t.Fatal(err)
		}
		got, err := Read(&b)
		if err != nil || !equal(got, rows) {
			t.Errorf("%s: read %+v, %v; want %+v", format, got, err, rows)
		}
	}
	var b bytes.Buffer
	if err := Write(&b, "csv", rows, 0); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 5 || lines[0][0] != "build_commit" || lines[1][0] != "abc" {
		t.Errorf("the CSV is %q, %v", lines, err)
	}
}

// TestReadLlamaBench reads what llama-bench writes, which has no keys of ours.
func TestReadLlamaBench(t *testing.T) {
	rows, err := Read(strings.NewReader(`[{"build_commit": "1a2b", "backends": "CPU", "model_filename": "m/x.gguf",
"model_type": "llama 8B Q4_K - Medium", "n_prompt": 512, "n_gen": 0, "n_depth": 0,
"flash_attn": true, "use_mmap": 1, "embeddings": false,
"avg_ts": 20.0, "stddev_ts": 0.5, "samples_ns": [25000000000, 26000000000], "samples_ts": [20.5, 19.7]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Subject != "x.gguf CPU" || r.Median != 20.1 {
		t.Errorf("the row is %+v", r)
	}
	// Other words for the same file are the same model.
	ours := example()[:1]
	ours[0].File = "/elsewhere/x.gguf"
	if list, alone := Between(rows, ours); len(list) != 1 || len(alone) != 0 || !list[0].TooFew {
		t.Errorf("%d differences, %d rows alone", len(list), len(alone))
	}
	for _, bad := range []string{`[{}]`, `[{"samples_ts": [1], "n_prompt": -1}]`, `{"samples_ts": [0], "n_prompt": 1}`,
		`[`, `7`, `[{"samples_ts": ["x"]}]`} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is read without an error", bad)
		}
	}
}

// TestWorkloads: workloads have their own columns, and are compared with the first one of their subject.
func TestWorkloads(t *testing.T) {
	a := []bench.Subject{subject("a", backend.Info{})}
	var rows []bench.Row
	for i, name := range []string{"answer", "answer, traced", "answer, summary"} {
		var samples []bench.Sample
		for k := range 5 {
			samples = append(samples, bench.Sample{Took: time.Duration(100*(i+1)+k) * time.Millisecond, Tokens: 50,
				First: 10 * time.Millisecond, Answer: 40 * time.Millisecond})
		}
		rows = append(rows, bench.NewRow(a, bench.Workload{Name: name, Group: "answers"}, samples))
	}
	if r := rows[0]; r.Tokens != 50 || r.AnswerNS != 40e6 || r.FirstNS != 10e6 || r.Test() != "answer" {
		t.Errorf("the row is %+v", r)
	}
	within := Within(rows)
	if len(within) != 2 || within[1].A != &rows[0] || within[1].B != &rows[2] || !within[1].Significant() {
		t.Fatalf("%d differences: %+v", len(within), within)
	}
	var b bytes.Buffer
	if err := errors.Join(Write(&b, "md", rows, 0), WriteDifferences(&b, within, 0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tokens", "answer ms", "total ms", "answer / answer, summary"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the tables do not say %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := Write(&b, "json", rows, 0); err != nil {
		t.Fatal(err)
	}
	if read, err := Read(&b); err != nil || !equal(read, rows) {
		t.Errorf("read %+v, %v", read, err)
	}
}

// TestTimes: where workloads take other tokens on purpose, their times are compared in a table of their own.
func TestTimes(t *testing.T) {
	a := []bench.Subject{subject("a", backend.Info{})}
	var rows []bench.Row
	for i, name := range []string{"answer", "answer, schema", "effort none", "effort high"} {
		w := bench.Workload{Name: name, Group: strings.TrimSuffix(strings.Fields(name)[0], ","), Timed: i >= 2}
		var samples []bench.Sample
		for k := range 8 {
			took := time.Duration(100+k) * time.Millisecond
			s := bench.Sample{Took: took, Tokens: 50, Gaps: []time.Duration{time.Millisecond, 3 * time.Millisecond}}
			if name == "effort high" { // twice as fast, and yet three times as long
				s.Took, s.Tokens = 3*took, 300
			}
			samples = append(samples, s)
		}
		rows = append(rows, bench.NewRow(a, w, samples))
	}
	if r := rows[0]; r.Gap50NS != 2e6 || r.Gap95NS != 3e6 {
		t.Errorf("gaps of %d and %d ns", r.Gap50NS, r.Gap95NS)
	}
	within := Within(rows)
	if len(within) != 2 || within[0].Timed || !within[1].Timed || math.Abs(within[1].Ratio-3) > 1e-9 {
		t.Fatalf("%+v", within)
	}
	if between, _ := Between(rows, rows); len(between) != 4 || between[3].Timed || between[3].Ratio != 1 {
		t.Errorf("the same workload in two runs: %+v", between)
	}
	for width, wants := range map[int][]string{
		0: {"|  A t/s |", "\n\n| model", "| A total ms | B total ms |", "103.50 |     310.50 | 3.000 [2.9", "| <0.001 |"},
		60: {"times the speed", "effort high of a, 0 threads, against effort none of a, 0 threads: 3.000 [2.",
			"times as long, p <0.001"},
	} {
		var b bytes.Buffer
		if err := WriteDifferences(&b, within, width); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if width > 0 {
			text = strings.ReplaceAll(text, "\n", " ")
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("with %d columns the text lacks %q:\n%s", width, want, b.String())
			}
		}
	}
	for _, ns := range []string{"", `"samples_ns":[0],`, `"samples_ns":[-1],`, `"samples_ns":[1,1],`} {
		bad := `{"samples_ts":[1],` + ns + `"workload":"effort none","timed":true}`
		if _, err := Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "samples_ns") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestDifferences(t *testing.T) {
	rows := example()
	within := Within(rows)
	if len(within) != 2 {
		t.Fatalf("%d differences, want 2", len(within))
	}
	for _, d := range within {
		if d.Ratio < 1.99 || d.Ratio > 2.01 || !d.Significant() || d.A.Subject != "a" || d.B.Subject != "b" {
			t.Errorf("%s: %+v", d.A.Test(), d.Comparison)
		}
	}
	between, alone := Between(rows[:3], rows[1:])
	if len(between) != 2 || len(alone) != 2 || between[0].Significant() || between[0].Ratio != 1 {
		t.Errorf("%d differences and %d rows alone: %+v", len(between), len(alone), between)
	}
	// Runs with one subject each compare although its name differs.
	if between, _ := Between(rows[:1], rows[1:2]); len(between) != 1 || between[0].Ratio < 1.99 {
		t.Errorf("%+v", between)
	}
}

// TestTurns: where several subjects did the same workloads, each is compared with its own plain one and with the first
// subject, and different models are compared too.
func TestTurns(t *testing.T) {
	rowsOf := func(subjects []bench.Subject) (rows []bench.Row) {
		bench.NameFiles(subjects)
		for _, name := range []string{"answer", "answer, summary"} {
			for subject := range subjects {
				var samples []bench.Sample
				for k := range 4 {
					samples = append(samples, bench.Sample{Took: time.Duration(100+k) * time.Millisecond, Tokens: 50})
				}
				rows = append(rows, bench.NewRow(subjects, bench.Workload{Subject: subject, Name: name, Group: "answer"}, samples))
			}
		}
		return rows
	}
	pairs := func(subjects []bench.Subject) (all []string) {
		for _, d := range Within(rowsOf(subjects)) {
			all = append(all, d.A.Subject+" "+d.A.Test()+" / "+d.B.Subject+" "+d.B.Test())
		}
		return all
	}
	want := []string{"x answer / y answer", "x answer / x answer, summary", "y answer / y answer, summary",
		"x answer, summary / y answer, summary"}
	one, other := backend.Info{Architecture: "llama", Path: "one.gguf"}, backend.Info{Architecture: "qwen3"}
	for what, subjects := range map[string][]bench.Subject{
		"two engines": {subject("x", one), subject("y", one)},
		"two models":  {subject("x", one), subject("y", other)},
	} {
		if got := pairs(subjects); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	// Two files that look the same have their names in the table.
	another := one
	another.Path = "dir/another.gguf"
	same := []bench.Subject{subject("x", one), subject("y", another)}
	for i := range same {
		same[i].Row.Model += ", random, 2 layers"
	}
	rows := rowsOf(same)
	if got := rows[1].Model; got != "llama, random, 2 layers, another.gguf" {
		t.Errorf("the model is called %q", got)
	}
}

// TestFacts: what differs between rows is named with its row, and what is the same stands there once.
func TestFacts(t *testing.T) {
	rows := example()
	text := func() string { return strings.Join(conditions(rows), "\n") }
	if !strings.Contains(text(), "; kernels: fast") || !strings.Contains(text(), "20.0 to 24.0 GB/s") {
		t.Errorf("the facts are %q", text())
	}
	rows[1].Kernels, rows[3].Kernels = "slow", "slow"
	if got := text(); !strings.Contains(got, "kernels of a: fast; kernels of b: slow; ") {
		t.Errorf("the facts are %q", got)
	}
	rows[0].Samples, rows[0].Model = rows[0].Samples[:1], "one run"
	var b bytes.Buffer
	if err := Write(&b, "md", rows[:1], 0); err != nil || strings.Contains(b.String(), " [5") {
		t.Errorf("one sample has an interval:\n%s, %v", b.String(), err)
	}
}

// TestUnlike: what makes two runs hard to compare is named.
func TestUnlike(t *testing.T) {
	before, after := example(), example()
	for i := range before {
		before[i].Changed = nil
	}
	after[0].CPU, after[0].Batch = "Another CPU", 64
	want := []string{"the processor differs: A has Some CPU, B has Another CPU",
		"the batch size differs: A has 512, B has 64",
		"the machine changed during B: the clock went from 3.00 to 2.00 GHz"}
	if got := Unlike(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Unlike(before, before); got != nil {
		t.Errorf("the same run: %q", got)
	}
	// Each row counts, and each difference is said once.
	after = example()
	for i := range after {
		after[i].Changed = nil
	}
	for _, i := range []int{1, 3} {
		after[i].GPU, after[i].GPULayers, after[i].FlashAttn, after[i].Machine.Cores = "a GPU", 24, 1, 8
		before[i].Machine.Cores = 2
	}
	want = []string{"the number of logical processors differs: A has 2, B has 8",
		"the GPU differs: A has none, B has a GPU",
		"the setting of flash attention differs: A has off, B has on"}
	if got := Unlike(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTables: the first columns are those of llama-bench, and a name cannot break the table.
func TestTables(t *testing.T) {
	rows := example()
	rows[0].Subject = "a|b\nc"
	var b bytes.Buffer
	if err := Write(&b, "md", rows, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if got := strings.Join(strings.Fields(strings.ReplaceAll(lines[0], "|", " ")), " "); !strings.HasPrefix(got,
		"model size params backend threads test t/s median") {
		t.Errorf("the columns are %q", got)
	}
	if !strings.Contains(lines[2], `a\|b c`) || !strings.HasPrefix(lines[6], "") || !strings.Contains(b.String(),
		"**The machine changed") {
		t.Errorf("the table is\n%s", b.String())
	}
	b.Reset()
	if err := WriteDifferences(&b, Within(example()), 0); err != nil || strings.Count(b.String(), "\n") != 4 ||
		!strings.Contains(b.String(), "| yes") {
		t.Errorf("%v, the table is\n%s", err, b.String())
	}
}

// TestNarrow: on a narrow terminal no line of a table is too long, and each subject has a table.
func TestNarrow(t *testing.T) {
	var b bytes.Buffer
	if err := errors.Join(Write(&b, "md", example(), 80), WriteDifferences(&b, Within(example()), 80)); err != nil {
		t.Fatal(err)
	}
	tables := 0
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
		if strings.HasPrefix(line, "|") && strings.Contains(line, " test ") {
			tables++
		}
	}
	if tables != 2 || !strings.Contains(b.String(), "gpt-oss 20.9B MXFP4, 12.00 GiB, b, 2 threads, loaded in 2.00 s, "+
		"4.00 GiB memory") || strings.Count(b.String(), " significant\n") != 2 {
		t.Errorf("%d tables:\n%s", tables, b.String())
	}
}

// FuzzRead: no text makes Read panic, and what it accepts can be written in all formats and compared.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, "jsonl", example(), 0); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Add(`[{"samples_ts":[1e308,1e-308],"n_gen":1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, format := range []string{"md", "csv"} {
			if err := Write(&bytes.Buffer{}, format, rows, 80); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		Between(rows, rows)
	})
}
