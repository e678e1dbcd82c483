package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runner/backend"
	"runner/bench/machine"
	"runner/models/roofline"
)

// Row is the result of one test of one subject: the subject, the settings and the machine. Times are in nanoseconds
// where their name ends in ns, sizes in bytes, and speeds in tokens a second.
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

	// The fields below are not llama-bench's. Subject distinguishes the subjects of a run.
	Subject string `json:"subject"`
	// Workload names a test other than those of tokens; it has no n_prompt and n_gen. Those of a Group took turns.
	Workload string `json:"workload,omitempty"`
	Group    string `json:"group,omitempty"`
	// Timed says that times are compared with the others of the group, and not speeds. See [Workload].
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
	// Runs has the state of the machine at the end of each sample.
	Runs []machine.State `json:"samples_machine,omitempty"`
	// Changed says what changed on the machine while all was measured and makes the row doubtful.
	Changed []string      `json:"machine_changed,omitempty"`
	Machine machine.Facts `json:"machine,omitzero"`
	Before  machine.State `json:"machine_before,omitzero"`
	After   machine.State `json:"machine_after,omitzero"`

	// subject is the index of the subject, and samples are what the figures are made of.
	subject int
	samples []Sample
	// elsewhere says that nothing is known of the machine, and crowded that the benchmark itself had more threads than
	// there are processors.
	elsewhere, crowded bool
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
	CPUStrict     Choice `json:"cpu_strict"`
	Poll          int    `json:"poll"`
	CacheKeys     string `json:"type_k"`
	CacheValues   string `json:"type_v"`
	SplitMode     string `json:"split_mode"`
	MainGPU       int    `json:"main_gpu"`
	NoKVOffload   Choice `json:"no_kv_offload"`
	FlashAttn     Choice `json:"flash_attn"` // -1 is auto
	Devices       string `json:"devices"`
	TensorSplit   string `json:"tensor_split"`
	TensorBuffers string `json:"tensor_buft_overrides"`
	Mapped        Choice `json:"use_mmap"`
	Embeddings    Choice `json:"embeddings"`
	NoOpOffload   Choice `json:"no_op_offload"`
	NoHost        Choice `json:"no_host"`
	// Newer versions have these. LoadMode replaces use_mmap.
	LoadMode      string `json:"load_mode"`
	ExpertsOnCPU  int    `json:"n_cpu_moe"`
	FitTarget     int    `json:"fit_target"`
	FitMinContext int    `json:"fit_min_ctx"`
}

// Choice is 0 or 1, or -1 for auto. Versions of llama-bench write numbers, or true and false.
type Choice int

