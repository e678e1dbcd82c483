// Package results writes the results of benchmarks as tables and JSON, reads them, and compares them.
//
// The JSON and the CSV have the keys of llama-bench, the benchmark of llama.cpp, and more. Readers of its output can so
// read ours, and [Read] reads both. llama.cpp's scripts/compare-llama-bench.py takes rows with the same settings for
// runs of the same thing, and averages them. So the key backends tells the subjects and workloads of a run apart.
package results

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"runner/bench"
)

// maxInput limits what Read reads, in bytes.
const maxInput = 64 << 20

// Read reads rows from JSON: an array, as -o json writes it, or one object after another, as -o jsonl does.
func Read(r io.Reader) ([]bench.Row, error) {
	limited := &io.LimitedReader{R: r, N: maxInput}
	d := json.NewDecoder(limited)
	var rows []bench.Row
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err == io.EOF && limited.N > 0 {
			break
		}
		if limited.N <= 0 {
			return nil, fmt.Errorf("the results are longer than %d MB", maxInput>>20)
		}
		if err != nil {
			return nil, err
		}
		var more []bench.Row
		if len(raw) > 0 && raw[0] == '[' {
			err = json.Unmarshal(raw, &more)
		} else {
			more = make([]bench.Row, 1)
			err = json.Unmarshal(raw, &more[0])
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for i := range rows {
		if err := check(&rows[i]); err != nil {
			return nil, fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return rows, nil
}

// check checks a row that was read and adds what llama-bench does not write.
func check(r *bench.Row) error {
	if len(r.Samples) == 0 {
		return fmt.Errorf("it has no samples_ts")
	}
	for _, x := range r.Samples {
		if !(x > 0) {
			return fmt.Errorf("a speed of %v tokens a second", x)
		}
	}
	if r.Timed && (len(r.SamplesNS) != len(r.Samples) || slices.Min(r.SamplesNS) <= 0) {
		return fmt.Errorf("samples_ns must have as many times as samples_ts has speeds, all above 0")
	}
	if r.Prompt < 0 || r.Generate < 0 || r.Depth < 0 || r.Prompt+r.Generate == 0 && r.Workload == "" {
		return fmt.Errorf("it is no test: n_prompt %d, n_gen %d, n_depth %d", r.Prompt, r.Generate, r.Depth)
	}
	if r.Subject == "" {
		r.Subject = strings.TrimSpace(filepath.Base(r.File) + " " + r.Backend)
	}
	s := bench.Summarize(r.Samples)
	r.Median, r.Low, r.High = s.Median, s.Low, s.High
	return nil
}
