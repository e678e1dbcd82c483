package runner

import (
	"context"

	"runner/backend"
)

// lane is one sequence's way through the scheduler: tokens to feed, then a token sampled per step. A run's main
// output is a lane, and so is its summary pass.
type lane struct {
	ctx   context.Context
	owner laneOwner
	// seq is nil while the lane waits for one.
	seq backend.Sequence
	// tokens is the whole sequence as it shall be: what the engine holds already, then what is to be fed.
	tokens []backend.Token
	fed    int

	// scoring scores the prompt while it is fed; nil scores nothing.
	scoring *scoring
	// silent lanes end with their prompt: nothing is sampled after it.
	silent bool

	sampling   backend.Sampling
	constraint backend.Constraint
	// hidden, when not nil, sums up hidden states instead: the lane embeds its tokens, and samples nothing.
	hidden []float64
	// piece says when the last piece was embedded, as a number that grows.
	piece uint64
	// unready says that the constraint does not know yet what may come next, so that nothing can be sampled.
	unready bool

	// principal is who asked for it. Prefixes are not shared between principals.
	principal string
	// aside lanes belong to a run that has another: they do not count as one, and wait for nobody.
	aside bool
	// begun lanes go on with a run that is under way.
	begun bool

	// age orders lanes by admission; the youngest yields when the cache is full.
	age uint64
	// done lanes leave at the end of the step.
	done bool
}

// laneOwner is told what happens to a lane, on the scheduler's goroutine.
type laneOwner interface {
	// started is called when the lane got its sequence, with the number of tokens that were cached.
	started(l *lane, cached int)
	// accept takes the sampled token: it appends what is to be fed next to l.tokens, or sets l.done.
	accept(l *lane, out *backend.Output)
	// full is called when the lane cannot go on because the context or the cache has no room; it sets l.done.
	full(l *lane)
	// failed is called when the lane ends early; the lane is done.
	failed(l *lane, err error)
}

func (l *lane) pending() int { return len(l.tokens) - l.fed }
