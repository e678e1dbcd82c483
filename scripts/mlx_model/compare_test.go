package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/backend/mlx"
	"runner/backend/mlx/fromgguf"
	"runner/chattemplate"
	"runner/chattemplate/families"
)

const (
	root    = "../../"
	answers = 200
	// mostDifferent is how many answers may differ, and tie how near the two best tokens must then be in one of the
	// engines, in nats. They need not be so near in both: llama.cpp rounds activations, and that moves them too.
	mostDifferent = 4
	tie           = 0.05
	mostTokens    = 600
)

// TestEnginesAgree asks both engines the same questions at temperature 0. The weights are the same, so answers differ
// only where two tokens are equally likely but for rounding.
func TestEnginesAgree(t *testing.T) {
	if os.Getenv("RUNNER_LONG") == "" {
		t.Skip("set RUNNER_LONG=1 to run this test")
	}
	ctx := context.Background()
	python, err := mlx.Find(ctx, mlx.Config{Python: filepath.Join(root, ".cache", "mlx", "bin", "python")})
	if err != nil {
		t.Skipf("no MLX here: %v", err)
	}
	if python.Path, err = filepath.Abs(python.Path); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert(root+"models/demo/demo.gguf", folder); err != nil {
		t.Fatal(err)
	}
	cfg := backend.Config{Sequences: 1, ContextSize: 4096}
	one, err := llamacpp.Open(ctx, root+"models/demo/demo.gguf", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := mlx.Engine{Python: python, Options: mlx.Options{Cache: t.TempDir()}}.Open(ctx, folder, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	different, tokens := 0, 0
	for i, question := range questions(t) {
		a, b := answer(t, one, question), answer(t, two, question)
		tokens += len(a)
		for k := range min(len(a), len(b)) {
			if a[k].token == b[k].token {
				continue
			}
			different++
			t.Logf("answer %d differs at token %d: %q with a lead of %.4f, and %q with a lead of %.4f", i, k,
				one.Vocab().Piece(a[k].token), a[k].lead, one.Vocab().Piece(b[k].token), b[k].lead)
			if min(a[k].lead, b[k].lead) > tie {
				t.Errorf("answer %d to %q differs where no engine has the two best tokens within %v", i, question, tie)
			}
			break
		}
	}
	t.Logf("%d of %d answers differ, in %d tokens", different, answers, tokens)
	if different > mostDifferent {
		t.Errorf("%d answers differ, at most %d may", different, mostDifferent)
	}
}

// questions returns some of the questions that the bundled model is evaluated with.
func questions(t *testing.T) []string {
	t.Helper()
	file, err := os.Open(root + "models/demo/testdata/questions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var q struct {
			Messages []struct{ Role, Content string }
			Tools    json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if len(q.Messages) == 1 && q.Messages[0].Role == "user" && q.Tools == nil {
			all = append(all, q.Messages[0].Content)
		}
	}
	if len(all) < answers {
		t.Fatalf("%d questions, want %d", len(all), answers)
	}
	var some []string
	for i := range answers {
		some = append(some, all[i*len(all)/answers])
	}
	return some
}

// choice is a token, and by how much it is likelier than the next best one.
type choice struct {
	token backend.Token
	lead  float64
}

// answer returns what a model writes after a question, reasoning included.
func answer(t *testing.T, m backend.Model, question string) []choice {
	t.Helper()
	f, err := families.Open(chattemplate.Config{Vocab: m.Vocab(), Tokenize: m.Tokenize, Source: m.Info().ChatTemplate,
		MaxText: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := f.Render(chattemplate.Conversation{
		Messages: []chattemplate.Message{{Role: chattemplate.User, Content: question}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var said []choice
	out := make([]backend.Output, 1)
	for next := prompt.Tokens; len(said) < mostTokens; next = []backend.Token{out[0].Token} {
		in := []backend.Input{{Sequence: s, Tokens: next, Sampling: &backend.Sampling{TopLogprobs: 2}}}
		if err := m.Step(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		top := out[0].Top
		said = append(said, choice{out[0].Token, float64(top[0].Logprob - top[1].Logprob)})
		if m.Vocab().EndsGeneration(out[0].Token) {
			break
		}
	}
	return said
}
