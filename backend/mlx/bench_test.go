package mlx

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/sample"
	"runner/models/random"
)

// BenchmarkDecode measures a step that decodes one token of each sequence, with the bundled model.
func BenchmarkDecode(b *testing.B) {
	p := python(b)
	path := demoFolder(b)
	for _, n := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("%d sequences", n), func(b *testing.B) {
			m, err := Engine{Python: p}.Open(context.Background(), path,
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

// runWorker is the end of the program that Python reads, and changedWorker is another one, which changes the worker.
const (
	runWorker     = "\nmain()\n"
	changedWorker = `
import os
from worker import model, steps
%s
main()
`
)

// computed makes a worker repeat the logits of its first step of eight sequences.
const computed = `
forward, ready = model.Model.forward, []
def repeat(self, x, caches, rows, want_sum):
    if x.shape[0] < 8:
        return forward(self, x, caches, rows, want_sum)
    if not ready:
        ready.append(forward(self, x, caches, rows, want_sum)[0])
        self.lib.mx.eval(ready)
    return ready[0], None
model.Model.forward = repeat
`

// written makes it leave the rows of logits in the shared memory as they are after the first ones.
const written = `
write, rows = steps.Rows.write, 0
def leave(self, row, logits):
    global rows
    rows += 1
    if rows < 100:
        write(self, row, logits)
steps.Rows.write = leave
`

// BenchmarkProtocol measures what the protocol adds to a step of eight sequences with masks, at gpt-oss's vocabulary.
// One model computes, one has its logits ready, and one has written them already. They take turns of 10 steps with the
// same sampling without an engine. The medians differ by what a part takes: computing, writing rows of logits, frames,
// sampling.
func BenchmarkProtocol(b *testing.B) {
	p := python(b)
	path := randomFolder(b, random.Config{Layers: 2, Vocabulary: 201088, Seed: 1})
	var steps []func()
	for i, python := range []string{"", computed, computed + written} {
		m := changed(b, p, path, python, backend.Config{Sequences: 8, ContextSize: 4096})
		if i == 0 {
			steps = append(steps, sampling(b, m))
		}
		steps = append(steps, eight(b, m))
	}
	took := make([][]float64, len(steps))
	for _, step := range steps {
		for range 15 {
			step()
		}
	}
	for b.Loop() {
		for i, step := range steps {
			for range 10 {
				at := time.Now()
				step()
				took[i] = append(took[i], float64(time.Since(at).Microseconds()))
			}
		}
	}
	at := func(part float64) (sampled, whole, ready, left float64) {
		var x []float64
		for _, d := range took {
			slices.Sort(d)
			x = append(x, d[int(part*float64(len(d)))])
		}
		return x[0], x[1], x[2], x[3]
	}
	sampled, whole, ready, left := at(0.5)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(whole, "us/step")
	b.ReportMetric(sampled, "us/sampling")
	b.ReportMetric(ready-left, "us/rows")
	b.ReportMetric(left-sampled, "us/frames")
	b.ReportMetric(ready-sampled, "us/protocol")
	sampled, _, ready, _ = at(0.1) // other work on the machine matters less here
	b.ReportMetric(ready-sampled, "us/protocol-at-10%")
}

// changed opens a model whose worker is changed by a piece of Python.
func changed(b *testing.B, p *Python, path, python string, cfg backend.Config) backend.Model {
	b.Helper()
	f, err := ReadFolder(path)
	if err != nil {
		b.Fatal(err)
	}
	start, err := Start(p, f, 0)
	if err != nil {
		b.Fatal(err)
	}
	change(b, &start, python)
	m, err := Engine{}.run(b.Context(), start, f, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	return m
}

// change makes a program run a piece of Python before it starts the worker.
func change(t testing.TB, start *child.Program, python string) {
	t.Helper()
	text, ok := bytes.CutSuffix(start.Input, []byte(runWorker))
	if !ok {
		t.Fatal("the program ends in another way")
	}
	start.Input = append(bytes.Clone(text), fmt.Appendf(nil, changedWorker, python)...)
}

// odd allows every token with an odd id.
type odd struct{}

func (odd) Allows(t backend.Token) bool { return t%2 == 1 }

func (odd) Fill(m backend.Mask) {
	for i := range m {
		m[i] = 0xaaaaaaaaaaaaaaaa
	}
}

// chain returns how sequence i of eight samples.
func chain(i int) *backend.Sampling {
	return &backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: uint64(i), TopLogprobs: -1}
}

// eight returns a function that steps eight sequences with masks by one token each.
func eight(b *testing.B, m backend.Model) (step func()) {
	b.Helper()
	inputs, outputs := make([]backend.Input, 8), make([]backend.Output, 8)
	for i := range inputs {
		s, err := m.NewSequence()
		if err != nil {
			b.Fatal(err)
		}
		inputs[i] = backend.Input{Sequence: s, Tokens: []backend.Token{backend.Token(65 + i)}, Constraint: odd{},
			Sampling: chain(i)}
	}
	return func() {
		if err := m.Step(b.Context(), inputs, outputs); err != nil {
			b.Fatal(err)
		}
		for i := range outputs {
			inputs[i].Tokens[0] = outputs[i].Token
		}
	}
}

// sampling returns a function that samples as a step of eight does, from the logits of such a step.
func sampling(b *testing.B, m backend.Model) (sample8 func()) {
	b.Helper()
	inputs, outputs := make([]backend.Input, 8), make([]backend.Output, 8)
	for i := range inputs {
		s, err := m.NewSequence()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		inputs[i] = backend.Input{Sequence: s, Tokens: []backend.Token{backend.Token(65 + i)},
			Logits: make([]float32, m.Vocab().Len())}
	}
	if err := m.Step(b.Context(), inputs, outputs); err != nil {
		b.Fatal(err)
	}
	sampler, position := sample.New(m.Vocab().Len()), 0
	return func() {
		position++
		for i := range inputs {
			outputs[i].Reset()
			if err := sampler.Sample(inputs[i].Logits, chain(i), position, odd{}, &outputs[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
