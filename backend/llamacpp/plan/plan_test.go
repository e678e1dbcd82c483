package plan

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/llamacpp/machine"
	"runner/hint"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// own is an engine with the runner's own kernels.
var own = func() Engine {
	e := BuiltIn()
	e.Kernels, e.Formats = "AVX2", []string{"F32", "MXFP4", "Q8_0"}
	return e
}()

// writeModel writes a random model and returns its path.
func writeModel(t *testing.T, c random.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randomtest.WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

// shape20B is the shape of gpt-oss-20b as its header states it.
func shape20B() *shape {
	s := &shape{layers: 24, trained: 131072, window: 128, vocab: 201088, embedding: 2880, weights: 12_100_000_000,
		output: 1_230_000_000, ahead: 2880 * 4}
	for i := range 24 {
		s.perToken = append(s.perToken, 8*(64+64))
		s.sliding = append(s.sliding, i%2 == 0)
	}
	return s
}

func TestCacheBytes(t *testing.T) {
	s := shape20B()
	// 48 KiB per token with every layer full, 24 where the sliding ones keep a window; f16.
	if got := s.cacheBytes(1000, 0, true, 64); got != 1000*48<<10 {
		t.Errorf("full cache of 1,000 tokens: %d bytes", got)
	}
	if got := s.cacheBytes(1000, 0, false, 64); got != 1000*24<<10 {
		t.Errorf("cache of 1,000 tokens with empty windows: %d bytes", got)
	}
	p := &Plan{Cells: 32768, Sequences: 4, Batch: 512}
	if got := p.windowCells(s); got != 1024 { // 4*128+512
		t.Errorf("window cache of %d cells", got)
	}
	if got := s.cacheBytes(1<<24*128, 0, true, 128); got <= 0 {
		t.Errorf("a huge cache overflows to %d", got)
	}
}

func TestHeaderShape(t *testing.T) {
	f, err := gguf.Open(writeModel(t, random.Config{Layers: 3, KVHeads: 2, HeadSize: 32}))
	if err != nil {
		t.Fatal(err)
	}
	s := newShape([]*gguf.File{f}, nil)
	if s.layers != 3 || s.window != 128 || s.vocab != 512 || s.perToken[0] != 2*64 || !s.sliding[0] || s.sliding[1] ||
		!s.sliding[2] {
		t.Errorf("shape %+v", s)
	}
}

// TestShapes checks what other architectures keep: recurrent layers a state instead of cells, layers that share a cache
// nothing.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		architecture string
		perToken     []int64
		sliding      []bool
		state        int64
	}{
		// two layers with three inputs of 2*2*32 + 4*32 values, and 4*32*32 values of state
		{"qwen35", []int64{0, 128, 0, 128}, []bool{false, false, false, false}, 2 * 4 * (3*256 + 4096)},
		{"gemma4", []int64{128, 128, 0, 0}, []bool{true, false, true, false}, 0},
	} {
		f, err := gguf.Open(writeModel(t, random.Config{Architecture: c.architecture}))
		if err != nil {
			t.Fatal(err)
		}
		s := newShape([]*gguf.File{f}, nil)
		if !slices.Equal(s.perToken, c.perToken) || !slices.Equal(s.sliding, c.sliding) || s.state != c.state {
			t.Errorf("%s: %+v", c.architecture, s)
		}
	}
}

