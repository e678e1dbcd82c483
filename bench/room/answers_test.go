package room

import "testing"

// Rounds take turns with the questions. What is asked in a round is the same whenever it is asked.
func TestRoundsTakeTurnsWithQuestions(t *testing.T) {
	for _, given := range [][]string{nil, {"one"}, {"one", "two", "three"}} {
		w := &answering{o: &answerOptions{questions: given}}
		want := given
		if want == nil {
			want = usualQuestions
		}
		seeds := map[uint64]bool{}
		for round := -len(want); round < 2*len(want); round++ {
			r, again := w.request(round), w.request(round)
			if got := r.Messages[0].Content; got != want[(round+len(want))%len(want)] || again.Messages[0].Content != got {
				t.Errorf("%q, round %d: %q, and again %q", given, round, got, again.Messages[0].Content)
			}
			if *r.Seed != *again.Seed || seeds[*r.Seed] {
				t.Errorf("%q, round %d: the seeds %d and %d", given, round, *r.Seed, *again.Seed)
			}
			seeds[*r.Seed] = true
		}
	}
}
