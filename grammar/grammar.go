// Package grammar says which tokens may come next so that a text has a given form. A form is a JSON Schema, any JSON
// object, a regular expression, a list of choices, a GBNF grammar, or a combination of these.
//
// [Compile] turns a [Source] into a [Grammar] for one [Vocabulary]. Any number of [Matcher] values can start from a
// grammar. A matcher follows one text. It implements [backend.Constraint].
//
// Compile refuses a source that cannot be enforced before anything is generated. An accepted source is exact: every
// complete text that a matcher accepts has the form, and every accepted prefix can be completed, if only with tokens of
// a single byte.
//
// Package expr matches the forms byte by byte. Masks walk the tries of the vocabulary along the states that are still
// possible, and keep the result for each state.
//
// The package works on tokens and bytes. It knows nothing of chat formats, channels or reasoning. The caller decides
// where in the output a constraint starts, and which tokens end the text once the matcher is done.
//
// Several goroutines may use a Grammar at once. Only one may use a Matcher at a time.
package grammar

import (
	"context"
	"runtime"
	"sync"

	"runner/grammar/expr"
)

// maxArena and maxMaskBytes limit the memory of a grammar, in bytes: of all its results, and of its masks.
const (
	maxArena     = 6 << 20
	maxMaskBytes = 2 << 20
)

// Grammar is a compiled form for one vocabulary.
type Grammar struct {
	vocab *Vocabulary
	build func(*expr.Set) expr.ID
	// static is the approximate size of the parts from which build makes expressions, in bytes.
	static int

	mu      sync.Mutex
	current *arena
}

// arena returns the current arena.
func (g *Grammar) arena() *arena {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current
}

// renew replaces old, which has grown too large.
func (g *Grammar) renew(old *arena) *arena {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == old {
		g.current = newArena(g.build)
		g.current.set.SetHorizon(g.vocab.longest)
	}
	return g.current
}

// Bytes returns the approximate memory of the grammar now, in bytes.
func (g *Grammar) Bytes() int {
	a := g.arena()
	a.mu.Lock()
	defer a.mu.Unlock()
	return g.static + a.size()
}

// Vocabulary returns the vocabulary that the grammar was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.vocab }

// warmWork is the maximum work of Warm that a matcher has to wait for, about 0.2 ms.
const warmWork = 2_000

// Warm prepares the first mask, which takes the longest, so that it is ready when needed. It stops when ctx ends. It
// does not make matchers wait long.
func (g *Grammar) Warm(ctx context.Context) {
	m := g.Matcher()
	for ctx.Err() == nil {
		if _, ready, err := m.Prepare(warmWork); ready || err != nil {
			return
		}
		runtime.Gosched()
	}
}

// Matcher returns a matcher at the start of the text.
func (g *Grammar) Matcher() *Matcher {
	a := g.arena()
	return &Matcher{grammar: g, arena: a, at: a.root}
}
