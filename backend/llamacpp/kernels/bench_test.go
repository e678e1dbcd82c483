package kernels_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/models/random"
)

// BenchmarkLargeModel measures two layers in the shape of gpt-oss-20b with the kernels and the engine's:
// a prompt of 128 tokens, then single tokens.
func BenchmarkLargeModel(b *testing.B) {
	c := random.Full20B
	c.Layers, c.Vocabulary = 2, 4096
	path := writeModel(b, c)
	defer kernelstest.Use(kernels.Offer())
	for _, threads := range []int{1, 2} {
		for _, instructions := range append([]string{""}, kernelstest.Names()...) {
			b.Run(fmt.Sprintf("threads=%d/kernels=%s", threads, cmp.Or(instructions, "engine")), func(b *testing.B) {
				kernelstest.Use(instructions)
				m := openModel(b, path, backend.Config{ContextSize: 1024, Sequences: 1, BatchSize: 128, Threads: threads})
				s, err := m.NewSequence()
				if err != nil {
					b.Fatal(err)
				}
				prompt := kernelstest.Tokens(128, 1)
				feed := func(tokens []backend.Token) time.Duration {
					began := time.Now()
					in, out := []backend.Input{{Sequence: s, Tokens: tokens}}, make([]backend.Output, 1)
					if err := m.Step(b.Context(), in, out); err != nil {
						b.Fatal(err)
					}
					return time.Since(began)
				}
				var prefill, decode time.Duration
				for range b.N {
					if _, err := s.Truncate(0); err != nil {
						b.Fatal(err)
					}
					prefill += feed(prompt)
					for i := range 8 {
						decode += feed(prompt[i : i+1])
					}
				}
				b.ReportMetric(float64(128*b.N)/prefill.Seconds(), "prefill-t/s")
				b.ReportMetric(float64(8*b.N)/decode.Seconds(), "decode-t/s")
			})
		}
	}
}