// TestFit checks the window that is chosen and what is refused for given amounts of memory.
func TestFit(t *testing.T) {
	s := shape20B()
	fail := func(detail, advice string) error { return errors.New(detail) }
	for _, c := range []struct {
		name      string
		available int64 // MiB
		total     int64 // MiB
		cfg       backend.Config
		full      bool
		tooBig    bool
	}{
		{"plenty", 8 << 10, 64 << 10, backend.Config{}, true, false},
		{"unknown", 0, 0, backend.Config{}, true, false},
		{"room for windows only", 1200, 64 << 10, backend.Config{}, false, false},
		{"no room", 300, 64 << 10, backend.Config{}, false, true},
		{"full window does not fit", 1200, 64 << 10, backend.Config{FullWindow: "on"}, true, true},
		{"weights do not fit", 8 << 10, 64 << 10, backend.Config{NoMemoryMap: true}, false, true},
		{"weights fit", 16 << 10, 64 << 10, backend.Config{NoMemoryMap: true}, true, false},
		{"asked for windows", 8 << 10, 64 << 10, backend.Config{FullWindow: "off"}, false, false},
		{"mapped weights exceed all memory", 8 << 10, 10 << 10, backend.Config{}, true, true},
	} {
		p := &Plan{Cells: 32768, Sequences: 4, Batch: 512}
		here := machine.Resources{MemoryAvailable: c.available << 20, MemoryTotal: c.total << 20}
		err := p.fit("x", c.cfg, s, 64, here, fail)
		var e *backend.LoadError
		if (err != nil) != c.tooBig || c.tooBig && (!errors.As(err, &e) || e.Reason != backend.LoadTooBig) ||
			p.FullWindow != c.full {
			t.Errorf("%s: full window %t, %v", c.name, p.FullWindow, err)
		}
	}
}

// TestAdviceNamesFlags: what does not fit is refused with the flags that help. Mapped weights count only within a limit
// of the whole address space.
func TestAdviceNamesFlags(t *testing.T) {
	s := shape20B()
	mapped := s.weights
	for _, c := range []struct {
		addresses int64
		whole     bool
		cfg       backend.Config
		advice    string // none if it fits
	}{
		{0, false, backend.Config{}, "use a smaller --ctx-size, "},
		{0, false, backend.Config{NoMemoryMap: true}, "leave out --no-mmap, or use a smaller --ctx-size, "},
		{300 << 20, false, backend.Config{}, "raise the limit (--engine-memory), or use a smaller --ctx-size, "},
		{mapped, true, backend.Config{}, "raise the limit (ulimit -v), or use a smaller --ctx-size, "},
		{mapped, false, backend.Config{}, ""}, {mapped + 8<<30, true, backend.Config{}, ""},
	} {
		p := &Plan{Cells: 32768, Sequences: 4, Batch: 512}
		here := machine.Resources{MemoryAvailable: max(c.addresses, 300<<20), MemoryTotal: 64 << 30, Addresses: c.addresses,
			Whole: c.whole}
		err := p.fit("x", c.cfg, s, 64, here, nil)
		if got := hint.Of(err); !strings.HasPrefix(got, c.advice) || (err != nil) != (c.advice != "") {
			t.Errorf("%+v: %v; %s", c, err, got)
		}
	}
}

// TestNoHeaderFitsByOverflow checks that sizes that no memory holds are refused even if their product overflows.
func TestNoHeaderFitsByOverflow(t *testing.T) {
	s := shape20B()
	s.perToken[0] = math.MaxInt64
	p := &Plan{Cells: 32768, Sequences: 4, Batch: 512}
	err := p.fit("x", backend.Config{}, s, 64, machine.Resources{MemoryAvailable: 8 << 30, MemoryTotal: 64 << 30}, nil)
	if e := (*backend.LoadError)(nil); !errors.As(err, &e) || e.Reason != backend.LoadTooBig {
		t.Errorf("a cache of %d bytes: %v", s.cacheBytes(p.Cells, 0, true, 64), err)
	}
	if n := valuesPerToken(1<<40, 1<<40, 1<<40); n != math.MaxInt64 {
		t.Errorf("2^40 heads of two times 2^40 values: %d", n)
	}
	if n := valuesPerToken(1, math.MaxInt64, math.MaxInt64); n != math.MaxInt64 {
		t.Errorf("one head of two times 2^63-1 values: %d", n)
	}
}

