package llamaserver_test

import (
	"context"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/gguf"
	"runner/backend/remote"
	"runner/backend/remote/llamaserver"
	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
	"runner/backend/tokenizer"
	"runner/models/random"
	"runner/models/random/randomtest"
)

func tokenizerOf(tb testing.TB, path string) *tokenizer.Tokenizer {
	tb.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := tokenizer.FromGGUF(f, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func open(tb testing.TB, url, path string, load backend.Config) *remote.Model {
	tb.Helper()
	c, err := web.New(web.Config{Base: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	tok := tokenizerOf(tb, path)
	m, err := remote.Open(context.Background(), remote.Config{Engine: llamaserver.New(c, tok.Vocab()), Vocab: tok.Vocab(),
		Tokenize:     tok.Encode,
		Architecture: "gpt-oss", Load: load})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// TestConformance runs the suite with a real llama-server that computes in 32 bits.
func TestConformance(t *testing.T) {
	llamaservertest.Python(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	cfg := random.Config{Seed: 1, Precise: true, Layers: 2, Architecture: "llama"}
	if err := randomtest.WriteFile(path, cfg); err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		s := llamaservertest.Start(t, llamaservertest.Options{Model: path, Context: cfg.ContextSize + 256,
			Parallel: max(4, cfg.Sequences), Precise: true})
		return open(t, s.URL, path, cfg)
	}, backendtest.Options{Tolerance: 1e-3, Skip: remotetest.NotApplicable(nil)})
}
