package llamacpp

import (
	"os"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/random"
)

// engines is where scripts/engines.sh installs engines and headers for tests.
var engines = filepath.Join("..", "..", ".cache", "engines")

// folderHeaders are the headers of the versions that a folder may have, as far as they are installed.
func folderHeaders() []version {
	var list []version
	for _, name := range []string{"0.5", "0.6"} {
		tree := filepath.Join(engines, "headers-"+name)
		if _, err := os.Stat(tree); err != nil {
			continue
		}
		list = append(list, version{
			name:    name,
			include: []string{"-I", filepath.Join(tree, "include"), "-I", filepath.Join(tree, "ggml", "include")},
			real: publicHeaders + "#define llama_model_params_v05 llama_model_params\n" +
				"#define llama_context_params_v05 llama_context_params\n",
			ours: "capi_v05.h",
		})
	}
	return list
}

// folderEngine returns the engine that scripts/engines.sh installed.
func folderEngine(t testing.TB) *Engine {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(engines, "llama.cpp-0.5.0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("no shared libraries of llama.cpp are installed; `make engines` installs them where it can")
	}
	e, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFolderConformance runs the suite on an engine in shared libraries, as TestConformance does on the compiled-in
// one.
func TestFolderConformance(t *testing.T) {
	e := folderEngine(t)
	path := writeModel(t, random.Config{Seed: 1, Precise: true, Layers: 2})
	for _, c := range []struct {
		name    string
		base    backend.Config
		options backendtest.Options
	}{
		{"FullWindow", backend.Config{FullWindow: "on", CacheType: "f32", FlashAttention: "off"},
			backendtest.Options{Tolerance: 1e-3}},
		{"SmallWindow", backend.Config{FullWindow: "off", CacheType: "f32", FlashAttention: "off"},
			backendtest.Options{Tolerance: 1e-3}},
		{"Default", backend.Config{}, backendtest.Options{Tolerance: 0.02, Coarse: true}},
	} {
		t.Run(c.name, func(t *testing.T) { conform(t, e, path, c.base, c.options) })
	}
}

// conform runs the suite on an engine and a model, on one thread.
func conform(t *testing.T, e *Engine, path string, base backend.Config, o backendtest.Options) {
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		cfg.FullWindow, cfg.CacheType, cfg.FlashAttention, cfg.Threads = base.FullWindow, base.CacheType,
			base.FlashAttention, 1
		m, err := e.Open(t.Context(), path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, o)
}
