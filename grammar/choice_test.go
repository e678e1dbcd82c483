package grammar

import (
	"slices"
	"testing"

	"runner/backend"
)

func TestChoiceAdmitsExactlyItsChoices(t *testing.T) {
	choices := [][]backend.Token{{1, 2, 3}, {1, 2}, {4}, {1, 5}}
	c, err := NewChoice(choices...)
	if err != nil {
		t.Fatal(err)
	}
	mask := backend.NewMask(8)
	var got [][]backend.Token
	var walk func(path []backend.Token)
	walk = func(path []backend.Token) {
		c.Reset()
		for _, tok := range path {
			if !c.Accept(tok) {
				t.Fatalf("%v refused after it was allowed", path)
			}
		}
		if c.Done() {
			got = append(got, slices.Clone(path))
		}
		c.Fill(mask)
		allowed := 0
		for tok := backend.Token(0); tok < 8; tok++ {
			if c.Allows(tok) != mask.Has(tok) {
				t.Fatalf("after %v: Allows(%d) and Fill disagree", path, tok)
			}
			if mask.Has(tok) {
				allowed++
			}
		}
		if tok, forced := c.Forced(); forced != (allowed == 1) || forced && !mask.Has(tok) {
			t.Fatalf("after %v: forced %v %v of %d allowed", path, tok, forced, allowed)
		}
		for tok := backend.Token(0); tok < 8; tok++ {
			if mask.Has(tok) {
				walk(append(slices.Clone(path), tok))
				c.Reset()
				for _, p := range path {
					c.Accept(p)
				}
				c.Fill(mask)
			}
		}
	}
	walk(nil)
	slices.SortFunc(got, slices.Compare)
	slices.SortFunc(choices, slices.Compare)
	if !slices.EqualFunc(got, choices, slices.Equal) {
		t.Fatalf("admitted %v, want %v", got, choices)
	}
	c.Reset()
	if c.Accept(7) || !c.Accept(4) {
		t.Fatal("a refused token changed the state")
	}
	if _, err := NewChoice(); err == nil {
		t.Error("no choices accepted")
	}
	if _, err := NewChoice(nil); err == nil {
		t.Error("empty choice accepted")
	}
}
