package llamacpp

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// writeModel writes a random model and returns its path.
func writeModel(t testing.TB, c random.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randomtest.WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

// openModel opens a model on one thread, so that parallel tests do not wait for each other, and closes it after the
// test.
func openModel(t testing.TB, path string, cfg backend.Config) *Model {
	t.Helper()
	if cfg.Threads == 0 {
		cfg.Threads = 1
	}
	e, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.open(context.Background(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestDecodes(t *testing.T) {
	decodes(t, openModel(t, writeModel(t, random.Config{}), backend.Config{}))
}

// decodes feeds a prompt and samples eight tokens.
func decodes(t *testing.T, m backend.Model) {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	feed, err := m.Tokenize(nil, "the rain in the plain")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]backend.Output, 1)
	for i := range 8 {
		if err := m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: feed, Sampling: &backend.Sampling{}}},
			out); err != nil {
			t.Fatal(err)
		}
		if !m.Vocab().Valid(out[0].Token) {
			t.Fatalf("step %d sampled %d", i, out[0].Token)
		}
		feed = []backend.Token{out[0].Token}
	}
}

// gpuVariable makes tests of conformance put all layers on a GPU, and fail where there is none.
const gpuVariable = "RUNNER_TEST_GPU"

// layersOnGPU is the number of layers to put on a GPU in tests of conformance.
func layersOnGPU() int {
	if os.Getenv(gpuVariable) != "" {
		return -1
	}
	return 0
}

// rounding is how much an engine's kernels may round, with 32-bit weights, cache and attention (exact) and with the
// defaults. A GPU multiplies in fewer bits, and in another order when more tokens are in a batch.
func rounding(exact bool) backendtest.Options {
	switch gpu := layersOnGPU() != 0; {
	case exact && gpu:
		return backendtest.Options{Tolerance: 0.02, Coarse: true}
	case exact:
		return backendtest.Options{Tolerance: 1e-3}
	case gpu:
		return backendtest.Options{Tolerance: 0.1, Coarse: true}
	}
	return backendtest.Options{Tolerance: 0.02, Coarse: true}
}

// steady makes all experts of a model work on every token of a GPU. What a GPU rounds could select other experts, which
// moves logits as far as an error does.
func steady(c random.Config) random.Config {
	if layersOnGPU() != 0 {
		c.Experts, c.Used = 4, 4
	}
	return c
}

// usesGPU checks that a model is where layersOnGPU wants it.
func usesGPU(t *testing.T, m backend.Model) backend.Model {
	t.Helper()
	if os.Getenv(gpuVariable) != "" && m.Info().GPULayers == 0 {
		t.Fatal("no layer of the model is on a GPU")
	}
	return m
}
