package dialect

import (
	"maps"
	"math/rand/v2"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
)

// TestBias compares the bias of random requests with a sum that is made token by token.
func TestBias(t *testing.T) {
	const forbid, lift = -50, 500
	v := fake.Harmony()
	e := &Engine{Vocab: v}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var r remote.Request
		want := map[backend.Token]float32{}
		forbidden := map[backend.Token]bool{}
		for range rng.IntN(20) {
			x := backend.TokenBias{Token: backend.Token(rng.IntN(6)), Bias: float32(rng.IntN(9) - 4)}
			if rng.IntN(5) == 0 {
				x.Bias = -100 - float32(rng.IntN(2))
				forbidden[x.Token] = true
			}
			want[x.Token] += x.Bias
			r.Sampling.Bias = append(r.Sampling.Bias, x)
		}
		share := []int{0, 1, 7}[round%3] // of ten tokens, how many are allowed
		for i := range backend.Token(v.Len()) {
			if rng.IntN(10) < share {
				r.Allowed = append(r.Allowed, i)
				if share == 1 {
					want[i] += lift
				}
			} else if share == 7 {
				forbidden[i] = true
			}
		}
		for i := range forbidden {
			want[i] = forbid
		}
		if few := share == 1; e.Few(&r) != few {
			t.Fatalf("%d of %d tokens are few: %v", len(r.Allowed), v.Len(), !few)
		}
		if got := e.Bias(&r, forbid, lift); !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
