package mlx

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"runner/backend"
	"runner/models/random"
)

// member is a sequence that TestMembersComeAndGo decodes, with the logits after its last token.
type member struct {
	sequence backend.Sequence
	last     []float32
}

// TestMembersComeAndGo lets sequences of many lengths join and leave batches at random, in windows that are full and
// not. Each must have the logits that its tokens have alone.
func TestMembersComeAndGo(t *testing.T) {
	p := python(t)
	const most, rounds = 6, 60
	m := mustOpen(t, p, randomFolder(t, random.Config{Seed: 3, Precise: true, Layers: 2}),
		backend.Config{ContextSize: 1024, Sequences: most + 1})
	r := rand.New(rand.NewPCG(1, 2))
	tokens := func(n int) []backend.Token {
		x := make([]backend.Token, n)
		for i := range x {
			x[i] = backend.Token(r.IntN(256))
		}
		return x
	}
	step := func(inputs []backend.Input) {
		t.Helper()
		if err := m.Step(t.Context(), inputs, make([]backend.Output, len(inputs))); err != nil {
			t.Fatal(err)
		}
	}
	input := func(x *member, n int) backend.Input {
		return backend.Input{Sequence: x.sequence, Tokens: tokens(n), Logits: x.last}
	}
	add := func(s backend.Sequence, err error) *member {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return &member{s, make([]float32, m.Vocab().Len())}
	}
	var members []*member
	for round := range rounds {
		var inputs []backend.Input
		switch n := len(members); {
		case n < 2 || n < most && r.IntN(3) == 0:
			x := add(m.NewSequence())
			members = append(members, x)
			inputs = append(inputs, input(x, 1+r.IntN(20)+r.IntN(2)*200))
		case n < most && r.IntN(4) == 0:
			x := add(members[r.IntN(n)].sequence.Fork())
			members = append(members, x)
			inputs = append(inputs, input(x, 1))
		case r.IntN(4) == 0:
			x := members[r.IntN(n)]
			if _, err := x.sequence.Truncate(len(x.sequence.Tokens()) - r.IntN(3)); err != nil {
				t.Fatal(err)
			}
			inputs = append(inputs, input(x, 2))
		case r.IntN(4) == 0:
			i := r.IntN(n)
			members[i].sequence.Close()
			members = slices.Delete(members, i, i+1)
		}
		for _, x := range members {
			busy := slices.ContainsFunc(inputs, func(in backend.Input) bool { return in.Sequence == x.sequence })
			if !busy && r.IntN(5) > 0 {
				inputs = append(inputs, input(x, 1))
			}
		}
		if len(inputs) == 0 {
			continue
		}
		step(inputs)
		if round%3 > 0 {
			continue
		}
		in := inputs[len(inputs)-1]
		alone := add(m.NewSequence())
		step([]backend.Input{{Sequence: alone.sequence, Tokens: in.Sequence.Tokens(), Logits: alone.last}})
		alone.sequence.Close()
		if d := deviation(in.Logits, alone.last); d > 1e-3 {
			t.Fatalf("round %d: the logits of %d tokens differ by %g deviations", round, len(in.Sequence.Tokens()), d)
		}
	}
}

// deviation returns the largest difference of two rows of logits, in standard deviations of the second.
func deviation(a, b []float32) float64 {
	var sum, squares, most float64
	for i, x := range b {
		sum += float64(x)
		squares += float64(x) * float64(x)
		most = max(most, math.Abs(float64(a[i]-x)))
	}
	n := float64(len(b))
	return most / math.Sqrt(squares/n-sum/n*sum/n)
}