// UnmarshalJSON implements json.Unmarshaler.
func (c *Choice) UnmarshalJSON(b []byte) error {
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

// flashAttention has llama-bench's numbers for the choices of flash attention.
var flashAttention = map[string]Choice{"auto": -1, "off": 0, "on": 1}

// loadMode has llama-bench's names for how a model is loaded: mapped or not.
var loadMode = map[bool]string{true: "mmap", false: "none"}

// yes converts true to 1.
func yes(holds bool) Choice {
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
	t := Test{Prompt: r.Prompt, Generate: r.Generate, Depth: r.Depth}
	return t.Name()
}

// Label names the subject of a row and its threads.
func (r *Row) Label() string {
	if r.Threads == 1 {
		return r.Subject + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", r.Subject, r.Threads)
}

// Subject is a loaded model that is measured.
type Subject struct {
	Model backend.Model
	// Row has what all rows of the subject have in common.
	Row Row
}

// NewSubject returns a subject with what is known of its model. cache is the element type of the cache and flash the
// setting of flash attention: auto, on or off.
func NewSubject(name string, m backend.Model, i backend.Info, cache, flash string) Subject {
	mapped := i.Memory.Mapped > 0
	s := Subject{m, Row{Subject: name, Backend: name, File: i.Path, Model: modelName(i), Size: i.Bytes,
		Parameters: i.Parameters, Batch: i.BatchSize, Threads: i.Threads, GPULayers: i.GPULayers, Kernels: i.Kernels,
		Upstream: Upstream{Microbatch: i.BatchSize, CPUMask: "0x0", CacheKeys: cache, CacheValues: cache, SplitMode: "layer",
			FlashAttn: flashAttention[flash], Devices: "auto", TensorSplit: "0.00", TensorBuffers: "none", Mapped: yes(mapped),
			LoadMode: loadMode[mapped]}}}
	if i.GPULayers > 0 {
		s.Row.GPU = i.Device
	}
	return s
}

// Elsewhere says that a subject computes in a process that another program started, maybe on another machine. What is
// known of this machine says nothing about it.
func (s *Subject) Elsewhere() { s.Row.elsewhere = true }

// NameFiles adds the name of the file to models that are called the same.
func NameFiles(subjects []Subject) {
	names := make([]string, len(subjects))
	for i, s := range subjects {
		names[i] = s.Row.Model
		if slices.ContainsFunc(subjects, func(other Subject) bool {
			return other.Row.Model == s.Row.Model && other.Row.File != s.Row.File
		}) {
			names[i] += ", " + filepath.Base(s.Row.File)
		}
	}
	for i := range subjects {
		subjects[i].Row.Model = names[i]
	}
}

// NewRow returns the row of a workload with the figures of its samples.
func NewRow(subjects []Subject, w Workload, samples []Sample) Row {
	r := subjects[w.Subject].Row
	r.subject, r.samples = w.Subject, samples
	r.Prompt, r.Generate, r.Depth = w.Test.Prompt, w.Test.Generate, w.Test.Depth
	if w.Test.Tokens() == 0 {
		r.Workload, r.Group, r.Timed, r.crowded = w.Name, w.Group, w.Timed, w.Crowded
		r.Backend += ": " + r.Workload
	}
	if len(samples) > 0 {
		r.summarize()
	}
	return r
}

// summarize makes the figures of the samples.
func (r *Row) summarize() {
	var times, shares, tokens, first, answer, gaps []float64
	add := func(list *[]float64, d time.Duration) {
		if d > 0 {
			*list = append(*list, float64(d))
		}
	}
	for _, s := range r.samples {
		speed := float64(s.Tokens) / s.Took.Seconds()
		r.Samples, r.SamplesNS = append(r.Samples, speed), append(r.SamplesNS, int64(s.Took))
		times, tokens = append(times, float64(s.Took)), append(tokens, float64(s.Tokens))
		add(&first, s.First)
		add(&answer, s.Answer)
		for _, g := range s.Gaps {
			gaps = append(gaps, float64(g))
		}
		if s.Bandwidth > 0 {
			r.Bandwidths = append(r.Bandwidths, s.Bandwidth)
			shares = append(shares, speed*float64(r.PerToken)/s.Bandwidth)
		}
	}
	speed, took := Summarize(r.Samples), Summarize(times)
	r.Time = r.samples[0].Start.UTC()
	r.Mean, r.Deviation, r.Median, r.Low, r.High = speed.Mean, speed.Deviation, speed.Median, speed.Low, speed.High
	r.MeanNS, r.DeviationNS, r.MedianNS = int64(took.Mean), int64(took.Deviation), int64(took.Median)
	r.FirstNS, r.AnswerNS = nanoseconds(first, 0.5), nanoseconds(answer, 0.5)
	r.Gap50NS, r.Gap95NS = nanoseconds(gaps, 0.5), nanoseconds(gaps, 0.95)
	if r.Workload != "" {
		r.Tokens = Median(tokens)
	}
	if len(shares) > 0 {
		r.Bandwidth = Median(r.Bandwidths)
		// A GPU has memory of its own, whose bandwidth is not measured.
		if r.GPU == "" && r.PerToken >= roofline.LeastPerToken {
			r.Roofline = Median(shares)
		}
	}
}

// nanoseconds returns a quantile of times, or 0 if there are none.
func nanoseconds(times []float64, q float64) int64 {
	if len(times) == 0 {
		return 0
	}
	return int64(Quantile(times, q))
}

// Finish leaves out rows without samples. The others get the memory that their subjects took, the state of the machine
// after all of them, which took a time, and what changed meanwhile.
func Finish(rows []Row, subjects []Subject, after machine.State, took time.Duration) []Row {
	rows = slices.DeleteFunc(rows, func(r Row) bool { return len(r.samples) == 0 })
	crowded := false
	for i := range rows {
		r := &rows[i]
		r.After, r.Memory = after, cmp.Or(r.Memory, subjects[r.subject].Row.Memory)
		r.crowded = r.crowded || r.Machine.Cores > 0 && r.Threads > r.Machine.Cores
		r.Runs = r.states()
		crowded = crowded || r.crowded
	}
	for i := range rows {
		r := &rows[i]
		r.Changed = machine.Changes(waited(r.Before, after, crowded), after, took.Seconds())
	}
	return rows
}

// waited returns the state before something. If the benchmark itself had more threads to run than there are processors,
// it is without what threads waited since then, because that says nothing about other work.
func waited(before, after machine.State, crowded bool) machine.State {
	if crowded {
		before.Waiting = after.Waiting
	}
	return before
}

// states describes the machine at the end of each sample. It is nil where nothing is known of it.
func (r *Row) states() (list []machine.State) {
	highest := 0.0
	for _, s := range r.samples {
		highest = max(highest, s.After.Clock)
	}
	if r.GPULayers > 0 {
		highest = 0 // the processors wait for the GPU
	}
	for _, s := range r.samples {
		list = append(list, machine.State{Clock: s.After.Clock, Temperature: s.After.Temperature,
			Changed: machine.ChangesOfRun(waited(s.Before, s.After, r.crowded), s.After, s.Took.Seconds(), highest)})
	}
	known := func(m machine.State) bool { return m.Clock > 0 || len(m.Changed) > 0 }
	if r.elsewhere || !slices.ContainsFunc(list, known) {
		return nil
	}
	return list
}

// modelName describes a model as llama-bench does, as in "gpt-oss 20.9B MXFP4".
func modelName(i backend.Info) string {
	parts := []string{i.Architecture}
	if i.Parameters > 0 {
		parts = append(parts, Billions(i.Parameters))
	}
	if i.Quantization != "" {
		parts = append(parts, i.Quantization)
	}
	return strings.Join(parts, " ")
}

// Billions formats a number of parameters.
func Billions(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}
