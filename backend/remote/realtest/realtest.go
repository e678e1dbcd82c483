// Package realtest tests real engines at addresses that environment variables give: RUNNER_VLLM, RUNNER_SGLANG. The
// engine's vocabulary is that of the bundled model.
package realtest

import (
	"context"
	"os"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/gguf"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
	"runner/backend/tokenizer"
)

// Conformance runs the suite of package backendtest with the engine at the address in a variable, or skips the test if
// it is empty. The variable's name with _KEY has the engine's key. demo is the path of the bundled model. skip has more
// tests that do not apply.
func Conformance(t *testing.T, variable, demo string, open func(*web.Client, *backend.Vocab) remote.Engine,
	skip map[string]string) {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		t.Skip("no engine is running for this test; the address of one can be given in " + variable)
	}
	f, err := gguf.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := remotetest.NotApplicable(skip)
	if os.Getenv("RUNNER_LONG") == "" {
		all["Leaks"] = "a thousand prompts are slow; RUNNER_LONG=1 counts leaks"
	}
	backendtest.Run(t, func(t *testing.T, load backend.Config) backend.Model {
		c, err := web.New(web.Config{Base: url, Key: os.Getenv(variable + "_KEY")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		m, err := remote.Open(context.Background(), remote.Config{Engine: open(c, tok.Vocab()), Vocab: tok.Vocab(),
			Tokenize:     tok.Encode,
			Architecture: "gpt-oss", Load: load})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, backendtest.Options{Tolerance: 1e-3, Skip: all})
}
