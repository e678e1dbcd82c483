package sample

import (
	"math/rand/v2"
	"testing"
	"time"

	"runner/backend"
)

const o200k = 201088

// modelLogits returns logits distributed like a language model's: most about 18 below the best, a few close to it.
func modelLogits(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(r.NormFloat64()*2.5 - 2)
	}
	for range 20 {
		l[r.IntN(n)] = float32(10 + r.Float64()*6)
	}
	return l
}

var chains = []struct {
	name string
	p    backend.Sampling
}{
	{"greedy", backend.Sampling{TopLogprobs: -1}},
	{"default", backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TopLogprobs: -1}},
	{"default+logprob", backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}},
	{"default+top20", backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TopLogprobs: 20}},
	{"gpt-oss", backend.Sampling{Temperature: 1, TopP: 1, TopLogprobs: -1}},
	{"gpt-oss+logprob", backend.Sampling{Temperature: 1, TopP: 1}},
	{"top-p", backend.Sampling{Temperature: 0.7, TopP: 0.9, TopLogprobs: -1}},
	{"min-p", backend.Sampling{Temperature: 0.7, MinP: 0.05, TopLogprobs: -1}},
	{"penalties", backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TopLogprobs: -1,
		RepetitionPenalty: 1.1, PenaltyWindow: 256}},
	{"typical", backend.Sampling{Temperature: 0.8, TypicalP: 0.95, TopLogprobs: -1}},
}

// BenchmarkSample uses a vocabulary as large as o200k_harmony. It rotates through four vectors so that they are not
// in the first-level cache, as in real use.
func BenchmarkSample(b *testing.B) {
	var logits [4][]float32
	for i := range logits {
		logits[i] = modelLogits(o200k, uint64(i))
	}
	seen := make([]backend.Token, 1000)
	for i := range seen {
		seen[i] = backend.Token(i * 7)
	}
	for _, chain := range chains {
		b.Run(chain.name, func(b *testing.B) {
			s, out, p := New(o200k), backend.Output{}, chain.p
			p.Seen = seen
			b.ReportAllocs()
			best := time.Hour
			for i := 0; b.Loop(); i++ {
				p.Seed = uint64(i)
				start := time.Now()
				if err := s.Sample(logits[i%4], &p, len(seen), nil, &out); err != nil {
					b.Fatal(err)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Microseconds()), "best-us/op") // the minimum is stable on a busy machine
		})
	}
}
