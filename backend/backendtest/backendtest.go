// Package backendtest is the conformance suite for backends. It depends on package backend only, not on any
// implementation.
//
// Its main rule: the logits after a sequence depend on the tokens of the sequence alone. They must not depend on
// how the tokens were split into chunks, on the other sequences in a step, or on earlier forks, truncations and
// cancelled steps. Backends that return logits are compared on all of them; others on the log probabilities of the
// most likely tokens.
//
// Results are equal if they differ by no more than a tolerance. Correct engines differ a little: kernels add in an
// order that depends on the batch, activations and keys are rounded to few bits, and a router near a tie can choose
// another expert. These differences are far smaller than the effect of one missing, extra or misplaced token. The
// suite measures that effect on the same model and requires it to be at least ten times the tolerance, so a
// tolerance that is too wide makes the suite fail.
package backendtest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"runner/backend"
)

// Opener opens a fresh model for one test, with at least the ContextSize, Sequences, CacheTokens and BatchSize of
// cfg, which are small. The suite closes it. The trained context must be at least 1,024 tokens.
type Opener func(t *testing.T, cfg backend.Config) backend.Model

// Options adapt the suite to a backend.
type Options struct {
	// Tolerance is the largest difference between two logits that counts as equal, as a multiple of the logits'
	// standard deviation. 0 requires identical bits.
	Tolerance float64
	// Coarse skips the test that the tolerance is far below the effect of an error, for kernels that round too
	// much. Run the suite with finer kernels as well.
	Coarse bool
	// Skip has the names of tests that do not apply to the backend, each with the reason.
	Skip map[string]string
}

// Run runs the suite.
func Run(t *testing.T, open Opener, o Options) {
	for _, c := range []struct {
		name string
		test func(h *harness)
		cfg  backend.Config
	}{
		{"Info", testInfo, backend.Config{ContextSize: 256, Sequences: 3, BatchSize: 64}},
		{"Vocabulary", testVocabulary, backend.Config{ContextSize: 256, Sequences: 1}},
		{"TokenizeRoundTrip", testRoundTrip, backend.Config{ContextSize: 256, Sequences: 1}},
		{"TokenizeNeverControl", testNeverControl, backend.Config{ContextSize: 256, Sequences: 1}},
		{"ToleranceIsSharp", testTolerance, backend.Config{ContextSize: 1024, Sequences: 4}},
		{"Chunks", testChunks, backend.Config{ContextSize: 1024, Sequences: 2, BatchSize: 512}},
		{"Batched", testBatched, backend.Config{ContextSize: 512, Sequences: 5, BatchSize: 256}},
		{"Decoding", testDecoding, backend.Config{ContextSize: 1024, Sequences: 2}},
		{"Truncate", testTruncate, backend.Config{ContextSize: 1024, Sequences: 2}},
		{"Fork", testFork, backend.Config{ContextSize: 1024, Sequences: 4}},
		{"ForkOfForks", testForkOfForks, backend.Config{ContextSize: 1024, Sequences: 6, BatchSize: 128}},
		{"RandomOperations", testRandomOperations, backend.Config{ContextSize: 600, Sequences: 4, BatchSize: 128}},
		{"Canceled", testCanceled, backend.Config{ContextSize: 1024, Sequences: 4}},
		{"CanceledInFlight", testCanceledInFlight, backend.Config{ContextSize: 1024, Sequences: 2, BatchSize: 1024}},
		{"Errors", testErrors, backend.Config{ContextSize: 128, Sequences: 3, BatchSize: 32}},
		{"ContextFull", testContextFull, backend.Config{ContextSize: 256, Sequences: 2}},
		{"CacheFull", testCacheFull, backend.Config{ContextSize: 512, Sequences: 4, CacheTokens: 512}},
		{"NoSequence", testNoSequence, backend.Config{ContextSize: 128, Sequences: 3}},
		{"Closed", testClosed, backend.Config{ContextSize: 128, Sequences: 2}},
		{"Leaks", testLeaks, backend.Config{ContextSize: 256, Sequences: 8, BatchSize: 64}},
		{"Arrivals", testArrivals, backend.Config{ContextSize: 256, Sequences: 4}},
		{"Greedy", testGreedy, backend.Config{ContextSize: 256, Sequences: 2}},
		{"TopLogprobs", testTopLogprobs, backend.Config{ContextSize: 256, Sequences: 2}},
		{"Targets", testTargets, backend.Config{ContextSize: 256, Sequences: 3}},
		{"Drafts", testDrafts, backend.Config{ContextSize: 256, Sequences: 4}},
		{"Seeds", testSeeds, backend.Config{ContextSize: 256, Sequences: 4}},
		{"Penalties", testPenalties, backend.Config{ContextSize: 256, Sequences: 2}},
		{"Constraint", testConstraint, backend.Config{ContextSize: 256, Sequences: 2}},
		{"NothingAllowed", testNothingAllowed, backend.Config{ContextSize: 256, Sequences: 3}},
		{"Embeddings", testEmbeddings, backend.Config{ContextSize: 256, Sequences: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if o.Coarse && c.name == "ToleranceIsSharp" {
				t.Skip("these kernels round too much for a tolerance that finds every error")
			}
			if why := o.Skip[c.name]; why != "" {
				t.Skip(why)
			}
			m := open(t, c.cfg)
			defer m.Close()
			c.test(&harness{T: t, m: m, v: m.Vocab(), info: m.Info(), caps: m.Capabilities(), tolerance: o.Tolerance})
		})
	}
}

