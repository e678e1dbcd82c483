package backendtest

import (
	"slices"
	"time"

	"runner/backend"
)

// testArrivals generates with several sequences at once. An input that is pending is handed in again only when its
// sequence says that something arrived. The tokens must be those of steps that hand in everything.
func testArrivals(h *harness) {
	p, ok := h.m.(backend.Paced)
	if !ok || !h.caps.Paced {
		h.Skip("the sequences of this model do not go at their own pace")
	}
	const sequences, length = 3, 12
	prompts, want := make([][]backend.Token, sequences), make([][]backend.Token, sequences)
	for i := range prompts {
		prompts[i] = h.tokens(uint64(i), 5)
		s := h.sequence()
		for in := prompts[i]; len(want[i]) < length; in = want[i][len(want[i])-1:] {
			want[i] = append(want[i], h.feed(s, in, 0).token)
		}
		s.Close()
	}
	inputs := make([]backend.Input, sequences)
	for i := range inputs {
		inputs[i] = h.input(h.sequence(), prompts[i])
	}
	got, waits := make([][]backend.Token, sequences), make([]bool, sequences)
	late := time.After(time.Minute)
	for {
		var step []backend.Input
		var at []int
		for i := range inputs {
			s, ok := inputs[i].Sequence.(backend.Arriving)
			if len(got[i]) < length && (!ok || !waits[i] || s.Arrived()) {
				step, at = append(step, inputs[i]), append(at, i)
			}
		}
		outputs := make([]backend.Output, len(step))
		if err := h.m.Step(h.Context(), step, outputs); err != nil {
			h.Fatal(err)
		}
		came := false
		for k, i := range at {
			if waits[i] = outputs[k].Pending; waits[i] {
				continue
			}
			came = true
			got[i] = append(got[i], outputs[k].Token)
			inputs[i].Tokens = []backend.Token{outputs[k].Token}
		}
		switch {
		case !slices.ContainsFunc(got, func(tokens []backend.Token) bool { return len(tokens) < length }):
			for i := range got {
				inputs[i].Sequence.Close()
				if !slices.Equal(got[i], want[i]) {
					h.Errorf("sequence %d: %v, want %v", i, got[i], want[i])
				}
			}
			return
		case came:
			continue
		}
		select {
		case <-p.Ready():
		case <-late:
			h.Fatalf("nothing arrives after %v", got)
		}
	}
}
