// Package results writes the results of benchmarks as tables, JSON and pictures, and compares them.
//
// The JSON and the CSV have the keys of llama-bench, the benchmark of llama.cpp, and more. Readers of its output can so
// read ours, and [Read] reads both. llama.cpp's scripts/compare-llama-bench.py takes rows with the same settings for
// runs of the same thing, and averages them. So the key backends tells the subjects and workloads of a run apart.
package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runner/backend"
	"runner/bench"
	"runner/bench/machine"
	"runner/models/roofline"
)

// Row is the result of one test of one subject. Times are in nanoseconds where their name ends in ns, sizes in bytes,
// and speeds in tokens a second.
type Row struct {
	// What follows has the names of llama-bench.
	Commit     string `json:"build_commit"`
	CPU        string `json:"cpu_info"`
	GPU        string `json:"gpu_info"`
	Backend    string `json:"backends"` // the subject, and the workload if there is one
	File       string `json:"model_filename"`
	Model      string `json:"model_type"`
	Size       int64  `json:"model_size"`
	Parameters int64  `json:"model_n_params"`
	Batch      int    `json:"n_batch"`
	Threads    int    `json:"n_threads"`
	GPULayers  int    `json:"n_gpu_layers"`
	Upstream
	Prompt      int       `json:"n_prompt"`
	Generate    int       `json:"n_gen"`
	Depth       int       `json:"n_depth"`
	Time        time.Time `json:"test_time"`
	MeanNS      int64     `json:"avg_ns"`
	DeviationNS int64     `json:"stddev_ns"`
	Mean        float64   `json:"avg_ts"`
	Deviation   float64   `json:"stddev_ts"`
	SamplesNS   []int64   `json:"samples_ns"`
	Samples     []float64 `json:"samples_ts"`

	// What follows is ours. Subject tells the subjects of one run apart.
	Subject string `json:"subject"`
	// Workload names a test other than those of tokens; it has no n_prompt and n_gen. Those of a Group took turns.
	Workload string `json:"workload,omitempty"`
	Group    string `json:"group,omitempty"`
	// Timed says that times are compared with the others of the group, and not speeds. See [bench.Workload].
	Timed bool `json:"timed,omitempty"`
	// Tokens is the median number of tokens of an answer, and AnswerNS the median time to its first text.
	Tokens   float64 `json:"tokens,omitempty"`
	AnswerNS int64   `json:"answer_ns,omitempty"`
	MedianNS int64   `json:"median_ns,omitempty"`
	Kernels  string  `json:"kernels,omitempty"`
	Median   float64 `json:"median_ts"`
	Low      float64 `json:"median_low_ts"`
	High     float64 `json:"median_high_ts"`
	// FirstNS is the median time to the first token. The gaps are quantiles of the times between tokens, or between the
	// pieces of an answer's text.
	FirstNS int64 `json:"ttft_ns,omitempty"`
	Gap50NS int64 `json:"itl_p50_ns,omitempty"`
	Gap95NS int64 `json:"itl_p95_ns,omitempty"`
	// LoadNS is how long the model took to load, and Memory the most memory that its process had in use.
	LoadNS int64 `json:"load_ns,omitempty"`
	Memory int64 `json:"peak_memory,omitempty"`
	// PerToken is how many bytes of weights a token reads. Bandwidth is how many bytes a second the processor reads from
	// memory, the median of what was measured beside the samples. Roofline is the median share of the speed that the two
	// allow, for tests that only generate.
	PerToken  int64   `json:"bytes_per_token,omitempty"`
	Bandwidth float64 `json:"bandwidth,omitempty"`
	Roofline  float64 `json:"roofline,omitempty"`
	// Bandwidths has the bandwidth beside each sample.
	Bandwidths []float64 `json:"samples_bandwidth,omitempty"`
	// Runs has the state of the machine for each sample.
	Runs []MachineOfRun `json:"samples_machine,omitempty"`
	// Changed says what changed on the machine while all was measured and makes the row doubtful.
	Changed []string      `json:"machine_changed,omitempty"`
	Machine machine.Facts `json:"machine,omitzero"`
	Before  machine.State `json:"machine_before,omitzero"`
	After   machine.State `json:"machine_after,omitzero"`
}

// MachineOfRun is the state of the machine at the end of a run.
type MachineOfRun struct {
	// Clock is a frequency in hertz, and Temperature is in degrees Celsius.
	Clock       float64 `json:"clock_hz,omitempty"`
	Temperature float64 `json:"temperature_c,omitempty"`
	// Changed says what changed during the run and makes it doubtful.
	Changed []string `json:"changed,omitempty"`
}

// Doubtful returns how many runs the machine makes doubtful.
func (r *Row) Doubtful() int {
	n := 0
	for i := range r.Runs {
		if len(r.Runs[i].Changed) > 0 {
			n++
		}
	}
	return n
}

