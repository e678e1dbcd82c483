package plan

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/llamacpp/machine"
)

// Limits on a Config in addition to the contract's.
const (
	maxSequences = 128 // half of LLAMA_MAX_SEQ: a sequence may have a second id, see Plan.Guarded
	maxBatch     = 1 << 14
)

// Plan is a Config in which every default is decided.
type Plan struct {
	// Context is the longest sequence in tokens, and Cells are the tokens that the shared cache holds.
	Context, Sequences, Cells, Batch, Threads, GPULayers int
	// Helped reports that the engine computes with one thread, and that the other threads help the runner's own
	// kernels. A plan with one thread does not change the number of helpers of other models.
	Helped bool

	FullWindow bool
	// Guarded reports that every sequence has a second id.
	Guarded bool
	// sized reports that the sizes, and FullWindow with them, were chosen by the available memory.
	sized bool
	// why explains the context to people.
	why   string
	Flash Flash
	// CacheType is the format of the cache's numbers.
	CacheType string
	device    string
	// Own reports that the runner's own kernels read all weights. Exact reports that a token's logits depend on its
	// sequence alone, see package kernels.
	Own, Exact bool
	// Takes is the memory that the model needs.
	Takes backend.Memory
}

// Flash says whether attention is computed without a matrix of scores.
type Flash int

// The settings of flash attention. The engine decides with FlashAuto.
const (
	FlashAuto Flash = iota
	FlashOn
	FlashOff
)

// Device is a device other than the CPU on which the engine can compute.
type Device struct {
	// Name is the engine's name, for instance "CUDA0". Description is for people to read.
	Name, Description string
	// MemoryFree and MemoryTotal are in bytes.
	MemoryFree, MemoryTotal int64
}

// Helpers are faster than threads of the engine for weights of up to mostHelped bytes, and for up to fewThreads
// threads. The work that the kernels leave to one thread matters more with more threads. Waiting for a thread that
// lost its processor always costs, but less in longer steps.
const (
	mostHelped = 256 << 20
	fewThreads = 4

	// tiny models have weights of up to this many bytes, about twice the bundled model's. They finish an operation
	// faster than the engine's threads can meet after it. They have work for one helper when several sequences take
	// a step together or a prompt is read.
	tiny = 8 << 20
)

// The tokens of a step, unless the Config sets them. The masks of attention grow with them, and are the most that a
// tiny model needs beside its cache. It reads prompts as fast in steps of half as many.
const (
	usualBatch = 512
	tinyBatch  = 256
)

// cacheTypes are the cache's element types with their bytes per 32 values.
var cacheTypes = map[string]int64{"f16": 64, "f32": 128, "bf16": 64, "q8_0": 34, "q4_0": 18}

// New decides the sizes and refuses what does not fit into memory. promised is the memory that loaded models
// will still take.
func New(path string, files []*gguf.File, cfg backend.Config, here machine.Resources, promised int64,
	e *Engine, gpus []Device) (*Plan, error) {
	fail := func(detail, advice string) error {
		return &backend.LoadError{Path: path, Reason: backend.LoadFailed, Detail: detail, Advice: advice}
	}
	shape := newShape(files, e.Formats)
	if e.Folder != "" {
		shape.repacked = shape.repackedNew
	}
	p := &Plan{Context: cfg.ContextSize, Sequences: cfg.Sequences, Cells: cfg.CacheTokens, Batch: cfg.BatchSize,
		Threads: cfg.Threads}
	if p.Sequences == 0 {
		p.Sequences = 4
	}
	if p.Batch == 0 {
		p.Batch = usualBatch
		if onGPU := len(gpus) > 0 && cfg.GPULayers != 0; shape.weights <= tiny && !onGPU {
			p.Batch = tinyBatch
		}
	}
	if p.Threads == 0 {
		p.Threads = min(here.Cores, backend.MaxThreads)
	}
	for _, c := range []struct {
		name           string
		v, least, most int
	}{
		{"context size", p.Context, 0, backend.MaxContextSize}, {"number of sequences", p.Sequences, 1, maxSequences},
		{"cache size", p.Cells, 0, backend.MaxContextSize * maxSequences}, {"batch size", p.Batch, 1, maxBatch},
		{"number of threads", p.Threads, 1, backend.MaxThreads},
	} {
		if c.v < c.least || c.v > c.most {
			detail := fmt.Sprintf("the %s %d is not between %d and %d", c.name, c.v, c.least, c.most)
			return nil, fail(detail, "choose another "+c.name)
		}
	}
	name := cfg.CacheType
	if name == "" {
		name = "f16"
	}
	bytes32, ok := cacheTypes[name]
	if !ok {
		return nil, fail(fmt.Sprintf("unknown cache type %q", cfg.CacheType), "use f16, f32, bf16, q8_0 or q4_0")
	}
	p.CacheType = name
	switch cfg.FlashAttention {
	case "", "auto":
		p.Flash = FlashAuto
	case "on":
		p.Flash = FlashOn
	case "off":
		p.Flash = FlashOff
	default:
		return nil, fail(fmt.Sprintf("unknown flash attention setting %q", cfg.FlashAttention), "use auto, on or off")
	}
	if p.Flash == FlashOff && (name == "q8_0" || name == "q4_0") {
		return nil, fail("a quantized cache requires flash attention", "turn flash attention on or use the cache type f16")
	}
	p.choose(cfg, shape, bytes32, here, promised, gpus)
	p.Cells = (p.Cells + 255) / 256 * 256 // as the engine rounds it
	p.Batch = min(p.Batch, p.Cells)
	p.offload(cfg, shape, bytes32, gpus)
	p.Own = shape.own
	p.Exact = e.Kernels != "" && p.GPULayers == 0 && name == "f16" && cfg.FlashAttention != "off"
	if cfg.Threads == 0 && shape.weights <= tiny {
		most := 1
		if p.Exact {
			most = 2
		}
		p.Threads = min(p.Threads, most)
	}
	p.Helped = p.Exact && p.Threads > 1 && (shape.weights <= mostHelped || p.Threads <= fewThreads)
	if err := p.fit(path, cfg, shape, bytes32, here, fail); err != nil {
		return nil, err
	}
	p.Guarded = p.FullWindow && !(shape.state > 0 && shape.window == 0) // a second recurrent state is of no use
	onCPU := p.onCPU(shape)
	p.Takes.Private = p.private(cfg, shape, bytes32, onCPU, p.FullWindow)
	if !cfg.NoMemoryMap {
		p.Takes.Mapped = clamp(float64(shape.weights) * onCPU)
	}
	return p, nil
}

