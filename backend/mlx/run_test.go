package mlx

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/child"
	"runner/backend/mlx/fromgguf"
	"runner/models/random"
	"runner/testenv"
)

// python returns the Python environment for tests, or skips the test if none is installed.
func python(t testing.TB) *Python {
	t.Helper()
	p, err := Find(context.Background(), Config{Python: testenv.MLX(t)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// randomFolder makes a model with random weights in MLX's format.
func randomFolder(t testing.TB, c random.Config) string {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := random.Write(file, c); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "model")
	if err := fromgguf.Convert(file.Name(), to); err != nil {
		t.Fatal(err)
	}
	return to
}

// open runs a model.
func open(t *testing.T, p *Python, path string, cfg backend.Config, memory int64) (*child.Model, error) {
	t.Helper()
	return Engine{Python: p, Memory: memory}.Open(context.Background(), path, cfg)
}

func mustOpen(t *testing.T, p *Python, path string, cfg backend.Config) *child.Model {
	t.Helper()
	m, err := open(t, p, path, cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// long skips a test that takes minutes.
func long(t *testing.T) {
	t.Helper()
	testenv.NeedLong(t, "it takes minutes")
}

// TestLongTemplate runs a model whose template is longer than an argument of a program or a frame may be.
func TestLongTemplate(t *testing.T) {
	p := python(t)
	path := demoFolder(t)
	want := strings.Repeat("{# long #}\n", 2<<20)
	write(t, path, "chat_template.jinja", want)
	m := mustOpen(t, p, path, backend.Config{})
	if got := m.Info().ChatTemplate; got != want {
		t.Errorf("a template of %d bytes became one of %d", len(want), len(got))
	}
	if len(greedy(t, m, 3)) != 3 {
		t.Error("no tokens")
	}
}

// TestConformance runs the suite in float32 with window layers and without them. TestSmoke is the short test.
func TestConformance(t *testing.T) {
	long(t)
	p := python(t)
	path := randomFolder(t, random.Config{Seed: 1, Precise: true, Layers: 2})
	for _, full := range []string{"off", "on"} {
		t.Run("FullWindow="+full, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
				cfg.FullWindow = full
				return mustOpen(t, p, path, cfg)
			}, backendtest.Options{Tolerance: 1e-3})
		})
	}
}

// counts are what a model has counted.
type counts struct{ Crashes, Hangs, Failed int64 }

func countsOf(m interface {
	Crashes() (all, hangs, failed int64)
}) (c counts) {
	c.Crashes, c.Hangs, c.Failed = m.Crashes()
	return c
}
