// Package bench measures how fast engines read prompts and generate tokens.
//
// The tests have the names, and the results the columns, of llama-bench, the benchmark of llama.cpp, so that its tables
// and tools take them. Package bench adds the time to the first token, the gaps between tokens, and statistics that
// hold for few samples. It does not load models, and package results writes its rows.
//
// Rules:
//
//   - Tokens are random, and each step also chooses the most likely token, as an answer does. An engine that streams
//     ahead of its caller ([backend.Paced]) gets the chosen tokens back instead, because it would begin a new stream
//     for each other one.
//   - Runs of several subjects are interleaved, and each second round goes backwards. What changes the speed of the
//     machine then hits all of them.
//   - Each test runs once without being measured, unless that is switched off.
//   - A run begins when no subject computes any more ([Options.Settle]).
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"runner/backend"
	"runner/bench/machine"
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

// Sample is one measured run.
type Sample struct {
	Start time.Time
	Took  time.Duration
	// Tokens is how many tokens count for the speed.
	Tokens int
	// First is the time to the first token; 0 for tests without a prompt.
	First time.Duration
	// Answer is the time to the first text of the answer; 0 if there was none, and for tests of tokens.
	Answer time.Duration
	// Gaps are the times between generated tokens, or between the pieces of an answer's text that a client gets.
	Gaps []time.Duration
	// Bandwidth is how many bytes a second the processor read from memory, the mean of before and after; 0 if that was
	// not measured.
	Bandwidth float64
	// Before and After are the state of the machine directly before and after what counts.
	Before, After machine.State
}

// Options say how to measure.
type Options struct {
	// Repeat is how many samples each test gets; 0 means 5.
	Repeat int
	// NoWarmUp leaves out the run before the first sample of each test.
	NoWarmUp bool
	// Progress, when not nil, is called before each run with how many of all are done, and the name of the test and of
	// its subject.
	Progress func(done, all int, test, subject string)
	// Before and After, when not nil, read the state of the machine directly before and after what counts of each run.
	Before, After func() machine.State
	// Bandwidth, when not nil, measures how many bytes a second the processor reads from memory. [Run] has it before and
	// after each run that only generates, because other programs and other virtual machines change it all the time. It
	// returns 0 if it cannot measure.
	Bandwidth func() float64
	// Settle, when not nil, is called before each run, and before the bandwidth is measured after one. It waits until no
	// subject computes, and reports whether that is so. Threads of some engines look for work for a third of a second
	// after a run. They would take processors from what comes next, and from one engine more than from another.
	Settle func(ctx context.Context) bool
}

// settle calls Settle.
func (o *Options) settle(ctx context.Context) bool { return o.Settle == nil || o.Settle(ctx) }

// sample runs a workload once, with what is measured beside it.
func (o *Options) sample(ctx context.Context, w *Workload, round int) (Sample, error) {
	beside := o.Bandwidth != nil && w.Test.Generate > 0 && w.Test.Prompt == 0 && round >= 0
	settled := o.settle(ctx)
	var rate float64
	if beside {
		rate = o.Bandwidth()
	}
	var before machine.State
	s, err := w.Measure(ctx, round, func() {
		if o.Before != nil {
			before = o.Before()
		}
	})
	if s.Before = before; o.After != nil {
		s.After = o.After()
	}
	// What is read beside other threads says too little.
	if err != nil || !beside || !settled || !o.settle(ctx) {
		return s, err
	}
	if after := o.Bandwidth(); rate > 0 && after > 0 {
		s.Bandwidth = (rate + after) / 2
	}
	return s, nil
}

// Workload is what is measured of a subject. Those with the same Group stand together and take turns.
type Workload struct {
	Name, Group string
	Subject     int
	// Test is the test of tokens, or zero if the workload is not one. Around tests that only generate, the bandwidth of
	// memory is measured.
	Test Test
	// Crowded says that it runs threads of its own beside those of the engine, so that threads wait in any case.
	Crowded bool
	// Timed says that its times are compared with those of its group, and not its speeds: it generates another number of
	// tokens on purpose, so the question is how long it takes.
	Timed bool
	// Measure runs it once. round is -1 for the run that does not count, and the same for all workloads that take turns.
	// Measure calls begin directly before what counts.
	Measure func(ctx context.Context, round int, begin func()) (Sample, error)
}

