// Package bench measures how fast engines read prompts and generate tokens.
//
// The tests have the names, and the results the columns, of llama-bench, the benchmark of llama.cpp, so that its tables
// and tools take them. Package bench adds the time to the first token, the gaps between tokens, and statistics that hold
// for few samples. It does not load models, and package results writes its results.
//
// Rules:
//
//   - Tokens are random, and each step also chooses the most likely token, as an answer does.
//   - Runs of several subjects are interleaved, and each second round goes backwards. What changes the speed of the
//     machine then hits all of them.
//   - Each test runs once without being measured, unless that is switched off.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"runner/backend"
)

// Test is a kind of run. At least one of Prompt and Generate is not 0.
type Test struct {
	// Prompt is how many tokens of a prompt are read, and Generate how many tokens are generated after it.
	Prompt, Generate int
	// Depth is how many tokens the sequence has before the clock starts.
	Depth int
}

// Name returns llama-bench's name of the test, such as "pp512" or "tg128 @ d4096".
func (t Test) Name() string {
	var name string
	switch {
	case t.Generate == 0:
		name = "pp" + strconv.Itoa(t.Prompt)
	case t.Prompt == 0:
		name = "tg" + strconv.Itoa(t.Generate)
	default:
		name = fmt.Sprintf("pp%d+tg%d", t.Prompt, t.Generate)
	}
	if t.Depth > 0 {
		name += " @ d" + strconv.Itoa(t.Depth)
	}
	return name
}

// Tokens returns how many tokens count for the speed.
func (t Test) Tokens() int { return t.Prompt + t.Generate }

// Context returns how long a sequence gets.
func (t Test) Context() int { return max(t.Depth, 1) + t.Prompt + t.Generate }

// Subject is a loaded model that is measured.
type Subject struct {
	// Name names it among the others.
	Name  string
	Model backend.Model
}

// Sample is one measured run.
type Sample struct {
	Start time.Time
	Took  time.Duration
	// First is the time to the first token; 0 for tests without a prompt.
	First time.Duration
	// Gaps are the times between generated tokens.
	Gaps []time.Duration
}

// Result has the samples of a test of a subject, in the order in which they were taken.
type Result struct {
	Subject int
	Test    Test
	Samples []Sample
}

// Speeds returns the tokens a second of each sample.
func (r *Result) Speeds() []float64 {
	list := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		list[i] = float64(r.Test.Tokens()) / s.Took.Seconds()
	}
	return list
}

// Options say how to measure.
type Options struct {
	// Repeat is how many samples each test gets; 0 means 5.
	Repeat int
	// NoWarmUp leaves out the run before the first sample of each test.
	NoWarmUp bool
	// Progress, when not nil, is called before each run with how many are done.
	Progress func(done, all int, s *Subject, t Test)
}

// Run measures tests of subjects. The results are ordered by test, then by subject. When ctx ends it returns its error.
func Run(ctx context.Context, subjects []Subject, tests []Test, o Options) ([]Result, error) {
	if o.Repeat == 0 {
		o.Repeat = 5
	}
	first := 0
	if !o.NoWarmUp {
		first = -1
	}
	results := make([]Result, 0, len(tests)*len(subjects))
	all, done := len(tests)*len(subjects)*(o.Repeat-first), 0
	for _, t := range tests {
		at := len(results)
		for i := range subjects {
			results = append(results, Result{Subject: i, Test: t})
		}
		for round := first; round < o.Repeat; round++ {
			for k := range subjects {
				i := k
				if round&1 == 1 {
					i = len(subjects) - 1 - k
				}
				if o.Progress != nil {
					o.Progress(done, all, &subjects[i], t)
				}
				s, err := measure(ctx, subjects[i].Model, t, uint64(round+1))
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", t.Name(), subjects[i].Name, err)
				}
				if done++; round >= 0 {
					results[at+i].Samples = append(results[at+i].Samples, s)
				}
			}
		}
	}
	return results, nil
}

// errTokens says that a model generated no token. It is a fault of the engine.
var errTokens = errors.New("the engine chose no token")

// measure runs a test once.
func measure(ctx context.Context, m backend.Model, t Test, seed uint64) (Sample, error) {
	q, err := m.NewSequence()
	if err != nil {
		return Sample{}, err
	}
	defer q.Close()
	r := &run{ctx: ctx, model: m, sequence: q, random: rand.New(rand.NewPCG(seed, 0x62656e6368))}
	// A first token would be the first of a prompt, and generating needs one before.
	if depth := t.Depth; depth > 0 || t.Prompt == 0 {
		if err := r.read(max(depth, 1), false); err != nil {
			return Sample{}, err
		}
	}
	s := Sample{Start: time.Now()}
	if t.Prompt > 0 {
		if err := r.read(t.Prompt, true); err != nil {
			return Sample{}, err
		}
		s.First = time.Since(s.Start)
	}
	last := time.Now()
	for range t.Generate {
		if err := r.read(1, true); err != nil {
			return Sample{}, err
		}
		now := time.Now()
		s.Gaps = append(s.Gaps, now.Sub(last))
		last = now
	}
	s.Took = time.Since(s.Start)
	return s, nil
}

// run is the state of a test.
type run struct {
	ctx      context.Context
	model    backend.Model
	sequence backend.Sequence
	random   *rand.Rand
	tokens   []backend.Token
	input    [1]backend.Input
	output   [1]backend.Output
}

// greedy chooses the most likely token and reports no probability.
var greedy = backend.Sampling{TopLogprobs: -1}

// read feeds random tokens in batches, and then chooses a token if that is asked for.
func (r *run) read(count int, choose bool) error {
	batch := r.model.Info().BatchSize
	for count > 0 {
		n := min(count, batch)
		count -= n
		r.tokens = r.tokens[:0]
		for range n {
			r.tokens = append(r.tokens, r.token())
		}
		r.input[0] = backend.Input{Sequence: r.sequence, Tokens: r.tokens}
		if choose && count == 0 {
			r.input[0].Sampling = &greedy
		}
		if err := r.model.Step(r.ctx, r.input[:], r.output[:]); err != nil {
			return err
		}
		if r.input[0].Sampling != nil && r.output[0].Token == backend.NoToken {
			return errTokens
		}
	}
	return nil
}

// token returns a random token that is text.
func (r *run) token() backend.Token {
	v := r.model.Vocab()
	for range 100 {
		if t := backend.Token(r.random.IntN(v.Len())); v.Kind(t) == backend.Normal {
			return t
		}
	}
	return 0 // a vocabulary without text: any token does
}
