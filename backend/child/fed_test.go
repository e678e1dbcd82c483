package child

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"runner/backend"
)

// TestOnlyFedTokensAreShared compares random feeds, cuts and forks with sequences that have an id of its own for each
// token that was fed.
func TestOnlyFedTokensAreShared(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 7))
	type both struct {
		fed   fed
		grows bool
		plain []uint64
	}
	for range 300 {
		all := []*both{{}, {}}
		pieces, tokens := uint64(0), uint64(0)
		for range 60 {
			s := all[r.IntN(len(all))]
			switch r.IntN(4) {
			case 0, 1:
				for range 1 + r.IntN(4) {
					tokens++
					s.plain = append(s.plain, tokens)
				}
				id := uint64(0)
				if !s.grows {
					pieces++
					id, s.grows = pieces, true
				}
				s.fed.grow(len(s.plain), id)
			case 2:
				n := r.IntN(len(s.plain) + 1)
				if n == len(s.plain) {
					continue
				}
				s.plain, s.grows = s.plain[:n], false
				s.fed.cut(n)
			case 3:
				if len(all) < 6 {
					all = append(all, &both{fed: slices.Clone(s.fed), plain: slices.Clone(s.plain)})
				}
			}
		}
		for _, a := range all {
			for _, b := range all {
				want := 0
				for want < min(len(a.plain), len(b.plain)) && a.plain[want] == b.plain[want] {
					want++
				}
				if got := a.fed.shared(b.fed); got != want {
					t.Fatalf("%d tokens are shared, want %d: %v and %v", got, want, a.fed, b.fed)
				}
			}
		}
	}
}

// TestReusedAfterACrash checks that tokens which are fed again do not count as reused, until the sequence is cut to be
// used again.
func TestReusedAfterACrash(t *testing.T) {
	t.Parallel()
	m := open(t, "1", "", small)
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	step := func(tokens ...backend.Token) {
		t.Helper()
		in := []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{}}}
		if err := m.Step(t.Context(), in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
	}
	step(65, 66, 67, 68)
	if n, ok := s.(backend.Reusing).Reused(); ok {
		t.Errorf("without a crash, %d tokens count as reused", n)
	}
	if err := syscall.Kill(m.Process(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	step(69)
	if n, ok := s.(backend.Reusing).Reused(); !ok || n != 0 {
		t.Errorf("after a crash, %d tokens count as reused (%t)", n, ok)
	}
	if _, err := s.Truncate(5); err != nil {
		t.Fatal(err)
	}
	step(70)
	if n, ok := s.(backend.Reusing).Reused(); ok {
		t.Errorf("of a sequence that is used again, %d tokens count as reused", n)
	}
}
