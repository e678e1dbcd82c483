package main

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/backend/tokenizer/o200ktest"
	"runner/grammar"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// BenchmarkMaskEndToEnd decodes with and without a schema, alternating. The model has random weights, gpt-oss's
// vocabulary and a step of at least 20 ms. Nearly every token that such a model samples is refused and needs a mask,
// which is the worst case.
func BenchmarkMaskEndToEnd(b *testing.B) {
	path := filepath.Join(b.TempDir(), "random.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 6, Width: 1024, Heads: 16, HeadSize: 64, Experts: 4,
		FeedForward: 1024,
		Vocabulary:  o200ktest.Size, Seed: 1}); err != nil {
		b.Fatal(err)
	}
	m, err := llamacpp.Open(context.Background(), path, backend.Config{Threads: 1, Sequences: 1, ContextSize: 2048})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	v := grammar.NewVocabulary(o200ktest.Tokenizer(b).Vocab(), nil)
	schema := grammar.JSONSchema(
		[]byte(
			`{"type":"array","minItems":100,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":40},` +
				`"kind":{"enum":["circle","square","triangle"]},"size":{"type":"number"},` +
				`"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]{3,12}$"}}},` +
				`"required":["name","kind","size","tags"],"additionalProperties":false}}`))
	var free, held, ratios []float64
	for b.Loop() {
		g, err := grammar.Compile(context.Background(), schema, v)
		if err != nil {
			b.Fatal(err)
		}
		f := decode(b, m, nil)
		h := decode(b, m, g.Matcher())
		free, held, ratios = append(free, f), append(held, h), append(ratios, h/f)
	}
	for _, x := range []struct {
		name   string
		values []float64
	}{{"free-ms/step", free}, {"held-ms/step", held}, {"ratio", ratios}} {
		slices.Sort(x.values)
		b.ReportMetric(x.values[len(x.values)/2], x.name)
	}
}

// decode returns the median duration of a step in milliseconds.
func decode(b *testing.B, m backend.Model, matcher *grammar.Matcher) float64 {
	b.Helper()
	seq, err := m.NewSequence()
	if err != nil {
		b.Fatal(err)
	}
	defer seq.Close()
	sampling := backend.Sampling{Temperature: 1, Seed: 7, TopLogprobs: -1}
	in := []backend.Input{{Sequence: seq, Tokens: []backend.Token{0}, Sampling: &sampling}}
	if matcher != nil {
		in[0].Constraint = matcher
	}
	out := make([]backend.Output, 1)
	var steps []float64
	for range 48 {
		begin := time.Now()
		if err := m.Step(context.Background(), in, out); err != nil {
			b.Fatal(err)
		}
		if matcher != nil && !matcher.Accept(out[0].Token) {
			b.Fatal("the constraint let a wrong token through")
		}
		steps = append(steps, float64(time.Since(begin).Microseconds())/1000)
		in[0].Tokens = []backend.Token{out[0].Token}
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}
