package grammar

import (
	"context"
	"os"
	"strings"
	"testing"

	"runner/backend"
	"runner/grammar/expr"
	"runner/grammar/suitetest"
	"runner/testenv"
)

// inTokens feeds a text as tokens and reports whether it is accepted to its end. Now and then it checks that the mask
// agrees.
func inTokens(t *testing.T, g *Grammar, text string, mask backend.Mask) bool {
	t.Helper()
	tokens, err := g.vocab.tokenize(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	m := g.Matcher()
	for i, tok := range tokens {
		if i%5 == 0 {
			m.Fill(mask)
			if mask.Has(tok) != m.Allows(tok) {
				t.Errorf("%q, token %d: the mask says %v", text, i, mask.Has(tok))
			}
		}
		if !m.Accept(tok) {
			return false
		}
	}
	return m.Done() && m.Accepted() == len(tokens)
}

// inBytes reports whether a text is accepted byte by byte.
func inBytes(g *Grammar, text string) bool {
	a := g.arena()
	a.mu.Lock()
	defer a.mu.Unlock()
	id := a.feedText(a.root, text)
	return id != expr.Empty && a.set.Nullable(id)
}

// TestSuiteInTokens runs the official suite with gpt-oss's vocabulary. A valid instance is accepted as tokens if it is
// accepted as bytes, and no invalid one is. The tests of package jsonschema list which valid instances are refused, and
// why.
func TestSuiteInTokens(t *testing.T) {
	testenv.SkipRaced(t)
	list := suitetest.Official(t)
	v := o200k(t)
	mask := backend.NewMask(v.Len())
	schemas, accepted, invalid := 0, 0, 0
	for _, group := range list {
		g, err := Compile(context.Background(), JSONSchema(group.Schema), v)
		if err != nil {
			continue
		}
		schemas++
		for _, c := range group.Instances {
			for _, text := range []string{spaced(c.Data), strings.TrimSpace(string(c.Data))} {
				got := inTokens(t, g, text, mask)
				if got != inBytes(g, text) {
					t.Errorf("%s | %s: tokens and bytes differ on %s", group.Name, c.Name, text)
				}
				if got && !c.Valid {
					t.Errorf("%s | %s: %s is invalid and accepted", group.Name, c.Name, text)
				}
				if got {
					accepted++
				} else if !c.Valid {
					invalid++
				}
			}
		}
	}
	t.Logf("%d schemas: %d texts accepted, %d invalid ones refused", schemas, accepted, invalid)
	if schemas < 300 || accepted < 900 || invalid < 800 {
		t.Error("fewer than there should be")
	}
}

// TestMaskbenchInTokens feeds the instances of real schemas with gpt-oss's vocabulary: a quarter of them, or all with
// RUNNER_LONG.
func TestMaskbenchInTokens(t *testing.T) {
	testenv.SkipRaced(t)
	samples := maskbench(t)
	v := o200k(t)
	mask := backend.NewMask(v.Len())
	step := 4
	if os.Getenv("RUNNER_LONG") != "" {
		step = 1
	}
	schemas, accepted, differ := 0, 0, 0
	for i := 0; i < len(samples); i += step {
		s := samples[i]
		g, err := Compile(context.Background(), JSONSchema(s.schema), v)
		if err != nil {
			continue
		}
		schemas++
		for _, text := range s.valid {
			got := inTokens(t, g, text, mask)
			if got != inBytes(g, text) {
				t.Errorf("%s: tokens and bytes differ", s.name)
			}
			if got {
				accepted++
			} else {
				differ++ // its keys are in another order than the schema's
			}
		}
		for _, text := range s.invalid {
			if inTokens(t, g, text, mask) {
				t.Errorf("%s: an invalid instance is accepted", s.name)
			}
		}
	}
	t.Logf("%d of %d schemas compile; %d valid instances accepted as they are, %d have their keys in another order",
		schemas, (len(samples)+step-1)/step, accepted, differ)
	if schemas*step < len(samples)*9/10 || differ*8 > accepted {
		t.Error("too few")
	}
}
