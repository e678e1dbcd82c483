package backendtest

import (
	"context"
	"math"
	"slices"

	"runner/backend"
)

// testTargets scores the tokens of a sequence in chunks and compares each score with the model's output when the
// sequence is fed token by token. Another sequence decodes in the same steps and must not be affected.
func testTargets(h *harness) {
	tokens := h.tokens(11, 90)
	if !h.caps.Targets {
		s := h.sequence()
		if err := h.unchanged(context.Background(), []backend.Input{{Sequence: s, Tokens: tokens[:1],
			Targets: tokens[1:2]}}); err == nil {
			h.Error("targets that are not supported: no error")
		}
		return
	}
	best := make([]result, len(tokens))
	alone := h.sequence()
	for i := range tokens {
		best[i] = h.feed(alone, tokens[i:i+1], 0)
	}
	alone.Close()
	for _, size := range []int{1, 7, backend.MaxTargets} {
		scored, other := h.sequence(), h.sequence()
		out := make([]backend.Output, 2)
		for from := 0; from < len(tokens)-1; from += size {
			n := min(size, len(tokens)-1-from)
			in := []backend.Input{
				{Sequence: scored, Tokens: tokens[from : from+n], Targets: tokens[from+1 : from+n+1], TargetTop: 3},
				h.input(other, tokens[from:from+1]),
			}
			h.step(in, out)
			if len(out[0].Scores) != n {
				h.Fatalf("%d targets have %d scores", n, len(out[0].Scores))
			}
			for i := range out[0].Scores {
				h.sameScore(&out[0].Scores[i], &best[from+i], tokens[from+i+1])
			}
		}
		h.same(h.feed(scored, tokens[len(tokens)-1:], 0), best[len(tokens)-1], "after scoring in pieces of %d", size)
		scored.Close()
		other.Close()
	}
	h.refusedTargets(tokens)
}

// sameScore compares the score of a target with the model's own output at that position.
func (h *harness) sameScore(got *backend.TargetScore, want *result, target backend.Token) {
	h.Helper()
	if len(got.Top) != 3 || got.Top[0].Logprob < got.Top[2].Logprob {
		h.Fatalf("the best three are %v", got.Top)
	}
	// The suite's tolerance is in standard deviations of the logits, which are a few units wide.
	near := 0.05 + 10*h.tolerance
	if d := math.Abs(float64(got.Top[0].Logprob - want.top[0].Logprob)); !(d <= near) {
		h.Errorf("the best token has %v, and %v when it is alone", got.Top[0], want.top[0])
	}
	place := slices.IndexFunc(want.top, func(p backend.TokenLogprob) bool { return p.Token == target })
	if place >= 0 {
		if d := math.Abs(float64(got.Logprob - want.top[place].Logprob)); !(d <= near) {
			h.Errorf("the target has %v, and %v when it is alone", got.Logprob, want.top[place].Logprob)
		}
	}
	if want.logits == nil {
		return
	}
	sum, above, close := 0.0, 1, 0
	own := float64(want.logits[target])
	for _, x := range want.logits {
		sum += math.Exp(float64(x))
		switch d := float64(x) - own; {
		case d > near:
			above++
		case d > -near:
			close++
		}
	}
	if d := math.Abs(float64(got.Logprob) - (own - math.Log(sum))); !(d <= near) {
		h.Errorf("the target has %v, and %v from the logits", got.Logprob, own-math.Log(sum))
	}
	if got.Rank < above || got.Rank > above+close {
		h.Errorf("the target has rank %d; %d tokens are better and %d as good", got.Rank, above-1, close)
	}
}

// refusedTargets checks that inputs that break the contract are refused and change nothing.
func (h *harness) refusedTargets(tokens []backend.Token) {
	h.Helper()
	s := h.sequence()
	defer s.Close()
	for what, in := range map[string]backend.Input{
		"more targets than tokens": {Tokens: tokens[:1], Targets: tokens[:2]},
		"too many targets":         {Tokens: tokens[:backend.MaxTargets+1], Targets: tokens[:backend.MaxTargets+1]},
		"an unknown target":        {Tokens: tokens[:1], Targets: []backend.Token{backend.Token(h.v.Len())}},
		"too many alternatives":    {Tokens: tokens[:1], Targets: tokens[:1], TargetTop: backend.MaxTopLogprobs + 1},
	} {
		in.Sequence = s
		if err := h.m.Step(context.Background(), []backend.Input{in}, make([]backend.Output, 1)); err == nil {
			h.Errorf("%s: no error", what)
		}
		if len(s.Tokens()) != 0 {
			h.Fatalf("%s: the sequence has %d tokens", what, len(s.Tokens()))
		}
	}
}