// Run measures tests of subjects. The rows are ordered by test, then by subject. When ctx ends, or a run fails, it
// returns the error with what was measured before.
func Run(ctx context.Context, subjects []Subject, tests []Test, o Options) ([]Row, error) {
	var list []Workload
	for _, t := range tests {
		for i := range subjects {
			list = append(list, Workload{Name: t.Name(), Group: t.Name(), Subject: i, Test: t,
				Measure: func(ctx context.Context, round int, begin func()) (Sample, error) {
					return measure(ctx, subjects[i].Model, t, uint64(round+1), begin)
				}})
		}
	}
	return Measure(ctx, subjects, list, o)
}

// Measure measures workloads. The rows are in their order. When ctx ends, or a run fails, it returns the error with
// what was measured before. Some rows may then have no samples, which [Finish] leaves out.
func Measure(ctx context.Context, subjects []Subject, list []Workload, o Options) (rows []Row, err error) {
	if o.Repeat == 0 {
		o.Repeat = 5
	}
	first := 0
	if !o.NoWarmUp {
		first = -1
	}
	samples := make([][]Sample, len(list))
	defer func() {
		for i, w := range list {
			rows = append(rows, NewRow(subjects, w, samples[i]))
		}
	}()
	all, done := len(list)*(o.Repeat-first), 0
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].Group == list[from].Group {
			to++
		}
		for round := first; round < o.Repeat; round++ {
			for k := range to - from {
				i := from + k
				if round&1 == 1 {
					i = to - 1 - k
				}
				w := &list[i]
				subject := subjects[w.Subject].Row.Subject
				if o.Progress != nil {
					o.Progress(done, all, w.Name, subject)
				}
				s, err := o.sample(ctx, w, round)
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", w.Name, subject, err)
				}
				if done++; round >= 0 {
					samples[i] = append(samples[i], s)
				}
			}
		}
		from = to
	}
	return nil, nil
}

// errTokens says that a model generated no token. It is a fault of the engine.
var errTokens = errors.New("the engine chose no token")

// measure runs a test once. It calls begin before the clock starts.
func measure(ctx context.Context, m backend.Model, t Test, seed uint64, begin func()) (Sample, error) {
	q, err := m.NewSequence()
	if err != nil {
		return Sample{}, err
	}
	defer q.Close()
	r := &run{ctx: ctx, model: m, sequence: q, chosen: backend.NoToken, random: rand.New(rand.NewPCG(seed, 0x62656e6368))}
	// A first token would be the first of a prompt, and generating needs one before.
	if depth := t.Depth; depth > 0 || t.Prompt == 0 {
		if err := r.read(max(depth, 1), false); err != nil {
			return Sample{}, err
		}
	}
	begin()
	s := Sample{Start: time.Now(), Tokens: t.Tokens()}
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
	chosen   backend.Token // by the last step; NoToken if it chose none
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
		if err := backend.StepAll(r.ctx, r.model, r.input[:], r.output[:]); err != nil {
			return err
		}
		if r.chosen = backend.NoToken; r.input[0].Sampling != nil {
			if r.chosen = r.output[0].Token; r.chosen == backend.NoToken {
				return errTokens
			}
		}
	}
	return nil
}

// token returns the next token to feed: a random one that is text, or the chosen one.
func (r *run) token() backend.Token {
	v := r.model.Vocab()
	if r.model.Capabilities().Paced && r.chosen != backend.NoToken && v.Kind(r.chosen) == backend.Normal {
		return r.chosen
	}
	for range 100 {
		if t := backend.Token(r.random.IntN(v.Len())); v.Kind(t) == backend.Normal {
			return t
		}
	}
	return 0 // a vocabulary without text: any token does
}
