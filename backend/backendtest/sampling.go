package backendtest

import (
	"context"
	"math"
	"slices"

	"runner/backend"
)

// generate samples n tokens after prompt, feeding each of them.
func (h *harness) generate(s backend.Sequence, prompt []backend.Token, n int, p backend.Sampling,
	c backend.Constraint) []backend.Token {
	h.Helper()
	var got []backend.Token
	out := make([]backend.Output, 1)
	feed := prompt
	for range n {
		h.step([]backend.Input{{Sequence: s, Tokens: feed, Sampling: &p, Constraint: c}}, out)
		if !h.v.Valid(out[0].Token) {
			h.Fatalf("sampled %d, which is not a token", out[0].Token)
		}
		got = append(got, out[0].Token)
		feed = got[len(got)-1:]
	}
	return got
}

func testGreedy(h *harness) {
	s := h.sequence()
	feed := h.tokens(1, 10)
	for range 20 {
		r := h.feed(s, feed, 0)
		if r.logits != nil {
			best := 0
			for i, x := range r.logits {
				if x > r.logits[best] {
					best = i
				}
			}
			if r.token != backend.Token(best) {
				h.Fatalf("greedy sampling took %d with logit %v, not %d with %v", r.token, r.logits[r.token], best, r.logits[best])
			}
		}
		if r.token != r.top[0].Token {
			h.Fatalf("greedy sampling took %d and the most likely is %d", r.token, r.top[0].Token)
		}
		feed = []backend.Token{r.token}
	}
}

func testTopLogprobs(h *harness) {
	s := h.sequence()
	out := make([]backend.Output, 1)
	for n := range backend.MaxTopLogprobs + 1 {
		h.step([]backend.Input{{Sequence: s, Tokens: h.tokens(uint64(n), 1), Sampling: &backend.Sampling{TopLogprobs: n}}},
			out)
		if len(out[0].Top) != n {
			h.Fatalf("asked for %d alternatives and got %d", n, len(out[0].Top))
		}
		if !(out[0].Logprob <= 1e-4) {
			h.Errorf("log probability %v is above 0", out[0].Logprob)
		}
		for i, p := range out[0].Top {
			if i > 0 && p.Logprob > out[0].Top[i-1].Logprob {
				h.Errorf("alternatives are not in order: %v", out[0].Top)
			}
			if i == 0 && (p.Token != out[0].Token || p.Logprob != out[0].Logprob) {
				h.Errorf("greedy token %d at %v, best alternative %d at %v", out[0].Token, out[0].Logprob, p.Token, p.Logprob)
			}
		}
	}
	if !h.caps.Logits {
		return
	}
	in := []backend.Input{h.input(s, h.tokens(9, 1))}
	h.step(in, out)
	sum := 0.0
	for _, x := range in[0].Logits {
		sum += math.Exp(float64(x))
	}
	for _, p := range out[0].Top {
		if want := float64(in[0].Logits[p.Token]) - math.Log(sum); math.Abs(want-float64(p.Logprob)) > 1e-3 {
			h.Errorf("token %d has log probability %v, and %v from the logits", p.Token, p.Logprob, want)
		}
	}
}

