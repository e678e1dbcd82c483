package llamaserver_test

import (
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestReusedTokens asks a real llama-server how much of a prompt it had.
func TestReusedTokens(t *testing.T) {
	llamaservertest.Python(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randomtest.WriteFile(path, random.Config{Seed: 1, Layers: 2, Architecture: "llama"}); err != nil {
		t.Fatal(err)
	}
	m := open(t, llamaservertest.Start(t, llamaservertest.Options{Model: path, Parallel: 1}).URL, path, backend.Config{})
	defer m.Close()
	prompt := make([]backend.Token, 100)
	for i := range prompt {
		prompt[i] = backend.Token(300 + i)
	}
	for i, least := range []int{0, 90} {
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in := []backend.Input{{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{TopLogprobs: -1}}}
		if err := backend.StepAll(t.Context(), m, in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
		n, ok := q.(backend.Reusing).Reused()
		if !ok || n < least || n >= len(prompt) || i == 0 && n != 0 {
			t.Errorf("request %d: %d of %d tokens were there, %v", i, n, len(prompt), ok)
		}
		q.Close()
	}
}