// Upstream has further keys of llama-bench, without which its tools refuse a file. Those that nothing here sets have
// the value that llama-bench writes when it is not told otherwise.
type Upstream struct {
	BuildNumber   int    `json:"build_number"`
	Microbatch    int    `json:"n_ubatch"`
	CPUMask       string `json:"cpu_mask"`
	CPUStrict     choice `json:"cpu_strict"`
	Poll          int    `json:"poll"`
	CacheKeys     string `json:"type_k"`
	CacheValues   string `json:"type_v"`
	SplitMode     string `json:"split_mode"`
	MainGPU       int    `json:"main_gpu"`
	NoKVOffload   choice `json:"no_kv_offload"`
	FlashAttn     choice `json:"flash_attn"` // -1 is auto
	Devices       string `json:"devices"`
	TensorSplit   string `json:"tensor_split"`
	TensorBuffers string `json:"tensor_buft_overrides"`
	Mapped        choice `json:"use_mmap"`
	Embeddings    choice `json:"embeddings"`
	NoOpOffload   choice `json:"no_op_offload"`
	NoHost        choice `json:"no_host"`
	// Newer versions have these. LoadMode replaces use_mmap.
	LoadMode      string `json:"load_mode"`
	ExpertsOnCPU  int    `json:"n_cpu_moe"`
	FitTarget     int    `json:"fit_target"`
	FitMinContext int    `json:"fit_min_ctx"`
}

// choice is 0 or 1, or -1 for auto. Versions of llama-bench write numbers, or true and false.
type choice int

// UnmarshalJSON implements json.Unmarshaler.
func (c *choice) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		*c = 1
	case "false":
		*c = 0
	default:
		return json.Unmarshal(b, (*int)(c))
	}
	return nil
}

// flash has llama-bench's numbers for the choices of flash attention.
var flash = map[string]choice{"auto": -1, "off": 0, "on": 1}

// loadMode has llama-bench's names for how a model is loaded: mapped or not.
var loadMode = map[bool]string{true: "mmap", false: "none"}

// yes is 1 if something holds.
func yes(holds bool) choice {
	if holds {
		return 1
	}
	return 0
}

// Test returns the name of the row's test.
func (r *Row) Test() string {
	if r.Workload != "" {
		return r.Workload
	}
	t := bench.Test{Prompt: r.Prompt, Generate: r.Generate, Depth: r.Depth}
	return t.Name()
}

// Subject is what is known of a subject that was measured.
type Subject struct {
	Name string
	Info backend.Info
	// Load is how long it took to load.
	Load time.Duration
	// Memory and PerToken are as in Row. Memory is 0 where several subjects share a process.
	Memory, PerToken int64
	// Made says how the weights were made, as in "random, 4 layers"; it is empty for a model that someone has trained.
	Made string
	// Remote says that it computes in a process that another program started, maybe on another machine.
	Remote bool
	// CacheType is the element type of the cache, and FlashAttention is auto, on or off.
	CacheType, FlashAttention string
}

// model describes the subject's model. It names the file if another subject's looks the same.
func (s *Subject) model(all []Subject) string {
	name := ModelName(s.Info)
	if s.Made != "" {
		name += ", " + s.Made
	}
	for i := range all {
		if other := &all[i]; other.Info.Path != s.Info.Path && other.Made == s.Made &&
			ModelName(other.Info) == ModelName(s.Info) {
			return name + ", " + filepath.Base(s.Info.Path)
		}
	}
	return name
}

// Run is what is known of a run.
type Run struct {
	Commit        string
	Machine       machine.Facts
	Before, After machine.State
	Took          time.Duration
}

// waited returns the state before something. If the benchmark itself had more threads to run than there are processors,
// it is without what threads waited since then, because that says nothing about other work.
func waited(before, after machine.State, crowded bool) machine.State {
	if crowded {
		before.Waiting = after.Waiting
	}
	return before
}

// crowded reports whether a result is from runs with more threads than there are processors.
func (r *Run) crowded(s *Subject, result *bench.Result) bool {
	return result.Crowded || r.Machine.Cores > 0 && s.Info.Threads > r.Machine.Cores
}

// machines describes the machine for each sample. It is nil for an engine on another machine.
func machines(s *Subject, samples []bench.Sample, crowded bool) []MachineOfRun {
	if s.Remote {
		return nil
	}
	var list []MachineOfRun
	var highest float64
	for i := range samples {
		highest = max(highest, samples[i].After.Clock)
	}
	if s.Info.GPULayers > 0 {
		highest = 0 // the processors wait for the GPU
	}
	for i := range samples {
		s := &samples[i]
		list = append(list, MachineOfRun{Clock: s.After.Clock, Temperature: s.After.Temperature,
			Changed: machine.ChangesOfRun(waited(s.Before, s.After, crowded), s.After, s.Took.Seconds(), highest)})
	}
	if !slices.ContainsFunc(list, func(m MachineOfRun) bool { return m.Clock > 0 || len(m.Changed) > 0 }) {
		return nil
	}
	return list
}

