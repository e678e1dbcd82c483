package jsontext

import (
	"math/rand/v2"
	"testing"

	"runner/grammar/expr"
)

// sampler draws texts of an expression by random steps and finds a way out of any state.
type sampler struct {
	t   *testing.T
	rng *rand.Rand
	s   *expr.Set
}

func newSampler(t *testing.T, seed uint64) *sampler {
	return &sampler{t, rand.New(rand.NewPCG(seed, 7)), expr.NewSet()}
}

// draw returns a random text of id, of about want bytes.
func (w *sampler) draw(id expr.ID, want int) string {
	w.t.Helper()
	var text []byte
	for {
		if w.s.Nullable(id) && (len(text) >= want || w.rng.IntN(6) == 0) {
			return string(text)
		}
		if len(text) >= want {
			return string(text) + w.finish(id, text)
		}
		b, ok := w.step(id)
		if !ok {
			if !w.s.Nullable(id) {
				w.t.Fatalf("a dead end after %q", text)
			}
			return string(text)
		}
		text = append(text, b)
		id = w.s.Derive(id, b)
	}
}

// step returns a random byte that can come next, mostly ASCII if there is one.
func (w *sampler) step(id expr.ID) (byte, bool) {
	var plain, other []byte
	for b := range 256 {
		if w.s.Derive(id, byte(b)) == expr.Empty {
			continue
		}
		if b < 0x80 {
			plain = append(plain, byte(b))
		} else {
			other = append(other, byte(b))
		}
	}
	if len(plain) > 0 && (len(other) == 0 || w.rng.IntN(5) > 0) {
		return plain[w.rng.IntN(len(plain))], true
	}
	if len(other) > 0 {
		return other[w.rng.IntN(len(other))], true
	}
	return 0, false
}

// finish returns a shortest completion of a text that has reached id.
func (w *sampler) finish(id expr.ID, text []byte) string {
	w.t.Helper()
	type step struct {
		from int
		b    byte
	}
	states, steps := []expr.ID{id}, []step{{from: -1}}
	seen := map[expr.ID]bool{id: true}
	for i := 0; i < len(states) && len(states) < 20000; i++ {
		if w.s.Nullable(states[i]) {
			var out []byte
			for ; i > 0; i = steps[i].from {
				out = append(out, steps[i].b)
			}
			for a, b := 0, len(out)-1; a < b; a, b = a+1, b-1 {
				out[a], out[b] = out[b], out[a]
			}
			return string(out)
		}
		for b := range 256 {
			if d := w.s.Derive(states[i], byte(b)); d != expr.Empty && !seen[d] {
				seen[d] = true
				states, steps = append(states, d), append(steps, step{i, byte(b)})
			}
		}
	}
	w.t.Fatalf("no completion of %q", text)
	return ""
}
