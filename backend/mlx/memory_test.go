package mlx

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/ledger"
	"runner/models/random"
)

// TestMemoryGrowsInAStep lets MLX take more memory than it may within a step, and lets an allocation fail. The worker
// is ended, the log says why, and the answer goes on.
func TestMemoryGrowsInAStep(t *testing.T) {
	long(t)
	p := python(t)
	path := randomFolder(t, random.Config{Seed: 2, Precise: true, Layers: 2})
	want := greedy(t, mustOpen(t, p, path, backend.Config{ContextSize: 256, Sequences: 2}), 12)
	for name, c := range map[string]struct{ failure, says string }{
		"growth": {`
        forward = self.model.forward
        def grow(*a):
            self.grown = self.mx.ones((100 << 20,))
            self.mx.eval(self.grown)
            return forward(*a)
        self.model.forward = grow`, "MemoryError: MLX uses 4"},
		"failed allocation": {`raise RuntimeError("[malloc] Unable to allocate 5 bytes.")`,
			"RuntimeError: [malloc] Unable to allocate"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			m := hookedBy(t, Engine{Python: p, Memory: 256e6,
				Log: slog.New(slog.NewTextHandler(&log, nil))}, path, c.failure)
			if got := greedy(t, m, 12); !slices.Equal(got, want) {
				t.Errorf("tokens %v, want %v", got, want)
			}
			if n := countsOf(m); n.Crashes != 1 || n.Hangs != 0 || n.Failed != 0 {
				t.Errorf("counts %+v", n)
			}
			if text := "--engine-memory allows (256 MB): " + c.says; !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		})
	}
}

// TestMemoryOfAComputation: on Linux a worker cannot take memory far above its limit within one computation either,
// even if nothing of it is left afterwards. It ends, and the answer goes on. If that happens each time, the step fails.
func TestMemoryOfAComputation(t *testing.T) {
	p := python(t)
	if runtime.GOOS != "linux" {
		t.Skip("the limit works on Linux only")
	}
	path := randomFolder(t, random.Config{Seed: 2, Precise: true, Layers: 2})
	want := greedy(t, mustOpen(t, p, path, backend.Config{ContextSize: 256, Sequences: 2}), 12)
	for name, c := range map[string]struct{ failure, says string }{
		"MLX":   {`self.mx.eval(self.mx.ones((256 << 20,)))`, "segmentation fault"},
		"numpy": {`self.np.ones(128 << 20)`, "--engine-memory allows (256 MB): "},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			m := hookedBy(t, Engine{Python: p, Memory: 256e6,
				Log: slog.New(slog.NewTextHandler(&log, nil))}, path, c.failure)
			if got := greedy(t, m, 12); !slices.Equal(got, want) {
				t.Errorf("tokens %v, want %v", got, want)
			}
			if n := countsOf(m); n.Crashes != 1 || n.Hangs != 0 || n.Failed != 0 {
				t.Errorf("counts %+v", n)
			}
			if !strings.Contains(log.String(), c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, log.String())
			}
		})
	}
	t.Run("each time", func(t *testing.T) {
		f, err := ReadFolder(path)
		if err != nil {
			t.Fatal(err)
		}
		const memory = 256e6
		start, err := Start(p, f, memory)
		if err != nil {
			t.Fatal(err)
		}
		change(t, &start, hungryToken)
		m, err := Engine{Memory: memory}.run(t.Context(), start, f, backend.Config{ContextSize: 256, Sequences: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		err = m.Step(t.Context(), []backend.Input{{Sequence: s, Tokens: []backend.Token{7}}}, make([]backend.Output, 1))
		var input *backend.InputError
		if !errors.As(err, &input) || !errors.Is(err, backend.ErrCrashed) {
			t.Errorf("error %v", err)
		}
		s.Close()
		if got := greedy(t, m, 12); !slices.Equal(got, want) {
			t.Errorf("tokens %v, want %v", got, want)
		}
	})
}

// hungryToken makes a step take 1 GiB if token 7 is in it.
const hungryToken = `
def step(self, head, raw, old=steps.Steps.step):
    if bytes(raw) == b"\7\0\0\0":
        self.mx.eval(self.mx.ones((256 << 20,)))
    return old(self, head, raw)
steps.Steps.step = step
`

// TestOtherModelsLeaveLessMemory: a model that is loaded counts for the next one, which is refused if nothing is left.
func TestOtherModelsLeaveLessMemory(t *testing.T) {
	p := python(t)
	path := demoFolder(t)
	m := mustOpen(t, p, path, backend.Config{})
	takes := m.Info().Memory.Private
	if sum := ledger.Models.Others(nil); takes < m.Info().Bytes || sum.Private < takes {
		t.Errorf("the model takes %d bytes, and all models %+v", takes, sum)
	}
	all, err := ledger.Models.Plan(nil, func(backend.Memory) (backend.Memory, error) {
		return backend.Memory{Private: 1 << 45}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Remove()
	_, err = open(t, p, path, backend.Config{}, 0)
	var load *backend.LoadError
	if !errors.As(err, &load) || load.Reason != backend.LoadTooBig || load.Advice == "" {
		t.Errorf("error %v, want LoadTooBig", err)
	}
}
