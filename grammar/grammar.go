// Package grammar says which tokens may come next so that a text obeys a given form: a JSON Schema, any JSON object, a
// regular expression, a list of choices, or GBNF. Its matchers implement [backend.Constraint].
//
// A [Source] is compiled for a [Vocabulary] into a [Grammar], from which any number of [Matcher] values start. What
// can not be honoured is refused by [Compile], before anything is generated; what is accepted is exact: every text
// that a matcher lets through to the end obeys the source, and every prefix that it lets through can be completed,
// if only with single-byte tokens.
//
// The forms are matched byte by byte with package expr. Masks walk the vocabulary's tries along the states that are
// still alive, and what one state admits is kept.
//
// The package works on tokens and bytes and knows nothing of chat formats, channels or reasoning: who uses it
// decides where in the output a constraint starts, and which tokens end the text once the matcher is done.
//
// A Grammar may be used by several goroutines at once; a Matcher by one at a time.
package grammar

import (
	"context"
	"runtime"
	"sync"

	"runner/grammar/expr"
)

// maxArena and maxMaskBytes bound the memory of a grammar: of all that has been worked out about it, and of masks.
const (
	maxArena     = 6 << 20
	maxMaskBytes = 2 << 20
)

// Grammar is a compiled form for one vocabulary.
type Grammar struct {
	vocab *Vocabulary
	build func(*expr.Set) expr.ID
	// static is about how many bytes the parts take from which build makes expressions.
	static int

	mu      sync.Mutex
	current *arena
}

// arena returns the arena to use now.
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

// Bytes returns about how much memory the grammar takes now.
func (g *Grammar) Bytes() int {
	a := g.arena()
	a.mu.Lock()
	defer a.mu.Unlock()
	return g.static + a.size()
}

// Vocabulary returns the vocabulary that the grammar was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.vocab }

// warmWork is the work of Warm for which a matcher has to wait at most, about 0.2 ms.
const warmWork = 2_000

// Warm works out what the first state admits, which takes the longest, so that the first mask is ready when it is
// needed. It stops when ctx ends, and does not keep matchers waiting.
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
