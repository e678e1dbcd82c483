package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/chattemplate"
	"runner/generation"
	"runner/models/demo"
	"runner/models/random"
	"runner/models/random/randomtest"
	"runner/reasoning"
	"runner/runner"
)

// thinker makes a model reason, answer and summarize as scripted. It computes every step as ever, and its constraints
// leave only the script's token.
type thinker struct {
	backend.Model
	turn, summary []backend.Token
	// start is the length of the prompt, and asked that of the prompt of the summary. 0 means not known yet.
	start, asked int
}

func (m *thinker) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	list := slices.Clone(inputs)
	for i := range list {
		in := &list[i]
		if in.Sampling == nil {
			continue
		}
		at := len(in.Sequence.Tokens()) + len(in.Tokens)
		if m.start == 0 {
			m.start = at
		}
		script, from := m.turn, m.start
		if !m.inTurn(slices.Concat(in.Sequence.Tokens(), in.Tokens)) {
			if m.asked == 0 {
				m.asked = at
			}
			script, from = m.summary, m.asked
		}
		says := func(at int) backend.Constraint { return only(script[min(at-from, len(script)-1)]) }
		in.Constraint, in.Drafts = says(at), slices.Clone(in.Drafts)
		for k := range in.Drafts {
			in.Drafts[k].Constraint = says(at + k + 1)
		}
	}
	return m.Model.Step(ctx, list, outputs)
}

// Tokenize makes long texts as short as a real vocabulary does, in which a token has about four bytes. The vocabulary
// of a random model has a token for each byte.
func (m *thinker) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	tokens, err := m.Model.Tokenize(nil, text)
	if err != nil || len(text) < 40 || len(tokens) < len(text)/2 {
		return append(dst, tokens...), err
	}
	for i := 0; i < len(tokens); i += 4 {
		dst = append(dst, tokens[i])
	}
	return dst, nil
}

// inTurn reports whether a sequence is the turn, and not its summary.
func (m *thinker) inTurn(tokens []backend.Token) bool {
	said := tokens[m.start:]
	return len(said) <= len(m.turn) && slices.Equal(said, m.turn[:len(said)])
}

// BenchmarkSummary compares requests with a summary of the reasoning and without in pairs. The answer has 12 tokens. It
// reports the median ratio of their times.
func BenchmarkSummary(b *testing.B) {
	file := func(c random.Config) func(*testing.B) string {
		return func(b *testing.B) string {
			path := filepath.Join(b.TempDir(), "model.gguf")
			if err := randomtest.WriteFile(path, c); err != nil {
				b.Fatal(err)
			}
			return path
		}
	}
	for _, c := range []struct {
		name string
		path func(*testing.B) string
	}{
		{"bundled", func(b *testing.B) string {
			path, err := demo.Path(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return path
		}},
		{"experts", file(random.Config{Layers: 6, Width: 2880, Heads: 64, KVHeads: 8, HeadSize: 64, Experts: 32, Used: 4,
			FeedForward: 2880, Vocabulary: 33536, Context: 8192})},
	} {
		b.Run(c.name, func(b *testing.B) {
			model, err := llamacpp.Open(context.Background(), c.path(b), backend.Config{ContextSize: 2048, Sequences: 4})
			if err != nil {
				b.Fatal(err)
			}
			m := &thinker{Model: model}
			r, err := runner.New(m, runner.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			for _, reasoned := range []int{50, 150, 400} {
				for _, summary := range []int{10, 25, 40} {
					b.Run(fmt.Sprintf("reasoning-%d/summary-%d", reasoned, summary), func(b *testing.B) {
						m.script(b, reasoned, summary)
						benchmarkSummary(b, r, m, reasoned, summary)
					})
				}
			}
		})
	}
}

// script sets what the model says. Its words differ from one another, so that no guess is right.
func (m *thinker) script(b *testing.B, reasoned, summary int) {
	rng := rand.New(rand.NewPCG(uint64(reasoned), uint64(summary)))
	special := func(name string) backend.Token {
		id, ok := m.Vocab().Special(name)
		if !ok {
			b.Fatal("no token " + name)
		}
		return id
	}
	text := func(s string) []backend.Token {
		ids, err := m.Tokenize(nil, s)
		if err != nil {
			b.Fatal(err)
		}
		return ids
	}
	words := func(n int) (tokens []backend.Token) {
		for len(tokens) < n {
			id := backend.Token(rng.IntN(m.Vocab().Len()))
			if m.Vocab().Kind(id) == backend.Normal {
				tokens = append(tokens, id)
			}
		}
		return tokens
	}
	message := func(channel string, n int, end string) []backend.Token {
		return slices.Concat([]backend.Token{special("<|channel|>")}, text(channel),
			[]backend.Token{special("<|message|>")}, words(n), []backend.Token{special(end)})
	}
	m.turn = slices.Concat(message("analysis", reasoned, "<|end|>"), []backend.Token{special("<|start|>")},
		text("assistant"), message("final", 12, "<|return|>"))
	// The prompt of a summary ends in the header of its answer.
	m.summary = append(words(summary), special("<|return|>"))
}

func benchmarkSummary(b *testing.B, r *runner.Runner, m *thinker, reasoned, summary int) {
	ask := func(v reasoning.Visibility) time.Duration {
		m.start, m.asked = 0, 0
		begun := time.Now()
		req := generation.Request{Visibility: v, MaxTokens: 1000,
			Messages: []chattemplate.Message{{Role: chattemplate.User, Content: "Think."}}}
		for e, err := range r.Generate(b.Context(), req, generation.Unobserved{}) {
			if err != nil {
				b.Fatal(err)
			}
			if e.Kind == reasoning.Done {
				u := e.Result.Usage
				if u.Reasoning < reasoned || v == reasoning.VisibilitySummary && u.Summary != summary+1 {
					b.Fatalf("%d tokens of reasoning and %d of summary", u.Reasoning, u.Summary)
				}
				return time.Since(begun)
			}
		}
		b.Fatal("no end")
		return 0
	}
	ask(reasoning.VisibilitySummary) // reads the file
	var ratios []float64
	for b.Loop() {
		var took [2]time.Duration
		for i := range took {
			which := (i + len(ratios)) % 2
			took[which] = ask([]reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary}[which])
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "times")
	b.ReportMetric(0, "ns/op")
}