// harness drives one model.
type harness struct {
	*testing.T
	m         backend.Model
	v         *backend.Vocab
	info      backend.Info
	caps      backend.Capabilities
	tolerance float64
}

// tokens returns n random ordinary tokens.
func (h *harness) tokens(seed uint64, n int) []backend.Token {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]backend.Token, n)
	for i := range out {
		for {
			out[i] = backend.Token(r.IntN(h.v.Len()))
			if h.v.Kind(out[i]) == backend.Normal && !h.v.EndsGeneration(out[i]) {
				break
			}
		}
	}
	return out
}

func (h *harness) sequence() backend.Sequence {
	h.Helper()
	s, err := h.m.NewSequence()
	if err != nil {
		h.Fatalf("NewSequence: %v", err)
	}
	return s
}

func (h *harness) fork(s backend.Sequence) backend.Sequence {
	h.Helper()
	f, err := s.Fork()
	if err != nil {
		h.Fatalf("Fork of %d tokens: %v", len(s.Tokens()), err)
	}
	return f
}

// truncate shortens s and checks the result against the contract.
func (h *harness) truncate(s backend.Sequence, n int) int {
	h.Helper()
	before := len(s.Tokens())
	kept, err := s.Truncate(n)
	if err != nil {
		h.Fatalf("Truncate(%d) of %d tokens: %v", n, before, err)
	}
	if kept > n && kept > before || kept > min(n, before) || len(s.Tokens()) != kept {
		h.Fatalf("Truncate(%d) of %d tokens kept %d and the sequence has %d", n, before, kept, len(s.Tokens()))
	}
	if want := min(n, before); h.caps.ExactTruncate && kept != want {
		h.Fatalf("Truncate(%d) of %d tokens kept %d although the model has ExactTruncate", n, before, kept)
	}
	return kept
}

// result is a model's output after a sequence.
type result struct {
	logits []float32
	top    []backend.TokenLogprob
	token  backend.Token
}

// input returns an input that asks for everything that can be compared.
func (h *harness) input(s backend.Sequence, tokens []backend.Token) backend.Input {
	in := backend.Input{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{TopLogprobs: backend.MaxTopLogprobs}}
	if h.caps.Logits {
		in.Logits = make([]float32, h.v.Len())
	}
	return in
}

