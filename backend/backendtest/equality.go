package backendtest

import (
	"math"
	"math/rand/v2"

	"runner/backend"
)

// testTolerance measures the effect of one wrong token and checks that the tolerance is far below it. The wrong
// token is near the end of the sequence, or within its last hundred tokens, so that a sliding window does not hide
// it.
func testTolerance(h *harness) {
	p := h.tokens(1, 300)
	want := h.fresh(p)
	if again := h.fresh(p); true {
		h.same(again, want, "the same twice")
	}
	for _, at := range []int{299, 290, 220} {
		q := append([]backend.Token(nil), p...)
		q[at] = h.tokens(2, 1)[0]
		if q[at] == p[at] {
			q[at] = h.tokens(3, 1)[0]
		}
		d := difference(h.fresh(q), want)
		h.Logf("another token at %d of 300 moves a logit by %.4g deviations; the tolerance is %g", at, d, h.tolerance)
		if !(d >= 10*h.tolerance) || d == 0 {
			h.Errorf("a wrong token at %d of 300 moves no logit by more than %.4g deviations; the tolerance %g would hide it",
				at, d, h.tolerance)
		}
	}
}

// testChunks feeds one prompt in chunks of many sizes, shorter and longer than a typical sliding window.
func testChunks(h *harness) {
	for _, n := range []int{1, 2, 31, 127, 128, 129, 300, 777} {
		p := h.tokens(uint64(n), n)
		want := h.fresh(p)
		for _, size := range []int{1, 7, 32, 100, 128, 256} {
			if size >= n || size < 32 && n > 300 {
				continue
			}
			s := h.sequence()
			h.same(h.feed(s, p, size), want, "%d tokens in chunks of %d", n, size)
			s.Close()
		}
	}
}

// testBatched feeds prompts alone, and together in steps that mix chunks of different lengths with single tokens.
func testBatched(h *harness) {
	const count = 4
	var prompts [count][]backend.Token
	var want [count]result
	for i := range prompts {
		prompts[i] = h.tokens(uint64(100+i), 40+90*i)
		want[i] = h.fresh(prompts[i])
	}
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 3 {
		var seqs [count]backend.Sequence
		var fed [count]int
		for i := range seqs {
			seqs[i] = h.sequence()
		}
		for left := count; left > 0; {
			var in []backend.Input
			var who []int
			for i := range seqs {
				n := len(prompts[i]) - fed[i]
				if n == 0 || r.IntN(4) == 0 && left > 1 {
					continue
				}
				n = 1 + r.IntN(min(n, 60))
				part := prompts[i][fed[i] : fed[i]+n]
				if fed[i] += n; fed[i] == len(prompts[i]) {
					in = append(in, h.input(seqs[i], part))
				} else {
					in = append(in, backend.Input{Sequence: seqs[i], Tokens: part})
				}
				who = append(who, i)
			}
			if len(in) == 0 {
				continue
			}
			out := make([]backend.Output, len(in))
			h.step(in, out)
			for j, i := range who {
				if fed[i] == len(prompts[i]) {
					h.same(resultOf(&in[j], &out[j]), want[i], "round %d, prompt %d of %d tokens among others", round, i,
						len(prompts[i]))
					left--
				}
			}
		}
		for _, s := range seqs {
			s.Close()
		}
	}
}

// testDecoding compares decoding token by token, far beyond a sliding window, with one prompt of the same tokens.
func testDecoding(h *harness) {
	p := h.tokens(50, 640)
	s := h.sequence()
	h.feed(s, p[:100], 0)
	for at := 100; at < len(p); at++ {
		if at%97 != 0 {
			h.step([]backend.Input{{Sequence: s, Tokens: p[at : at+1]}}, make([]backend.Output, 1))
			continue
		}
		got := h.feed(s, p[at:at+1], 0)
		h.same(got, h.fresh(p[:at+1]), "token by token to %d", at+1)
	}
}

func testTruncate(h *harness) {
	p, q := h.tokens(60, 500), h.tokens(61, 500)
	for _, c := range []struct{ grow, keep, regrow int }{
		{10, 5, 10}, {50, 0, 20}, {200, 199, 5}, {200, 100, 60}, {200, 40, 5}, {450, 449, 1}, {450, 330, 100}, {450, 10, 300},
		{500, 500, 4},
	} {
		s := h.sequence()
		h.feed(s, p[:c.grow], 0)
		kept := h.truncate(s, c.keep)
		tokens := append(append([]backend.Token(nil), p[:c.keep]...), q[:c.regrow]...)
		h.same(h.feed(s, tokens[kept:], 0), h.fresh(tokens), "%d tokens cut to %d and grown by %d", c.grow, c.keep, c.regrow)
		s.Close()
	}
	s := h.sequence()
	defer s.Close()
	h.feed(s, p[:20], 0)
	if n := h.truncate(s, 1000); n != 20 {
		h.Errorf("Truncate beyond the end kept %d of 20", n)
	}
	if _, err := s.Truncate(-1); err == nil {
		h.Error("Truncate(-1) returned no error")
	}
}

