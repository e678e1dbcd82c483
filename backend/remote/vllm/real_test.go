package vllm_test

import (
	"context"
	"os"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/gguf"
	"runner/backend/remote"
	"runner/backend/remote/vllm"
	"runner/backend/remote/web"
	"runner/backend/tokenizer"
)

// realServer returns the address of a real vLLM that computes the bundled model, as scripts/vllm_server.sh starts one. It
// skips the test if there is none.
func realServer(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv("RUNNER_VLLM")
	if url == "" {
		tb.Skip("there is no vLLM; start one with scripts/vllm_server.sh and name its address in RUNNER_VLLM")
	}
	return url
}

// bundled returns the tokenizer of the bundled model.
func bundled(tb testing.TB) *tokenizer.Tokenizer {
	tb.Helper()
	f, err := gguf.Open("../../../models/demo/demo.gguf")
	if err != nil {
		tb.Fatal(err)
	}
	t, err := tokenizer.FromGGUF(f)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func connect(tb testing.TB, url string, v *backend.Vocab) *vllm.Engine {
	tb.Helper()
	c, err := web.New(web.Config{Base: url, Key: os.Getenv("RUNNER_VLLM_KEY")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return vllm.New(c, v)
}

// TestVLLMConformance runs the suite of package backendtest with a real vLLM.
func TestVLLMConformance(t *testing.T) {
	url, tok := realServer(t), bundled(t)
	skip := map[string]string{
		"CacheFull": "the sequences share no cache on this side",
		"Penalties": "engines have no equal for the repetition penalty; package remote tests the others",
	}
	if os.Getenv("RUNNER_LONG") == "" {
		skip["Leaks"] = "a thousand prompts are slow; RUNNER_LONG=1 counts leaks"
	}
	backendtest.Run(t, func(t *testing.T, load backend.Config) backend.Model {
		m, err := remote.Open(context.Background(), remote.Config{Engine: connect(t, url, tok.Vocab()), Vocab: tok.Vocab(),
			Tokenize:     func(dst []backend.Token, text string) ([]backend.Token, error) { return tok.Encode(dst, text), nil },
			Architecture: "gpt-oss", Load: load})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, backendtest.Options{Tolerance: 1e-3, Skip: skip})
}
