package llamacpp

import (
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/demo"
	"runner/models/random/widentest"
	"runner/testenv"
)

// TestFolderDemoConformance runs the suite on the bundled model as `runner serve --engine` runs it: with an engine in
// shared libraries, in a process of its own. The weights are the bundled ones as F32, because the engine's kernels for
// other formats round activations by what else is in the batch.
func TestFolderDemoConformance(t *testing.T) {
	testenv.NeedLong(t, "it takes a minute, and TestFolderConformance runs the suite on smaller models")
	e := isolatedEngine()
	e.Program.Env = append(e.Program.Env, folderVariable+"="+testenv.EngineFolder(t))
	path := exactDemo(t)
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		cfg.CacheType, cfg.FlashAttention, cfg.Threads = "f32", "off", 1
		m, err := e.Open(t.Context(), path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, rounding(true))
}

// exactDemo writes the bundled model with all its weights as F32.
func exactDemo(t *testing.T) (path string) {
	t.Helper()
	from, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "exact.gguf")
	if err := widentest.Widen(from, path); err != nil {
		t.Fatal(err)
	}
	return path
}
