package llamacpp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/child"
	"runner/backend/child/protocol"
	"runner/backend/child/serve"
	"runner/backend/llamacpp/machine"
	"runner/models/random"
)

// engineVariable makes the test program an engine's process. With folderVariable it runs the libraries in a folder.
// memoryVariable has the free memory, in bytes, of the machine that it sees, and limitVariable the limit of its own
// private memory.
const (
	engineVariable = "RUNNER_TEST_PROCESS"
	folderVariable = "RUNNER_TEST_FOLDER"
	memoryVariable = "RUNNER_TEST_MEMORY"
	limitVariable  = "RUNNER_TEST_LIMIT"
)

// number64 returns the number in an environment variable, or 0.
func number64(name string) int64 {
	n, err := strconv.ParseInt(os.Getenv(name), 10, 64)
	if err != nil && os.Getenv(name) != "" {
		panic(err)
	}
	return n
}

func TestMain(m *testing.M) {
	if os.Getenv(engineVariable) == "" {
		os.Exit(m.Run())
	}
	if n := number64(limitVariable); n > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}); err != nil {
			panic(err)
		}
	}
	if n := number64(memoryVariable); n > 0 {
		measure = func() machine.Resources { return machine.Resources{Cores: 1, MemoryTotal: n, MemoryAvailable: n} }
	}
	open := BuiltIn
	if folder := os.Getenv(folderVariable); folder != "" {
		open = func() (*Engine, error) { return OpenFolder(folder) }
	}
	engine, err := open()
	if err == nil {
		err = serve.Run(os.NewFile(protocol.FileIn, "in"), os.NewFile(protocol.FileOut, "out"), serve.Engine{
			Name: "llama.cpp", Open: engine.Open, Progress: Computed})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func isolatedEngine() child.Engine {
	return child.Engine{Program: child.Program{Path: os.Args[0], Env: append(os.Environ(), engineVariable+"=1")}}
}

// isolated opens a model in a process of its own.
func isolated(t testing.TB, path string, cfg backend.Config) *child.Model {
	t.Helper()
	m, err := isolatedEngine().Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestIsolatedConformance runs the suite over a process of its own.
func TestIsolatedConformance(t *testing.T) {
	path := writeModel(t, steady(random.Config{Seed: 1, Layers: 2}))
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		cfg.Threads, cfg.GPULayers = 1, layersOnGPU()
		return usesGPU(t, isolated(t, path, cfg))
	}, rounding(false))
}

// TestIsolatedModelsShareTheMemory loads models in processes of their own, on a machine that has room for the cache of
// one. The second gets the rest, and a third that asks for more is refused. When the first is gone there is room again.
func TestIsolatedModelsShareTheMemory(t *testing.T) {
	const free = 1600 << 20
	t.Setenv(memoryVariable, strconv.Itoa(free))
	// 16 KiB for each token, 1 GiB in all
	path := writeModel(t, random.Config{Layers: 8, KVHeads: 8, Heads: 8, HeadSize: 64, Context: 1 << 16})
	first := isolated(t, path, backend.Config{Sequences: 1})
	if i := first.Info(); i.ContextSize <= 1<<15 || i.Memory.Private <= free/2 {
		t.Fatalf("the first model has a context of %d tokens and takes %+v", i.ContextSize, i.Memory)
	}
	second := isolated(t, path, backend.Config{Sequences: 1})
	i := second.Info()
	if sum := i.Memory.Private + first.Info().Memory.Private; sum > free || i.ContextSize >= first.Info().ContextSize {
		t.Errorf("the second has a context of %d tokens, and both take %d of %d bytes: %s", i.ContextSize, sum, free,
			i.ContextReason)
	}
	big := backend.Config{Sequences: 1, ContextSize: 1 << 15, FullWindow: "on"}
	_, err := isolatedEngine().Open(t.Context(), path, big)
	var load *backend.LoadError
	if !errors.As(err, &load) || load.Reason != backend.LoadTooBig || load.Advice == "" {
		t.Errorf("a third of %d tokens: error %v, want LoadTooBig", big.ContextSize, err)
	}
	first.Close()
	isolated(t, path, big)
}