// testSeeds generates with one seed alone, again, and together with other sequences. The tokens must be the same.
// Where the other sequences change the last bits of the logits, a draw may land on the other side of a boundary, so
// with a tolerance the texts may differ in one token.
func testSeeds(h *harness) {
	p := h.tokens(1, 12)
	sampling := backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: 42}
	s := h.sequence()
	want := h.generate(s, p, 24, sampling, nil)
	h.truncate(s, 0)
	if again := h.generate(s, p, 24, sampling, nil); !slices.Equal(again, want) {
		h.Errorf("the same seed gave\n%v and\n%v", want, again)
	}
	h.truncate(s, 0)
	different := false
	for seed := range uint64(3) {
		sampling := sampling
		sampling.Seed = 100 + seed
		different = different || !slices.Equal(h.generate(s, p, 24, sampling, nil), want)
		h.truncate(s, 0)
	}
	if !different {
		h.Error("four seeds gave the same text")
	}
	mate1, mate2 := h.sequence(), h.sequence()
	out := make([]backend.Output, 3)
	feed, got := p, []backend.Token(nil)
	other := backend.Sampling{Temperature: 1, Seed: 7}
	for i := range 24 {
		h.step([]backend.Input{
			{Sequence: mate1, Tokens: h.tokens(uint64(i), 3), Sampling: &other},
			{Sequence: s, Tokens: feed, Sampling: &sampling},
			{Sequence: mate2, Tokens: h.tokens(uint64(i), 1)},
		}, out)
		got = append(got, out[1].Token)
		feed = []backend.Token{want[i]} // continue with the expected token, so that one difference does not cause more
	}
	parted := 0
	for i := range got {
		if got[i] != want[i] {
			parted++
		}
	}
	if most := int(math.Ceil(h.tolerance * float64(len(want)))); parted > most {
		h.Errorf("with other sequences the same seed gave\n%v, alone\n%v", got, want)
	}
}

// testPenalties checks that penalties count the tokens in Seen and no others of the sequence.
func testPenalties(h *harness) {
	held := h.tokens(2, 1)[0]
	prompt := append(h.tokens(1, 10), slices.Repeat([]backend.Token{held}, 100)...)
	choose := func(p backend.Sampling) backend.Token {
		s := h.sequence()
		defer s.Close()
		return h.generate(s, prompt, 1, p, nil)[0]
	}
	best := choose(backend.Sampling{})
	for _, p := range []backend.Sampling{{FrequencyPenalty: -2},
		{FrequencyPenalty: 2, PresencePenalty: 2, RepetitionPenalty: 10}} {
		if got := choose(p); got != best {
			h.Errorf("penalties took %d for %d although nothing was seen", got, best)
		}
	}
	strong := backend.Sampling{PresencePenalty: 2, FrequencyPenalty: 2, RepetitionPenalty: 10}
	strong.Seen = slices.Repeat([]backend.Token{best}, 200)
	if got := choose(strong); got == best {
		h.Errorf("token %d was seen 200 times and was taken again", best)
	}
	other := best + 1
	if int(other) == h.v.Len() {
		other = 0
	}
	strong.Seen, strong.PenaltyWindow = append(strong.Seen, other), 1
	if got := choose(strong); got != best {
		h.Errorf("penalties took %d for %d, which is outside the window", got, best)
	}
	strong.Seen, strong.PenaltyWindow = []backend.Token{backend.NoToken, backend.Token(h.v.Len())}, 0
	if got := choose(strong); got != best {
		h.Errorf("penalties took %d for %d, although only unknown tokens were seen", got, best)
	}
	boost := backend.Sampling{FrequencyPenalty: -2, Seen: slices.Repeat([]backend.Token{other}, 200)}
	if got := choose(boost); got != other {
		h.Errorf("a negative penalty on %d took %d", other, got)
	}
}

// every allows one token in n.
type every struct {
	n    backend.Token
	size int
}

func (e every) Allows(t backend.Token) bool { return t%e.n == 1 }

func (e every) Fill(m backend.Mask) {
	m.Clear()
	for t := range backend.Token(e.size) {
		if e.Allows(t) {
			m.Set(t)
		}
	}
}

type nothing struct{}

func (nothing) Allows(backend.Token) bool { return false }
func (nothing) Fill(m backend.Mask)       { m.Clear() }

