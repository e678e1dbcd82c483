package mlx

import (
	"context"
	"fmt"
	"testing"

	"runner/backend"
)

// BenchmarkDecode measures a step that decodes one token of each sequence, with the bundled model.
func BenchmarkDecode(b *testing.B) {
	p, err := testPython()
	if err != nil {
		b.Skipf("no MLX here: %v", err)
	}
	path := demoFolder(b)
	for _, n := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("%d sequences", n), func(b *testing.B) {
			m, err := Engine{Python: p, Options: Options{Cache: b.TempDir()}}.Open(context.Background(), path,
				backend.Config{Sequences: n, ContextSize: 4096})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			inputs, outputs := make([]backend.Input, n), make([]backend.Output, n)
			for i := range inputs {
				s, err := m.NewSequence()
				if err != nil {
					b.Fatal(err)
				}
				tokens, err := m.Tokenize(nil, "What is 17 + 25? Think about it step by step.")
				if err != nil {
					b.Fatal(err)
				}
				inputs[i] = backend.Input{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{TopLogprobs: -1}}
			}
			step := func() {
				if len(inputs[0].Sequence.Tokens()) > 4000 {
					for i := range inputs {
						if _, err := inputs[i].Sequence.Truncate(0); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := m.Step(context.Background(), inputs, outputs); err != nil {
					b.Fatal(err)
				}
				for i := range inputs {
					inputs[i].Tokens = []backend.Token{outputs[i].Token}
				}
			}
			step()
			step()
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