// onCPU returns the part of the layers that no GPU holds.
func (p *Plan) onCPU(s *shape) float64 {
	return 1 - float64(min(p.GPULayers, s.layers))/float64(max(s.layers, 1))
}

// choose decides the context and the cache. The cache goes where the layers are: to GPUs if all of it may go there.
func (p *Plan) choose(cfg backend.Config, s *shape, bytes32 int64, here machine.Resources, promised int64,
	gpus []Device) {
	r := room{
		available: here.MemoryAvailable, weights: clamp(float64(s.weights) + float64(s.repacked)),
		promised: promised, others: cfg.Others,
	}
	if len(gpus) > 0 && cfg.GPULayers < 0 {
		r = room{weights: s.weights, others: cfg.Others}
		for _, d := range gpus {
			r.available += d.MemoryFree
		}
	}
	w := wish{context: cfg.ContextSize, cells: cfg.CacheTokens, sequences: p.Sequences, window: cfg.FullWindow}
	z := s.size(w, r, func(cells int, full bool) int64 {
		q := *p
		q.Cells = cells
		return clamp(float64(s.cacheBytes(cells, q.windowCells(s), full, bytes32)) + float64(q.computeBytes(s)))
	})
	p.Context, p.Cells, p.FullWindow, p.sized, p.why = z.context, z.cells, z.full, z.decided, z.why
}

// fit decides FullWindow and checks memory. It leaves out the share of layers on GPUs.
func (p *Plan) fit(path string, cfg backend.Config, s *shape, bytes32 int64, here machine.Resources,
	fail func(string, string) error) error {
	onCPU := p.onCPU(s)
	mapped := int64(0) // what counts of it
	if here.Whole && !cfg.NoMemoryMap {
		mapped = s.weights
	}
	need := func(full bool) int64 { return p.private(cfg, s, bytes32, onCPU, full) }
	fits := func(full bool) bool { return here.MemoryAvailable == 0 || need(full) <= here.MemoryAvailable-mapped }
	switch cfg.FullWindow {
	case "on":
		p.FullWindow = true
	case "off":
		p.FullWindow = s.window == 0
	case "", "auto":
		if !p.sized {
			p.FullWindow = s.window == 0 || fits(true)
		}
	default:
		return fail(fmt.Sprintf("unknown full window setting %q", cfg.FullWindow), "use auto, on or off")
	}
	smaller := "use a smaller --ctx-size, a smaller --parallel of runner serve, a smaller model or a stronger quantization"
	// Mapped weights need not be free memory. But a model larger than all memory would be read from disk for every
	// token.
	if all := float64(s.weights)*onCPU + float64(need(p.FullWindow)); !cfg.NoMemoryMap && here.MemoryTotal > 0 &&
		all > float64(here.MemoryTotal) {
		return &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Advice: smaller,
			Detail: fmt.Sprintf("weights and cache take about %s and this machine has %s of memory",
				mebibytes(clamp(all)), mebibytes(here.MemoryTotal))}
	}
	if fits(p.FullWindow) {
		return nil
	}
	is, advice := "is available", smaller
	if cfg.NoMemoryMap {
		advice = "leave out --no-mmap, or " + smaller
	}
	if here.Addresses > 0 && here.MemoryAvailable == here.Addresses {
		limit := "--engine-memory"
		if here.Whole {
			limit = "ulimit -v"
		}
		is, advice = "is left within the limit of its process", "raise the limit ("+limit+"), or "+advice
	}
	return &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Advice: advice,
		Detail: fmt.Sprintf("needs about %s of memory for %d cached tokens and %s %s",
			mebibytes(clamp(float64(need(p.FullWindow))+float64(mapped))), p.Cells, mebibytes(here.MemoryAvailable), is)}
}

