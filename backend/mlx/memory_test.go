package mlx

import (
	"errors"
	"log/slog"
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
			m := hookedBy(t, Engine{Python: p, Options: Options{Memory: 256e6},
				Log: slog.New(slog.NewTextHandler(&log, nil))}, path, c.failure)
			if got := greedy(t, m, 12); !slices.Equal(got, want) {
				t.Errorf("tokens %v, want %v", got, want)
			}
			if n := m.Counts(); n.Crashes != 1 || n.Hangs != 0 || n.Failed != 0 {
				t.Errorf("counts %+v", n)
			}
			if text := "--engine-memory allows (256 MB): " + c.says; !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		})
	}
}

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
	_, err = open(t, p, path, backend.Config{}, Options{})
	var load *backend.LoadError
	if !errors.As(err, &load) || load.Reason != backend.LoadTooBig || load.Advice == "" {
		t.Errorf("error %v, want LoadTooBig", err)
	}
}
