package backend

import "testing"

func TestSameSampling(t *testing.T) {
	hot := Sampling{Temperature: 1, TopP: 0.9, Seed: 7, TopLogprobs: -1}
	with := func(change func(*Sampling)) Sampling {
		s := hot
		change(&s)
		return s
	}
	for _, c := range []struct {
		name string
		a, b Sampling
		want bool
	}{
		{"nothing", Sampling{}, Sampling{}, true},
		{"greedy, other filters and seeds", Sampling{TopP: 1, TypicalP: 1, TopK: 3, Seed: 1}, Sampling{MinP: 0.1}, true},
		{"greedy, another bias", Sampling{Bias: []TokenBias{{1, 2}}}, Sampling{}, false},
		{"factors that are off", hot, with(func(s *Sampling) { s.TypicalP, s.RepetitionPenalty = 1, 1 }), true},
		{"what is reported", hot, with(func(s *Sampling) { s.TopLogprobs = 5 }), true},
		{"a window without penalties", hot, with(func(s *Sampling) { s.PenaltyWindow = 5 }), true},
		{"another temperature", hot, with(func(s *Sampling) { s.Temperature = 0 }), false},
		{"another seed", hot, with(func(s *Sampling) { s.Seed = 8 }), false},
		{"another top-p", hot, with(func(s *Sampling) { s.TopP = 1 }), false},
		{"another top-k", hot, with(func(s *Sampling) { s.TopK = 1 }), false},
		{"another min-p", hot, with(func(s *Sampling) { s.MinP = 0.1 }), false},
		{"another typical-p", hot, with(func(s *Sampling) { s.TypicalP = 0.5 }), false},
		{"a penalty", Sampling{}, Sampling{PresencePenalty: 1}, false},
		{"another window", Sampling{FrequencyPenalty: 1}, Sampling{FrequencyPenalty: 1, PenaltyWindow: 3}, false},
	} {
		if got := c.a.Same(&c.b); got != c.want || c.b.Same(&c.a) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
