package llamacpp

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/models/demo"
	"runner/models/random"
)

// stepper returns a model and a function that runs steps of one sequence.
func stepper(b *testing.B, c random.Config, cfg backend.Config) (m *Model,
	step func(tokens []backend.Token, p *backend.Sampling) backend.Token) {
	b.Helper()
	m = openModel(b, writeModel(b, c), cfg)
	s, err := m.NewSequence()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // a context that can end, as in real use
	b.Cleanup(cancel)
	in, out := make([]backend.Input, 1), make([]backend.Output, 1)
	return m, func(tokens []backend.Token, p *backend.Sampling) backend.Token {
		if len(s.Tokens())+len(tokens) > m.info.ContextSize {
			if _, err := s.Truncate(0); err != nil {
				b.Fatal(err)
			}
		}
		in[0] = backend.Input{Sequence: s, Tokens: tokens, Sampling: p}
		if err := m.Step(ctx, in, out); err != nil {
			b.Fatal(err)
		}
		return out[0].Token
	}
}

// BenchmarkDecode measures steps of one token. With a tiny model the cost is that of the binding, the engine's
// graph and the sampler.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name  string
		shape random.Config
	}{
		{"tiny", random.Config{Layers: 2}},
		{"tiny, 201088 tokens", random.Config{Layers: 2, Vocabulary: 201088}},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, step := stepper(b, c.shape, backend.Config{ContextSize: 512, Sequences: 1})
			p := &backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: 1}
			feed := []backend.Token{70}
			for range 256 {
				feed[0] = step(feed, p)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				feed[0] = step(feed, p)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkPrefill measures steps of 128 tokens that sample nothing.
func BenchmarkPrefill(b *testing.B) {
	_, step := stepper(b, random.Config{Layers: 2}, backend.Config{ContextSize: 512, Sequences: 1, BatchSize: 128})
	feed := make([]backend.Token, 128)
	for i := range feed {
		feed[i] = backend.Token(i)
	}
	step(feed, nil)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		step(feed, nil)
	}
	b.ReportMetric(128*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkFork measures forking a sequence of 300 tokens and closing the fork.
func BenchmarkFork(b *testing.B) {
	for _, window := range []string{"on", "off"} {
		b.Run("full window "+window, func(b *testing.B) {
			m := openModel(b, writeModel(b, random.Config{Layers: 2}), backend.Config{ContextSize: 512, BatchSize: 512,
				FullWindow: window})
			s, err := m.NewSequence()
			if err != nil {
				b.Fatal(err)
			}
			if err := m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: make([]backend.Token, 300)}},
				make([]backend.Output, 1)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				f, err := s.Fork()
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

// TestStepDoesNotAllocate checks that Step does not allocate per token, with sampling and a context that can end.
func TestStepDoesNotAllocate(t *testing.T) {
	m := openModel(t, writeModel(t, random.Config{Layers: 2}), backend.Config{ContextSize: 2048, Sequences: 2})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	in, out := make([]backend.Input, 2), make([]backend.Output, 2)
	p := &backend.Sampling{Temperature: 1, TopK: 20, TopP: 0.9, Seed: 9, TopLogprobs: 5}
	feed := [2][]backend.Token{{70}, {71}}
	for i := range in {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in[i] = backend.Input{Sequence: s, Tokens: feed[i], Sampling: p}
	}
	step := func() {
		if err := m.Step(ctx, in, out); err != nil {
			t.Fatal(err)
		}
		feed[0][0], feed[1][0] = out[0].Token, out[1].Token
	}
	for range 600 {
		step()
	}
	// The slices of tokens are doubled now and then.
	if n := testing.AllocsPerRun(200, step); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// BenchmarkDecodeTogether measures steps of several sequences on the bundled model, each between 100 and 300 tokens
// long.
func BenchmarkDecodeTogether(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, n := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprintf("threads=%d/sequences=%d", threads, n), func(b *testing.B) {
				m := openModel(b, filepath.Join("..", "..", "models", "demo", "demo.gguf"),
					backend.Config{ContextSize: 512, Sequences: 2 * n, Threads: threads})
				in, out := make([]backend.Input, n), make([]backend.Output, n)
				p := &backend.Sampling{Temperature: 0.8, Seed: 1}
				for i := range in {
					s, err := m.NewSequence()
					if err != nil {
						b.Fatal(err)
					}
					in[i].Sequence = s
				}
				step := func() {
					if err := m.Step(b.Context(), in, out); err != nil {
						b.Fatal(err)
					}
				}
				fill := func() {
					for i := range in {
						if _, err := in[i].Sequence.Truncate(0); err != nil {
							b.Fatal(err)
						}
						in[i].Tokens, in[i].Sampling = in[i].Tokens[:0], p
						for j := range 100 {
							in[i].Tokens = append(in[i].Tokens, backend.Token((i+1)*(j+3)%900))
						}
					}
					for i := range in {
						if err := m.Step(b.Context(), in[i:i+1], out[i:i+1]); err != nil {
							b.Fatal(err)
						}
						in[i].Tokens = append(in[i].Tokens[:0], out[i].Token)
					}
				}
				fill()
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if i%200 == 199 {
						b.StopTimer()
						fill()
						b.StartTimer()
					}
					step()
					for j := range in {
						in[j].Tokens[0] = out[j].Token
					}
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// BenchmarkEngines measures the bundled model's decoding, alone and with eight sequences, on the compiled-in engine and
// on one in shared libraries.
func BenchmarkEngines(b *testing.B) {
	path, err := demo.Path(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	own, err := BuiltIn()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range []*Engine{own, folderEngine(b)} {
		for _, count := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/sequences=%d", e.Version(), count), func(b *testing.B) {
				m, err := e.Open(b.Context(), path, backend.Config{ContextSize: 1024, Sequences: count, Threads: 1})
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				in, out := make([]backend.Input, count), make([]backend.Output, count)
				for i := range in {
					s, err := m.NewSequence()
					if err != nil {
						b.Fatal(err)
					}
					in[i] = backend.Input{Sequence: s, Tokens: kernelstest.Tokens(16, i), Sampling: &backend.Sampling{}}
				}
				tokens := 0
				for b.Loop() {
					if err := m.Step(b.Context(), in, out); err != nil {
						b.Fatal(err)
					}
					for i := range in {
						if in[i].Tokens = []backend.Token{max(out[i].Token, 0)}; len(in[i].Sequence.Tokens()) > 500 {
							if _, err := in[i].Sequence.Truncate(16); err != nil {
								b.Fatal(err)
							}
						}
					}
					tokens += count
				}
				b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
