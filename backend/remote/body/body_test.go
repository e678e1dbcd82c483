package body

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"runner/backend"
)

// TestSumAddsUp checks a sum of random entries against a sum by map.
func TestSumAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var list []backend.TokenBias
		want := map[backend.Token]float32{}
		forbidden := map[backend.Token]bool{}
		for range rng.IntN(20) {
			x := backend.TokenBias{Token: backend.Token(rng.IntN(6)), Bias: float32(rng.IntN(9) - 4)}
			if rng.IntN(5) == 0 {
				x.Bias = -100 - float32(rng.IntN(2))
				forbidden[x.Token] = true
			}
			want[x.Token] += x.Bias
			list = append(list, x)
		}
		before := slices.Clone(list)
		got := Sum(list, -50)
		if !slices.Equal(list, before) {
			t.Fatal("the argument was changed")
		}
		for i, x := range got {
			w := want[x.Token]
			if forbidden[x.Token] {
				w = -50
			}
			if x.Bias != w || i > 0 && got[i-1].Token >= x.Token {
				t.Fatalf("%v of %v", got, list)
			}
			delete(want, x.Token)
		}
		if len(want) > 0 {
			t.Fatalf("%v of %v", got, list)
		}
		var read map[backend.Token]float32
		if err := json.Unmarshal(Bias(nil, got), &read); err != nil || len(read) != len(got) {
			t.Fatalf("%s: %v", Bias(nil, got), err)
		}
	}
}

func TestOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := rng.IntN(40)
		var in, out []backend.Token
		for i := range backend.Token(n) {
			if rng.IntN(2) == 0 {
				in = append(in, i)
			} else {
				out = append(out, i)
			}
		}
		if got := Others(in, n); !slices.Equal(got, out) {
			t.Fatalf("%v without %v: %v", n, in, got)
		}
		var read []backend.Token
		if err := json.Unmarshal(Tokens(nil, in), &read); err != nil || !slices.Equal(read, in) {
			t.Fatalf("%s: %v", Tokens(nil, in), err)
		}
	}
}

func TestTextAndFloat(t *testing.T) {
	var s string
	if err := json.Unmarshal(Text(nil, "a\"\n🙂"), &s); err != nil || s != "a\"\n🙂" {
		t.Errorf("%q, %v", s, err)
	}
	for _, want := range []float32{0, 1e-7, 0.7, 100, -3.5e9} {
		var got float32
		if err := json.Unmarshal(Float(nil, want), &got); err != nil || got != want {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
}