// Rows makes the rows of results, without those that have no samples.
func Rows(run Run, subjects []Subject, results []bench.Result) []Row {
	crowded := false
	for i := range results {
		crowded = crowded || run.crowded(&subjects[results[i].Subject], &results[i])
	}
	changed := machine.Changes(waited(run.Before, run.After, crowded), run.After, run.Took.Seconds())
	rows := make([]Row, 0, len(results))
	for i := range results {
		if s := &subjects[results[i].Subject]; len(results[i].Samples) > 0 {
			rows = append(rows, row(&run, s, &results[i], s.model(subjects), changed))
		}
	}
	return rows
}

func row(run *Run, s *Subject, r *bench.Result, model string, changed []string) Row {
	speeds := r.Speeds()
	speed := bench.Summarize(speeds)
	var times []float64
	row := Row{
		Commit: run.Commit, CPU: run.Machine.Processor, Backend: s.Name, File: s.Info.Path,
		Model: model, Size: s.Info.Bytes, Parameters: s.Info.Parameters, Batch: s.Info.BatchSize,
		Threads: s.Info.Threads, GPULayers: s.Info.GPULayers,
		Upstream: Upstream{Microbatch: s.Info.BatchSize, CPUMask: "0x0", CacheKeys: s.CacheType, CacheValues: s.CacheType,
			SplitMode: "layer", FlashAttn: flash[s.FlashAttention], Devices: "auto", TensorSplit: "0.00", TensorBuffers: "none",
			Mapped: yes(s.Info.Memory.Mapped > 0), LoadMode: loadMode[s.Info.Memory.Mapped > 0]},
		Prompt: r.Test.Prompt, Generate: r.Test.Generate, Depth: r.Test.Depth,
		Mean: speed.Mean, Deviation: speed.Deviation, Samples: speeds,
		Subject: s.Name, Workload: r.Workload, Group: r.Group, Timed: r.Timed, AnswerNS: nanoseconds(r.Answer()),
		Kernels: s.Info.Kernels, Median: speed.Median, Low: speed.Low, High: speed.High,
		FirstNS: nanoseconds(r.First()), Gap50NS: nanoseconds(r.Gap(0.5)), Gap95NS: nanoseconds(r.Gap(0.95)),
		LoadNS: int64(s.Load), Memory: cmp.Or(r.Memory, s.Memory), PerToken: s.PerToken,
		Runs: machines(s, r.Samples, run.crowded(s, r)), Changed: changed, Machine: run.Machine,
		Before: run.Before, After: run.After,
	}
	for i, x := range r.Samples {
		if i == 0 {
			row.Time = x.Start.UTC()
		}
		times = append(times, float64(x.Took))
		row.SamplesNS = append(row.SamplesNS, int64(x.Took))
	}
	if r.Workload != "" {
		row.Tokens = r.Tokens()
		row.Backend += ": " + r.Workload
	}
	took := bench.Summarize(times)
	row.MeanNS, row.DeviationNS, row.MedianNS = int64(took.Mean), int64(took.Deviation), int64(took.Median)
	if s.Info.GPULayers > 0 {
		row.GPU = s.Info.Device
	}
	var shares []float64
	for i, x := range r.Samples {
		if x.Bandwidth > 0 {
			row.Bandwidths = append(row.Bandwidths, x.Bandwidth)
			shares = append(shares, speeds[i]*float64(s.PerToken)/x.Bandwidth)
		}
	}
	if len(shares) > 0 {
		row.Bandwidth = bench.Median(row.Bandwidths)
		// A GPU has memory of its own, whose bandwidth is not measured.
		if row.GPU == "" && s.PerToken >= roofline.LeastPerToken {
			row.Roofline = bench.Median(shares)
		}
	}
	return row
}

func nanoseconds(seconds float64) int64 { return int64(1e9 * seconds) }

// ModelName describes a model as llama-bench does, as in "gpt-oss 20.9B MXFP4".
func ModelName(i backend.Info) string {
	parts := []string{i.Architecture}
	if i.Parameters > 0 {
		parts = append(parts, billions(i.Parameters))
	}
	if i.Quantization != "" {
		parts = append(parts, i.Quantization)
	}
	return strings.Join(parts, " ")
}

// billions formats a number of parameters.
func billions(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// maxInput limits what Read reads, in bytes.
const maxInput = 64 << 20

// Read reads rows from JSON: an array, as -o json writes it, or one object after another, as -o jsonl does.
func Read(r io.Reader) ([]Row, error) {
	limited := &io.LimitedReader{R: r, N: maxInput}
	d := json.NewDecoder(limited)
	var rows []Row
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
		var more []Row
		if len(raw) > 0 && raw[0] == '[' {
			err = json.Unmarshal(raw, &more)
		} else {
			more = make([]Row, 1)
			err = json.Unmarshal(raw, &more[0])
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for i := range rows {
		if err := rows[i].check(); err != nil {
			return nil, fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return rows, nil
}

// check checks a row that was read and adds what llama-bench does not write.
func (r *Row) check() error {
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
