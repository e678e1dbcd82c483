package runner

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
)

// scored runs a request and returns the scores of its prompt.
func scored(t *testing.T, f fixture, req generation.Request) (list []reasoning.TokenLogprobs, result reasoning.Result) {
	t.Helper()
	for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
		if err != nil {
			t.Error(err)
			return nil, result
		}
		switch e.Kind {
		case reasoning.PromptScored:
			list = e.Logprobs
		case reasoning.Done:
			result = *e.Result
		}
	}
	return list, result
}

// reference scores tokens one at a time, directly with the backend.
func reference(t *testing.T, m backend.Model, tokens []backend.Token, top int) []reasoning.TokenLogprobs {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := reasoning.TokenLogprobs{Text: m.Vocab().Piece(tokens[0])}
	first.Token, first.Logprob = tokens[0], float32(math.NaN())
	list := []reasoning.TokenLogprobs{first}
	out := make([]backend.Output, 1)
	for i := range tokens[:len(tokens)-1] {
		in := []backend.Input{{Sequence: s, Tokens: tokens[i : i+1], Targets: tokens[i+1 : i+2], TargetTop: top}}
		if err := m.Step(t.Context(), in, out); err != nil {
			t.Fatal(err)
		}
		score := &out[0].Scores[0]
		l := reasoning.TokenLogprobs{Text: m.Vocab().Piece(tokens[i+1]), Rank: score.Rank}
		l.Token, l.Logprob = tokens[i+1], score.Logprob
		for _, a := range score.Top {
			l.Top = append(l.Top, reasoning.Alternative{TokenLogprob: a, Text: m.Vocab().Piece(a.Token)})
		}
		list = append(list, l)
	}
	return list
}

func sameScores(a, b []reasoning.TokenLogprobs) bool {
	return slices.EqualFunc(a, b, func(x, y reasoning.TokenLogprobs) bool {
		same := x.Logprob == y.Logprob || math.IsNaN(float64(x.Logprob)) && math.IsNaN(float64(y.Logprob))
		return same && x.Token == y.Token && x.Text == y.Text && x.Rank == y.Rank && slices.Equal(x.Top, y.Top)
	})
}

func TestPromptsAreScoredInPiecesAndNotTokenByToken(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	tokens := make([]backend.Token, 200)
	for i := range tokens {
		tokens[i] = backend.Token(3 + i*7%90)
	}
	want := reference(t, f.model, tokens, 2)
	before := len(f.model.Steps())
	for range 2 { // the second time, the prompt is in the cache
		req := generation.Request{PromptTokens: tokens, PromptLogprobs: true, PromptTop: 2, PromptOnly: true}
		list, result := scored(t, f, req)
		if !sameScores(list, want) {
			t.Errorf("got %v, want %v", list, want)
		}
		if u := result.Usage; u.Prompt != 200 || u.Completion != 0 || u.Cached != 0 ||
			result.Finish != reasoning.FinishLength {
			t.Errorf("%+v", result)
		}
	}
	if n, most := len(f.model.Steps())-before, 2*(200/backend.MaxTargets+1); n > most {
		t.Errorf("%d steps, want %d at most", n, most)
	}
}

func TestPromptsAreScoredDuringOtherRuns(t *testing.T) {
	// The cache is so small that lanes must give their sequences back and are fed again.
	f := start(t, fake.Config{ContextSize: 256, CacheTokens: 500, BatchSize: 64}, Config{})
	var group sync.WaitGroup
	prompts := make([][]backend.Token, 6)
	want := make([][]reasoning.TokenLogprobs, len(prompts))
	for i := range prompts {
		for j := range 150 {
			prompts[i] = append(prompts[i], backend.Token(3+(i*31+j*7)%90))
		}
		want[i] = reference(t, f.model, prompts[i], 1)
	}
	for i := range prompts {
		group.Go(func() {
			req := generation.Request{PromptTokens: prompts[i], PromptLogprobs: true, PromptTop: 1, MaxTokens: 20,
				IgnoreEnd: true}
			if list, result := scored(t, f, req); !sameScores(list, want[i]) || result.Usage.Completion != 20 {
				t.Errorf("prompt %d: %d scores, %+v", i, len(list), result)
			}
		})
	}
	group.Wait()
}

func TestTheEndCanBeIgnored(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: "Once", Say: " more<|return|>"})
	if g := f.must(t, generation.Request{Prompt: "Once", MaxTokens: 40}); g.result.Finish != reasoning.FinishStop {
		t.Fatalf("%+v", g.result)
	}
	g := f.must(t, generation.Request{Prompt: "Once", MaxTokens: 40, IgnoreEnd: true})
	if g.result.Finish != reasoning.FinishLength || g.result.Usage.Completion != 40 {
		t.Errorf("%+v", g.result)
	}
}

func TestOnlyRawPromptsAreScored(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	for name, change := range map[string]func(*generation.Request){
		"Prompt":    func(q *generation.Request) { q.PromptLogprobs = true; q.Prompt = ""; q.Messages = user("a").Messages },
		"PromptTop": func(q *generation.Request) { q.PromptTop = backend.MaxTopLogprobs + 1 },
	} {
		req := generation.Request{Prompt: "x"}
		change(&req)
		var bad *generation.RequestError
		if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &bad) || bad.Field != name {
			t.Errorf("%s: %v", name, g.err)
		}
	}
}
