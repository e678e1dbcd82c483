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
	"runner/models/random/widentest"
	"runner/testenv"
)

const (
	root    = "../../"
	demo    = root + "models/demo/demo.gguf"
	answers = 200
	// mostDifferent is how many answers may differ from those of MLX.
	mostDifferent = 4
	// tie is how near the two best tokens must be where engines differ that round nothing, in nats.
	tie = 0.05
	// rounded is the same where llama.cpp rounds activations to 8 bits, which it does for MXFP4 weights. That moves the
	// lead of the best token over the next by 0.05 to 0.09 nats (root mean square) where it is small.
	rounded    = 0.1
	mostTokens = 600
)

// TestEnginesAgree asks engines the same questions at temperature 0.
//
// MLX computes in float32. llama.cpp rounds activations before it multiplies them by MXFP4 weights. So it runs twice:
// with the bundled model, and with the same weights as float32, where it rounds nothing.
func TestEnginesAgree(t *testing.T) {
	n := 10
	if os.Getenv("RUNNER_LONG") != "" {
		n = answers
	}
	ctx := context.Background()
	python, err := mlx.Find(ctx, mlx.Config{Python: testenv.MLX(t)})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert(demo, folder); err != nil {
		t.Fatal(err)
	}
	cfg := backend.Config{Sequences: 1, ContextSize: 4096, Threads: 1}
	third, err := mlx.Engine{Python: python}.Open(ctx, folder, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	precise := filepath.Join(t.TempDir(), "precise.gguf")
	if err := widentest.Widen(demo, precise); err != nil {
		t.Fatal(err)
	}
	var others []*other
	for _, o := range []*other{{name: "float32 weights", path: precise, tie: tie, cache: "f32"},
		{name: "MXFP4 weights", path: demo, tie: rounded}} {
		c := cfg
		c.CacheType = o.cache
		if o.model, err = llamacpp.Open(ctx, o.path, c); err != nil {
			t.Fatal(err)
		}
		defer o.model.Close()
		others = append(others, o)
	}
	tokens := 0
	for i, question := range questions(t, n) {
		want := answer(t, third, question)
		tokens += len(want)
		for _, o := range others {
			got := answer(t, o.model, question)
			k := 0
			for k < len(got) && k < len(want) && got[k].token == want[k].token {
				k++
			}
			if k == len(got) && k == len(want) {
				continue
			}
			o.different++
			t.Logf("%s: answer %d differs at token %d: %q with a lead of %.4f, and in MLX %q with a lead of %.4f", o.name, i, k,
				third.Vocab().Piece(got[k].token), got[k].lead, third.Vocab().Piece(want[k].token), want[k].lead)
			if want[k].lead > o.tie {
				t.Errorf("%s: answer %d to %q differs where the two best tokens are not within %v", o.name, i, question, o.tie)
			}
		}
	}
	for _, o := range others {
		t.Logf("%s: %d of %d answers differ from those of MLX, which have %d tokens", o.name, o.different, n, tokens)
		if o.different > mostDifferent {
			t.Errorf("%s: %d answers differ, at most %d may", o.name, o.different, mostDifferent)
		}
	}
}

// other is a way in which llama.cpp runs the model, to compare with MLX.
type other struct {
	name, path, cache string
	tie               float64 // largest lead in MLX where an answer may differ
	model             backend.Model
	different         int
}

// questions returns some of the questions that the bundled model is evaluated with.
func questions(t *testing.T, n int) []string {
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
	if len(all) < n {
		t.Fatalf("%d questions, want %d", len(all), n)
	}
	var some []string
	for i := range n {
		some = append(some, all[i*len(all)/n])
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