func resultOf(in *backend.Input, out *backend.Output) result {
	return result{in.Logits, append([]backend.TokenLogprob(nil), out.Top...), out.Token}
}

// feed appends tokens in chunks of at most size, or the batch size if size is 0, and returns the output after the
// last.
func (h *harness) feed(s backend.Sequence, tokens []backend.Token, size int) result {
	h.Helper()
	if size <= 0 || size > h.info.BatchSize {
		size = h.info.BatchSize
	}
	out := make([]backend.Output, 1)
	for len(tokens) > size {
		h.step([]backend.Input{{Sequence: s, Tokens: tokens[:size]}}, out)
		tokens = tokens[size:]
	}
	in := []backend.Input{h.input(s, tokens)}
	h.step(in, out)
	return resultOf(&in[0], &out[0])
}

// fresh returns the output after tokens in a new sequence.
func (h *harness) fresh(tokens []backend.Token) result {
	h.Helper()
	s := h.sequence()
	defer s.Close()
	return h.feed(s, tokens, 0)
}

func (h *harness) step(in []backend.Input, out []backend.Output) {
	h.Helper()
	before := make([]int, len(in))
	for i := range in {
		before[i] = len(in[i].Sequence.Tokens())
	}
	if err := backend.StepAll(context.Background(), h.m, in, out); err != nil {
		h.Fatalf("Step: %v", err)
	}
	for i := range in {
		got := in[i].Sequence.Tokens()
		if len(got) != before[i]+len(in[i].Tokens)+len(out[i].More) {
			h.Fatalf("after feeding %d tokens and %d right drafts to %d the sequence has %d", len(in[i].Tokens),
				len(out[i].More), before[i], len(got))
		}
		if in[i].Sampling == nil && out[i].Token != backend.NoToken {
			h.Fatalf("input %d asked for no token and got %d", i, out[i].Token)
		}
	}
}

// difference returns the largest difference between two results, as a multiple of the logits' standard deviation.
func difference(a, b result) float64 {
	if a.logits != nil && b.logits != nil {
		most, sum, squares := 0.0, 0.0, 0.0
		for i := range a.logits {
			x, y := float64(a.logits[i]), float64(b.logits[i])
			if math.IsNaN(x) || math.IsNaN(y) {
				return math.NaN()
			}
			most = max(most, math.Abs(x-y))
			sum += y
			squares += y * y
		}
		n := float64(len(b.logits))
		return most / math.Sqrt(max(squares/n-sum/n*sum/n, 1e-12))
	}
	// Without all logits the deviation is unknown. The range of the best twenty is used instead.
	at := map[backend.Token]float64{}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range b.top {
		at[p.Token] = float64(p.Logprob)
		low, high = min(low, float64(p.Logprob)), max(high, float64(p.Logprob))
	}
	most, common := 0.0, 0
	for _, p := range a.top {
		if y, ok := at[p.Token]; ok {
			most = max(most, math.Abs(float64(p.Logprob)-y))
			common++
		}
	}
	if common*2 < len(b.top) {
		return math.Inf(1)
	}
	return most / max(high-low, 1e-6)
}

// same fails the test when two results differ by more than the tolerance.
func (h *harness) same(got, want result, format string, args ...any) {
	h.Helper()
	if d := difference(got, want); !(d <= h.tolerance) {
		h.Errorf(format+": logits differ by %.4g standard deviations, more than %g", append(args, d, h.tolerance)...)
	}
}

// wantError fails the test unless err wraps want.
func (h *harness) wantError(err, want error, what string) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantInput fails the test unless err is an InputError for input index that wraps want.
func (h *harness) wantInput(err, want error, index int, what string) {
	h.Helper()
	h.wantError(err, want, what)
	var e *backend.InputError
	if !errors.As(err, &e) || e.Index != index {
		h.Errorf("%s: error %v, want an InputError for input %d", what, err, index)
	}
}