// TestAllocationsThatFail loads models into a process that gets less memory than its plan counts on. Neither the engine
// nor the process crashes, and the error says that memory is missing.
func TestAllocationsThatFail(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits the private memory of a process")
	}
	t.Setenv(memoryVariable, strconv.Itoa(1<<40))
	t.Setenv(limitVariable, strconv.Itoa(400<<20))
	for name, c := range map[string]struct {
		model random.Config
		cfg   backend.Config
	}{
		"cache":   {random.Config{Layers: 8, KVHeads: 8, Heads: 8, HeadSize: 64, Context: 1 << 16}, backend.Config{}},
		"weights": {random.Config{Layers: 1, Width: 512, Vocabulary: 400_000}, backend.Config{NoMemoryMap: true}},
	} {
		_, err := isolatedEngine().Open(t.Context(), writeModel(t, c.model), c.cfg)
		var load *backend.LoadError
		if !errors.As(err, &load) || load.Reason != backend.LoadTooBig || load.Advice == "" ||
			strings.Contains(load.Detail, "crashed") {
			t.Errorf("%s: error %#v", name, err)
		}
		t.Log(name, err)
	}
}

// odd allows every token with an odd id.
type odd struct{}

func (odd) Allows(t backend.Token) bool { return t%2 == 1 }

func (odd) Fill(m backend.Mask) {
	for i := range m {
		m[i] = 0xaaaaaaaaaaaaaaaa
	}
}

// eight returns a function that runs steps of one token each for eight sequences with masks.
func eight(t testing.TB, m backend.Model) (step func()) {
	t.Helper()
	inputs, outputs := make([]backend.Input, 8), make([]backend.Output, 8)
	feed := make([]backend.Token, 8)
	for i := range inputs {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		feed[i] = backend.Token(65 + i)
		inputs[i] = backend.Input{Sequence: s, Tokens: feed[i : i+1], Constraint: odd{}, Sampling: &backend.Sampling{
			Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: uint64(i), TopLogprobs: -1}}
	}
	return func() {
		if len(inputs[0].Sequence.Tokens()) == m.Info().ContextSize {
			for i := range inputs {
				if _, err := inputs[i].Sequence.Truncate(0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := m.Step(t.Context(), inputs, outputs); err != nil {
			t.Fatal(err)
		}
		for i := range outputs {
			feed[i] = outputs[i].Token
		}
	}
}

// timed runs 100 steps and appends their durations.
func timed(d []time.Duration, step func()) []time.Duration {
	for range 100 {
		at := time.Now()
		step()
		d = append(d, time.Since(at))
	}
	return d
}

// BenchmarkIsolation measures what the process costs: the difference of the medians of steps of eight sequences with
// masks, in turns of 100 steps. That is the time that the protocol adds to a step.
func BenchmarkIsolation(b *testing.B) {
	for _, vocabulary := range []int{512, 201088} {
		b.Run(fmt.Sprintf("%d tokens", vocabulary), func(b *testing.B) {
			path := writeModel(b, random.Config{Layers: 2, Vocabulary: vocabulary})
			cfg := backend.Config{ContextSize: 256, Sequences: 8, Threads: 1}
			inside, outside := eight(b, openModel(b, path, cfg)), eight(b, isolated(b, path, cfg))
			var in, out []time.Duration
			for range 256 {
				inside()
				outside()
			}
			b.ResetTimer()
			for range b.N {
				in, out = timed(in, inside), timed(out, outside)
			}
			slices.Sort(in)
			slices.Sort(out)
			median := func(d []time.Duration) float64 { return float64(d[len(d)/2].Microseconds()) }
			b.ReportMetric(median(in), "us/inside")
			b.ReportMetric(median(out), "us/outside")
			b.ReportMetric(median(out)-median(in), "us/more")
		})
	}
}
