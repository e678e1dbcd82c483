package grammar

import (
	"context"
	"math/rand/v2"
	"slices"

	"runner/grammar/expr"
)

// Check reports why a source cannot be used with any vocabulary, or why its answers could not be validated, see
// [NewValidator]. The errors are those of Compile.
func Check(ctx context.Context, src Source) error {
	if _, _, err := src.prepare(ctx); err != nil {
		return err
	}
	schema := src.Schema()
	if schema == nil {
		return nil
	}
	if _, err := NewValidator(schema); err != nil {
		return &CompileError{Form: src.String(), Err: err}
	}
	return nil
}

// Samples returns up to n different texts that a source admits, for people to look at. They are random but fixed by
// seed, and short if the source allows. Integers are plain, as in generated answers.
func Samples(ctx context.Context, src Source, n int, seed uint64) ([]string, error) {
	f, _, err := src.Plain().prepare(ctx)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []string
	seen := map[string]bool{}
	for tries := 0; len(out) < n && tries < 8*n; tries++ {
		set := expr.NewSet()
		text, ok := sampleText(rng, set, f.build(set), 20+40*(tries%8))
		if ok && !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// sampleText takes random steps for about soft bytes and then the shortest way to an end.
func sampleText(rng *rand.Rand, set *expr.Set, id expr.ID, soft int) (string, bool) {
	var text []byte
	for len(text) < soft {
		if set.Nullable(id) && rng.IntN(2) == 0 {
			return string(text), true
		}
		b, ok := sampleByte(rng, set, id)
		if !ok {
			return string(text), set.Nullable(id)
		}
		text = append(text, b)
		id = set.Derive(id, b)
	}
	end, ok := shortest(set, id)
	return string(text) + end, ok
}

// sampleByte picks one of the bytes that may come next. It prefers letters if there are many, and sometimes an end, so
// that texts look natural and come to an end.
func sampleByte(rng *rand.Rand, set *expr.Set, id expr.ID) (byte, bool) {
	var all, letters, ends []byte
	for i := range 256 {
		b := byte(i)
		if set.Derive(id, b) == expr.Empty {
			continue
		}
		all = append(all, b)
		switch {
		case b >= 'a' && b <= 'z':
			letters = append(letters, b)
		case b == '"' || b == '}' || b == ']' || b == ',':
			ends = append(ends, b)
		}
	}
	switch {
	case len(all) == 0:
		return 0, false
	case len(ends) > 0 && rng.IntN(4) == 0:
		return ends[rng.IntN(len(ends))], true
	case len(letters) > 20:
		return letters[rng.IntN(len(letters))], true
	}
	return all[rng.IntN(len(all))], true
}

// maxSearch limits the states that shortest looks at.
const maxSearch = 20_000

// shortest returns a shortest text that completes id.
func shortest(set *expr.Set, id expr.ID) (string, bool) {
	type step struct {
		from int
		b    byte
		id   expr.ID
	}
	steps := []step{{from: -1, id: id}}
	seen := map[expr.ID]bool{id: true}
	for i := 0; i < len(steps) && len(steps) < maxSearch; i++ {
		if set.Nullable(steps[i].id) {
			var text []byte
			for at := i; steps[at].from >= 0; at = steps[at].from {
				text = append(text, steps[at].b)
			}
			slices.Reverse(text)
			return string(text), true
		}
		for b := range 256 {
			if d := set.Derive(steps[i].id, byte(b)); d != expr.Empty && !seen[d] {
				seen[d] = true
				steps = append(steps, step{i, byte(b), d})
			}
		}
	}
	return "", false
}
