package backendtest

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"

	"runner/backend"
)

// testDrafts decodes token by token and then with drafts, some of them wrong, and compares every output to the bit.
// Other sequences prefill and decode in the same steps.
func testDrafts(h *harness) {
	if !h.caps.Drafts {
		h.refusesDrafts(map[string]backend.Input{
			"drafts that are not supported": {Sampling: &backend.Sampling{}, Drafts: h.drafts(1)}})
		return
	}
	h.refusesDrafts(map[string]backend.Input{
		"too many drafts": {Sampling: &backend.Sampling{}, Drafts: h.drafts(backend.MaxTargets + 1)},
		"an unknown draft": {Sampling: &backend.Sampling{},
			Drafts: []backend.Draft{{Token: backend.Token(h.v.Len())}}},
		"drafts without sampling": {Drafts: h.drafts(1)},
		"drafts and targets": {Sampling: &backend.Sampling{}, Drafts: h.drafts(backend.MaxTargets),
			Targets: h.tokens(1, 1)},
	})
	for i, p := range []backend.Sampling{
		{TopLogprobs: 3},
		{TopLogprobs: -1, Temperature: 1, Seed: 5},
		{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: 6},
		{Temperature: 1, Seed: 7, RepetitionPenalty: 1.3, FrequencyPenalty: 0.5, PenaltyWindow: 9, Seen: h.tokens(4, 6)},
		{PresencePenalty: 2, Seen: h.tokens(5, 3)},
	} {
		for _, constrained := range []bool{false, true} {
			d := drafting{harness: h, p: p, constrained: constrained, prompt: h.tokens(uint64(20+i), 30),
				random: rand.New(rand.NewPCG(uint64(i), 9))}
			d.alone()
			d.together()
		}
	}
	h.deadEnd()
}

// drafts returns n random drafts.
func (h *harness) drafts(n int) (list []backend.Draft) {
	for _, t := range h.tokens(3, n) {
		list = append(list, backend.Draft{Token: t})
	}
	return list
}

func (h *harness) refusesDrafts(wrong map[string]backend.Input) {
	h.Helper()
	s := h.sequence()
	defer s.Close()
	for what, in := range wrong {
		in.Sequence, in.Tokens = s, h.tokens(1, 1)
		if err := h.unchanged(context.Background(), []backend.Input{in}); err == nil {
			h.Errorf("%s: no error", what)
		}
	}
}

// drafting decodes one prompt in different ways.
type drafting struct {
	*harness
	p           backend.Sampling
	constrained bool
	prompt      []backend.Token
	want        []backend.Output
	random      *rand.Rand
}

// oneIn allows one token in five, another one at each place.
type oneIn struct{ place, size int }

func (o oneIn) Allows(t backend.Token) bool { return (int(t)+o.place)%5 == 0 }

func (o oneIn) Fill(m backend.Mask) {
	m.Clear()
	for t := range backend.Token(o.size) {
		if o.Allows(t) {
			m.Set(t)
		}
	}
}

// constraint returns the constraint on token i.
func (d *drafting) constraint(i int) backend.Constraint {
	if !d.constrained {
		return nil
	}
	return oneIn{i, d.v.Len()}
}

// sampling returns the sampling of token i: the penalties count the tokens before it.
func (d *drafting) sampling(i int) *backend.Sampling {
	p := d.p
	p.Seen = slices.Clone(p.Seen)
	for _, o := range d.want[:i] {
		p.Seen = append(p.Seen, o.Token)
	}
	return &p
}

// alone fills want token by token.
func (d *drafting) alone() {
	s := d.sequence()
	defer s.Close()
	feed := d.prompt
	for i := range 40 {
		out := make([]backend.Output, 1)
		d.step([]backend.Input{{Sequence: s, Tokens: feed, Sampling: d.sampling(i), Constraint: d.constraint(i)}}, out)
		d.want = append(d.want, out[0])
		feed = []backend.Token{out[0].Token}
	}
}