func testConstraint(h *harness) {
	for _, p := range []backend.Sampling{{}, {Temperature: 1, Seed: 3}, {Temperature: 0.7, TopK: 5, Seed: 4}} {
		for _, n := range []int{2, 50, h.v.Len() - 2} {
			s := h.sequence()
			c := every{backend.Token(n), h.v.Len()}
			for i, t := range h.generate(s, h.tokens(1, 8), 16, p, c) {
				if !c.Allows(t) {
					h.Errorf("token %d is %d, which the constraint forbids", i, t)
				}
			}
			s.Close()
		}
	}
	// Greedy sampling takes the best of the allowed tokens.
	s := h.sequence()
	defer s.Close()
	c := every{7, h.v.Len()}
	in := []backend.Input{h.input(s, h.tokens(1, 8))}
	in[0].Constraint = c
	out := make([]backend.Output, 1)
	h.step(in, out)
	for t, x := range in[0].Logits {
		if c.Allows(backend.Token(t)) && x > in[0].Logits[out[0].Token] {
			h.Errorf("token %d is allowed and better than %d", t, out[0].Token)
		}
	}
}

func testNothingAllowed(h *harness) {
	s, other := h.sequence(), h.sequence()
	p := h.tokens(1, 60)
	h.feed(s, p[:40], 0)
	err := h.unchanged(context.Background(), []backend.Input{
		{Sequence: other, Tokens: p[:3], Sampling: &backend.Sampling{}},
		{Sequence: s, Tokens: p[40:50], Sampling: &backend.Sampling{}, Constraint: nothing{}},
	})
	h.wantInput(err, backend.ErrNothingAllowed, 1, "constraint that allows nothing")
	h.same(h.feed(s, p[40:], 0), h.fresh(p), "after a constraint that allowed nothing")
	h.same(h.feed(other, p[:5], 0), h.fresh(p[:5]), "the other sequence of that step")
}

// testEmbeddings checks that the sum of hidden states depends on the tokens alone, not on how they were split or on
// the other sequences of a step. Reading them must change nothing else.
func testEmbeddings(h *harness) {
	if !h.caps.Embeddings {
		h.Skip("the model has no embeddings")
	}
	p := h.tokens(1, 60)
	other := h.sequence()
	h.feed(other, p[:30], 0)
	fed := 30
	embed := func(tokens []backend.Token, size int) []float32 {
		s := h.sequence()
		defer s.Close()
		sum := make([]float64, h.info.EmbeddingLength)
		for len(tokens) > 0 {
			n := min(size, len(tokens))
			in := []backend.Input{{Sequence: s, Tokens: tokens[:n], Hidden: sum}}
			if size < 20 && fed < len(p) {
				in = append(in, backend.Input{Sequence: other, Tokens: p[fed : fed+1], Sampling: &backend.Sampling{}})
				fed++
			}
			h.step(in, make([]backend.Output, len(in)))
			tokens = tokens[n:]
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		before := append([]float64(nil), sum...)
		h.wantError(h.unchanged(ctx, []backend.Input{{Sequence: s, Tokens: p[:1], Hidden: sum}}), context.Canceled,
			"reading hidden states with an ended context")
		h.wantInput(h.unchanged(context.Background(), []backend.Input{{Sequence: s, Tokens: p[:1], Hidden: sum},
			{Sequence: other, Tokens: p[:1], Sampling: &backend.Sampling{}, Constraint: nothing{}}}),
			backend.ErrNothingAllowed, 1, "reading hidden states beside a constraint that allows nothing")
		if !slices.Equal(sum, before) {
			h.Fatal("a step that failed changed the sum of hidden states")
		}
		return normalised(sum)
	}
	a, pieces, b := embed(p[:20], 20), embed(p[:20], 7), embed(p[25:55], 30)
	if d := dot(a, pieces); !(d > 0.9999) {
		h.Errorf("a text fed in pieces has similarity %v with itself", d)
	}
	if d := dot(a, b); !(d < 0.9999) {
		h.Errorf("different texts have similarity %v", d)
	}
	h.same(h.feed(other, p[fed:], 0), h.fresh(p), "after steps that read hidden states")
	s := h.sequence()
	wrong := []backend.Input{{Sequence: s, Tokens: p[:1], Hidden: make([]float64, 1)}}
	if err := h.unchanged(context.Background(), wrong); err == nil {
		h.Error("a hidden state of the wrong width returned no error")
	}
}

func normalised(v []float64) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x / math.Sqrt(sum))
	}
	return out
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