// TestHelpIsNotWithdrawn checks that a model with one thread does not ask for zero helpers. Helpers belong to the
// process, so that would leave loaded models with one thread each.
func TestHelpIsNotWithdrawn(t *testing.T) {
	path := writeModel(t, random.Config{Layers: 1})
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for threads, helped := range map[int]bool{1: false, 2: true} {
		p, err := New(path, []*gguf.File{f}, backend.Config{Threads: threads}, machine.Resources{}, 0, &own, nil)
		if err != nil || p.Helped != helped || p.EngineThreads() != 1 {
			t.Errorf("%d threads: %+v, %v", threads, p, err)
		}
	}
}

// TestTinyModelsTakeOneHelper checks the default: one helper where the kernels can be helped, one thread elsewhere.
func TestTinyModelsTakeOneHelper(t *testing.T) {
	path := writeModel(t, random.Config{Layers: 1})
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cores  int
		cfg    backend.Config
		want   int
		helped bool
	}{
		{8, backend.Config{}, 2, true}, {1, backend.Config{}, 1, false}, {8, backend.Config{Threads: 3}, 3, true},
		{8, backend.Config{CacheType: "f32"}, 1, false},
	} {
		p, err := New(path, []*gguf.File{f}, c.cfg, machine.Resources{Cores: c.cores}, 0, &own, nil)
		if err != nil || p.Threads != c.want || p.Helped != c.helped {
			t.Errorf("%d cores, %+v: %+v, %v", c.cores, c.cfg, p, err)
		}
	}
}

// TestTinyModelsTakeSmallerSteps checks the default: a processor reads a tiny model's prompts in smaller steps.
func TestTinyModelsTakeSmallerSteps(t *testing.T) {
	gpu := []Device{{Name: "GPU0", Description: "a GPU", MemoryFree: 8 << 30}}
	for _, c := range []struct {
		model random.Config
		cfg   backend.Config
		gpus  []Device
		want  int
	}{
		{random.Config{Layers: 1}, backend.Config{}, nil, tinyBatch},
		{random.Config{Layers: 1}, backend.Config{BatchSize: 300}, nil, 300},
		{random.Config{Layers: 1}, backend.Config{}, gpu, tinyBatch}, // which the model does not use
		{random.Config{Layers: 1}, backend.Config{GPULayers: -1}, nil, tinyBatch},
		{random.Config{Layers: 1}, backend.Config{GPULayers: -1}, gpu, usualBatch},
		{random.Config{Layers: 8, Width: 512, FeedForward: 512}, backend.Config{}, nil, usualBatch},
	} {
		path := writeModel(t, c.model)
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c.cfg.ContextSize = 1024
		p, err := New(path, []*gguf.File{f}, c.cfg, machine.Resources{Cores: 1}, 0, &own, c.gpus)
		if err != nil || p.Batch != c.want {
			t.Errorf("%d layers, %+v, %d GPUs: %+v, %v", c.model.Layers, c.cfg, len(c.gpus), p, err)
		}
	}
}

func TestOffload(t *testing.T) {
	s := shape20B()
	for _, c := range []struct {
		layers int
		gib    int64
		want   int
	}{{0, 80, 0}, {-1, 80, 25}, {-1, 0, 0}, {7, 1, 7}} {
		var gpus []Device
		if c.gib > 0 {
			gpus = []Device{{Name: "GPU0", Description: "a GPU", MemoryFree: c.gib << 30}}
		}
		p := &Plan{Cells: 8192, Sequences: 4, Batch: 512}
		p.offload(backend.Config{GPULayers: c.layers}, s, 64, gpus)
		if p.GPULayers != c.want {
			t.Errorf("%d layers asked, %d GiB: %d layers", c.layers, c.gib, p.GPULayers)
		}
	}
	p := &Plan{Cells: 8192, Sequences: 4, Batch: 512}
	p.offload(backend.Config{GPULayers: -1}, s, 64, []Device{{MemoryFree: 8 << 30}})
	if p.GPULayers < 8 || p.GPULayers > 18 {
		t.Errorf("on 8 GiB: %d layers", p.GPULayers)
	}
}