// together decodes the same tokens with drafts, beside others, and compares.
func (d *drafting) together() {
	s, reads, writes := d.sequence(), d.sequence(), d.sequence()
	out := make([]backend.Output, 3)
	feed, at, right := d.prompt, 0, 0
	for round := uint64(0); at < len(d.want)-1; round++ {
		drafts, good := d.propose(at)
		in := []backend.Input{
			{Sequence: reads, Tokens: d.tokens(round, 1+d.random.IntN(4))},
			{Sequence: s, Tokens: feed, Sampling: d.sampling(at), Constraint: d.constraint(at), Drafts: drafts},
			{Sequence: writes, Tokens: d.tokens(round, 1), Sampling: &backend.Sampling{}, Drafts: d.drafts(2)},
		}
		d.step(in, out)
		if len(out[1].More) != good {
			d.Fatalf("%d of %d drafts were right, want %d", len(out[1].More), len(drafts), good)
		}
		right += good
		for i := range good + 1 {
			got := out[1]
			if i > 0 {
				got = out[1].More[i-1]
			}
			want := &d.want[at+i]
			if got.Token != want.Token || got.Logprob != want.Logprob || len(got.Top) != len(want.Top) ||
				len(got.Top) > 0 && !reflect.DeepEqual(got.Top, want.Top) {
				d.Fatalf("token %d, after %d drafts, is %v, and %v alone (%+v)", at+i, i, got, *want, d.p)
			}
		}
		at += good
		feed = []backend.Token{d.want[at].Token}
		at++
		if tokens := s.Tokens(); tokens[len(tokens)-1] != d.last(at-1) {
			d.Fatalf("the sequence of %d tokens ends in %d, want %d", len(tokens), tokens[len(tokens)-1], d.last(at-1))
		}
	}
	if right < 10 {
		d.Errorf("only %d drafts were right", right)
	}
	tail := d.tokens(8, 3)
	for _, q := range []backend.Sequence{s, reads, writes} {
		all := append(slices.Clone(q.Tokens()), tail...)
		if got, want := d.feed(q, tail, 0), d.fresh(all); difference(got, want) != 0 {
			d.Errorf("after drafts the logits differ by %g deviations", difference(got, want))
		}
		q.Close()
	}
}

// propose returns drafts for the tokens from at+1 on, and how many of them are right.
func (d *drafting) propose(at int) (drafts []backend.Draft, good int) {
	n := min(d.random.IntN(9), len(d.want)-2-at)
	good = n
	for i := range max(n, 0) {
		t := d.want[at+i].Token
		if d.random.IntN(6) == 0 {
			t = (t + 1 + backend.Token(d.random.IntN(d.v.Len()-1))) % backend.Token(d.v.Len())
			good = min(good, i)
		}
		drafts = append(drafts, backend.Draft{Token: t, Constraint: d.constraint(at + i + 1)})
	}
	return drafts, max(good, 0)
}

// last returns the last token that was fed before token at was: the token before it, or the prompt's last.
func (d *drafting) last(at int) backend.Token {
	if at == 0 {
		return d.prompt[len(d.prompt)-1]
	}
	return d.want[at-1].Token
}

// deadEnd has a right draft after which nothing can be sampled. It counts as wrong, and the step succeeds.
func (h *harness) deadEnd() {
	h.Helper()
	s := h.sequence()
	defer s.Close()
	p := h.tokens(31, 20)
	first := h.fresh(p).token
	out := make([]backend.Output, 1)
	h.step([]backend.Input{{Sequence: s, Tokens: p, Sampling: &backend.Sampling{},
		Drafts: []backend.Draft{{Token: first, Constraint: nothing{}}}}}, out)
	if out[0].Token != first || len(out[0].More) != 0 || len(s.Tokens()) != len(p) {
		h.Errorf("a draft before a dead end: token %d, want %d, %d right, %d tokens of %d", out[0].Token, first,
			len(out[0].More), len(s.Tokens()), len(p))
	}
	err := h.unchanged(context.Background(), []backend.Input{{Sequence: s, Tokens: []backend.Token{first},
		Sampling: &backend.Sampling{}, Constraint: nothing{}}})
	h.wantInput(err, backend.ErrNothingAllowed, 0, "the dead end itself")
}