// private returns the memory that the model needs outside mapped files. onCPU is the part of its layers that no GPU
// holds.
func (p *Plan) private(cfg backend.Config, s *shape, bytes32 int64, onCPU float64, full bool) int64 {
	n := float64(s.cacheBytes(p.Cells, p.windowCells(s), full, bytes32)) * onCPU
	n += float64(s.state) * float64(p.Sequences) * onCPU
	n += float64(p.computeBytes(s))
	if cfg.NoMemoryMap {
		n += float64(s.weights) * onCPU
	} else {
		n += float64(s.repacked) * onCPU
	}
	return clamp(n)
}

// offload decides how many layers go to GPUs.
func (p *Plan) offload(cfg backend.Config, s *shape, bytes32 int64, gpus []Device) {
	p.device = "CPU"
	if len(gpus) == 0 || cfg.GPULayers == 0 {
		return
	}
	var names []string
	memory := int64(0)
	for _, d := range gpus {
		names = append(names, d.Description)
		memory += d.MemoryFree
	}
	p.device = strings.Join(names, ", ")
	if p.GPULayers = cfg.GPULayers; p.GPULayers > 0 {
		return
	}
	// A negative value means all that fit. A tenth of the memory, the buffers and the output layer stay free.
	room := memory - memory/10 - p.computeBytes(s) - s.output
	perLayer := (s.weights-s.output+s.cacheBytes(p.Cells, p.windowCells(s), true, bytes32))/int64(max(s.layers, 1)) + 1
	p.GPULayers = int(max(room, 0) / perLayer)
	if p.GPULayers >= s.layers {
		p.GPULayers = s.layers + 1 // the engine counts the output as a layer
	}
}

// windowCells returns the size of the small cache for sliding-window layers, as the engine computes it.
func (p *Plan) windowCells(s *shape) int {
	n := min(int64(p.Cells), s.window*int64(p.Sequences)+int64(p.Batch))
	return int((n + 255) / 256 * 256)
}

// EngineThreads is how many threads the engine computes with.
func (p *Plan) EngineThreads() int {
	if p.Helped {
		return 1
	}
	return p.Threads
}

// shape is the part of a model that determines its memory.
type shape struct {
	layers                    int
	trained, window, vocab    int64
	embedding, heads          int64
	weights, output, repacked int64 // in bytes; output is what is outside the layers
	repackedNew               int64 // repacked by llama.cpp 0.5 and later
	perToken                  []int64
	sliding                   []bool // which layers slide
	state                     int64  // bytes of the recurrent layers of one sequence
	ahead                     int64  // largest product of feed-forward width and experts used
	own                       bool   // the runner's own kernels read every tensor's format
}

// slidingPeriod is, for each architecture, the number of layers after which one has full attention; the others
// slide. From llama.cpp's set_swa_pattern calls.
var slidingPeriod = map[string]int{"gpt-oss": 2, "gemma2": 2, "gemma3": 6, "gemma3n": 5, "cohere2": 4, "exaone4": 4,
	"llama4": 4,
	"olmo2":  4, "afmoe": 4, "smallthinker": 4}