// testFork continues both branches, separately and together, and truncates one below the fork.
func testFork(h *harness) {
	p, a, b := h.tokens(70, 700), h.tokens(71, 60), h.tokens(72, 60)
	for _, n := range []int{1, 50, 128, 200, 600} {
		s := h.sequence()
		h.feed(s, p[:n], 0)
		f := h.fork(s)
		if got := f.Tokens(); len(got) != n || got[n-1] != p[n-1] {
			h.Fatalf("the fork of %d tokens has %d", n, len(got))
		}
		onA := append(append([]backend.Token(nil), p[:n]...), a...)
		onB := append(append([]backend.Token(nil), p[:n]...), b...)
		in := []backend.Input{h.input(s, a), h.input(f, b)}
		out := make([]backend.Output, 2)
		h.step(in, out)
		h.same(resultOf(&in[0], &out[0]), h.fresh(onA), "original of %d tokens in a step with its fork", n)
		h.same(resultOf(&in[1], &out[1]), h.fresh(onB), "fork of %d tokens in a step with its original", n)
		kept := h.truncate(f, n/2)
		tokens := append(append([]backend.Token(nil), p[:n/2]...), b...)
		h.same(h.feed(f, tokens[kept:], 0), h.fresh(tokens), "fork of %d tokens cut to %d", n, n/2)
		f.Close()
		h.same(h.feed(s, b[:3], 0), h.fresh(append(onA, b[:3]...)), "original of %d tokens after its fork is gone", n)
		s.Close()
	}
}

// testForkOfForks grows forks of forks past a sliding window while some are closed and new ones made.
func testForkOfForks(h *harness) {
	type member struct {
		s      backend.Sequence
		tokens []backend.Token
	}
	first := member{h.sequence(), h.tokens(80, 300)}
	h.feed(first.s, first.tokens, 0)
	family := []member{first}
	r := rand.New(rand.NewPCG(8, 8))
	for round := range 14 {
		if len(family) < 5 {
			m := family[r.IntN(len(family))]
			family = append(family, member{h.fork(m.s), append([]backend.Token(nil), m.tokens...)})
		} else {
			i := r.IntN(len(family))
			family[i].s.Close()
			family = append(family[:i], family[i+1:]...)
		}
		var in []backend.Input
		for i := range family {
			add := h.tokens(uint64(1000*round+i), 1+r.IntN(20))
			family[i].tokens = append(family[i].tokens, add...)
			in = append(in, h.input(family[i].s, add))
		}
		out := make([]backend.Output, len(in))
		h.step(in, out)
		i := r.IntN(len(family))
		h.same(resultOf(&in[i], &out[i]), h.fresh(family[i].tokens), "round %d, member %d of %d tokens", round, i,
			len(family[i].tokens))
	}
	for _, m := range family {
		m.s.Close()
	}
}

// testRandomOperations feeds, truncates, forks and closes at random and compares with fresh sequences.
func testRandomOperations(h *harness) {
	r := rand.New(rand.NewPCG(9, 9))
	var seqs []backend.Sequence
	for op := range 120 {
		switch k := r.IntN(10); {
		case len(seqs) == 0 || k == 0 && len(seqs) < 3:
			seqs = append(seqs, h.sequence())
		case k == 1 && len(seqs) < 3:
			seqs = append(seqs, h.fork(seqs[r.IntN(len(seqs))]))
		case k == 2:
			i := r.IntN(len(seqs))
			seqs[i].Close()
			seqs = append(seqs[:i], seqs[i+1:]...)
		case k <= 4:
			s := seqs[r.IntN(len(seqs))]
			h.truncate(s, r.IntN(len(s.Tokens())+1))
		default:
			s := seqs[r.IntN(len(seqs))]
			n := 1 + int(math.Exp(r.Float64()*math.Log(120)))
			if len(s.Tokens())+n > 500 {
				h.truncate(s, r.IntN(200))
			}
			h.feed(s, h.tokens(uint64(op), n), 1+r.IntN(128))
		}
		if op%10 == 9 && len(seqs) > 0 {
			s := seqs[r.IntN(len(seqs))]
			got := h.feed(s, h.tokens(uint64(op), 1), 0)
			h.same(got, h.fresh(s.Tokens()), "after %d random operations, %d tokens", op, len(s.Tokens()))
		}
	}
	for _, s := range seqs {
		s.Close()
	}
}