func newShape(files []*gguf.File, formats []string) *shape {
	f := files[0]
	arch := f.Architecture()
	key := func(name string, def int64) int64 {
		if n, ok := f.Int(arch + "." + name); ok {
			return n
		}
		return def
	}
	s := &shape{
		layers: int(key("block_count", 0)), trained: key("context_length", 0), window: key("attention.sliding_window", 0),
		embedding: key("embedding_length", 0),
	}
	if a, ok := f.Array("tokenizer.ggml.tokens"); ok {
		s.vocab = int64(a.Len())
	}
	s.ahead = max(key("feed_forward_length", 0), key("expert_feed_forward_length", 0)*max(key("expert_used_count", 1), 1))
	s.own = true
	for _, part := range files {
		for i := range part.Tensors {
			t := &part.Tensors[i]
			s.weights += t.Size
			if !strings.HasPrefix(t.Name, "blk.") {
				s.output += t.Size
			}
			switch t.Type.String() { // formats that an engine may rearrange in memory of its own
			case "Q4_0", "Q4_K", "IQ4_NL", "Q2_K":
				s.repacked += t.Size
				s.repackedNew += t.Size
			case "MXFP4":
				s.repackedNew += t.Size
			case "Q5_K", "Q6_K", "Q8_0", "Q1_0":
				if runtime.GOARCH != "amd64" {
					s.repackedNew += t.Size
				}
			}
			s.own = s.own && slices.Contains(formats, t.Type.String())
		}
	}
	heads := key("attention.head_count", 1)
	s.heads = heads
	keyLength := key("attention.key_length", s.embedding/max(heads, 1))
	valueLength := key("attention.value_length", keyLength)
	kv, isArray := f.Array(arch + ".attention.head_count_kv")
	period := slidingPeriod[arch]
	pattern, patterned := f.Array(arch + ".attention.sliding_window_pattern")
	cached := int64(s.layers) - key("attention.shared_kv_layers", 0)
	interval := key("full_attention_interval", 0)
	for i := range s.layers {
		n := key("attention.head_count_kv", heads)
		if isArray && i < kv.Len() {
			n, _ = kv.Int(i)
		}
		slides := period > 0 && i%period < period-1
		if patterned && i < pattern.Len() {
			slides, _ = pattern.Bool(i)
		}
		values := valuesPerToken(n, keyLength, valueLength)
		if recurrent := interval > 0 && int64(i+1)%interval != 0; recurrent || int64(i) >= cached {
			values = 0
			if recurrent {
				s.state = clamp(float64(s.state) + 4*stateValues(key))
			}
		}
		s.perToken = append(s.perToken, values)
		s.sliding = append(s.sliding, s.window > 0 && slides)
	}
	if s.window < 0 || s.window > backend.MaxContextSize {
		s.window = 0
	}
	return s
}

// stateValues returns how many values a recurrent layer keeps for a sequence: its convolution's last inputs and its
// state.
func stateValues(key func(string, int64) int64) float64 {
	inner, size := float64(key("ssm.inner_size", 0)), float64(key("ssm.state_size", 0))
	inputs := inner + 2*float64(key("ssm.group_count", 0))*size
	return max(float64(key("ssm.conv_kernel", 1))-1, 0)*inputs + inner*size
}

// valuesPerToken returns how many values a layer caches per token. A header may contain any numbers.
func valuesPerToken(heads, keyLength, valueLength int64) int64 {
	return clamp(float64(heads) * (float64(keyLength) + float64(valueLength)))
}

// cacheBytes returns the size of the cache. Unless full, sliding-window layers have window cells.
func (s *shape) cacheBytes(cells, window int, full bool, bytes32 int64) int64 {
	sum := 0.0
	for i, values := range s.perToken {
		n := cells
		if s.sliding[i] && !full {
			n = window
		}
		sum += float64(values) * float64(bytes32) / 32 * float64(n)
	}
	return clamp(sum)
}

// computeBytes estimates the size of the engine's buffers: logits, a few activations for every token of a batch,
// the attention mask in two precisions and, without flash attention, the scores of every head.
func (p *Plan) computeBytes(s *shape) int64 {
	batch, pairs := float64(p.Batch), float64(p.Batch)*float64(p.Cells)
	n := float64(s.vocab)*4*float64(p.Sequences) + batch*4*(8*float64(s.embedding)+3*float64(s.ahead)) + pairs*6 + 64<<20
	if p.Flash == FlashOff {
		n += pairs * 4 * float64(s.heads)
	}
	return clamp(n)
}

func clamp(x float64) int64 {
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x)
}

func mebibytes(n int64) string { return strconv.FormatInt((n+1<<20-1)>>20, 10) + " MiB" }

// Info describes the model from its header and plan.
func (p *Plan) Info(f *gguf.File, path string) backend.Info {
	info := backend.Info{
		Architecture: f.Architecture(), Path: path, Device: p.device,
		ContextSize: p.Context, CacheTokens: p.Cells, ContextReason: p.why, Sequences: p.Sequences,
		BatchSize: p.Batch, Threads: p.Threads, GPULayers: p.GPULayers, Memory: p.Takes,
		Quantization: f.FileType(), Header: f.Digest,
	}
	if info.Name, _ = f.String("general.name"); info.Name == "" {
		info.Name = strings.TrimSuffix(filepath.Base(path), ".gguf")
	}
	info.ChatTemplate, _ = f.String("tokenizer.chat_template")
	return info
}
