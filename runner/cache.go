package runner

import (
	"errors"
	"slices"

	"runner/backend"
	"runner/chattemplate"
)

// shareAtLeast is the minimum common prefix for which forking a sequence in use is faster than another prefill.
const shareAtLeast = 16

// prefixCache keeps the sequences of finished runs. A request with the same beginning continues from one of them. Only
// the scheduler's goroutine uses it.
type prefixCache struct {
	model backend.Model
	idle  []idleSequence
	clock uint64
	// gone remembers sequences that an engine at an address may still have. mixes says that the engine does not keep the
	// principals' prompts apart.
	gone  *Crossings
	mixes bool
}

type idleSequence struct {
	seq       backend.Sequence
	origins   origins
	turns     []string
	principal string
	used      uint64
}

// acquire returns a sequence that holds the longest prefix of the lane's tokens that is available. It never holds all
// of them, because at least one token must be fed to get logits. Only the principal's own sequences are searched: the
// caller learns how much was cached, and that must not reveal what others asked, nor what is unseen ([shared]). It
// returns backend.ErrNoSequence when every sequence is in use.
func (c *prefixCache) acquire(to *lane, active []*lane) (seq backend.Sequence, err error) {
	limit := len(to.tokens) - 1
	if to.scoring != nil {
		limit = 0 // tokens that are not fed are not scored
	}
	of := func(tokens []backend.Token, with origins, turns []string) int {
		n, apart := shared(to.tokens, tokens, to.origins, with, to.related(turns), limit)
		to.apart = to.apart || apart
		return n
	}
	to.apart = to.apart || c.gone.cross(c.knownTo(to.principal), to)
	best, bestLen := -1, 0
	for i, s := range c.idle {
		own := s.principal == to.principal
		if !own && !c.mixes {
			continue
		}
		if n := of(s.seq.Tokens(), s.origins, s.turns); own && n > bestLen {
			best, bestLen = i, n
		}
	}
	var source backend.Sequence
	for _, l := range active {
		own := l.principal == to.principal
		if l.seq == nil || !own && !c.mixes {
			continue
		}
		if n := of(l.seq.Tokens(), l.origins, l.turns); own && n > bestLen && n >= shareAtLeast {
			source, bestLen = l.seq, n
		}
	}
	switch {
	case source != nil:
		switch seq, err = c.fork(source); {
		case errors.Is(err, backend.ErrCacheFull):
			return c.acquire(to, nil) // the prefix is fed again
		case err != nil:
			return nil, err
		}
	case best >= 0:
		seq = c.takeOrFork(best, bestLen)
	default:
		return c.fresh()
	}
	if _, err := seq.Truncate(bestLen); err != nil {
		seq.Close()
		return c.fresh()
	}
	return seq, nil
}

// remember notes the texts of a sequence that is given up or cut; see [Crossings.remember].
func (c *prefixCache) remember(principal string, tokens []backend.Token, of origins, next origin) {
	c.gone.remember(c.knownTo(principal), tokens, of, next)
}

// stray notes where the engine had gone another way than a lane. The token that the lane has there is known once it was
// fed; over says that no more tokens follow. The engine is never fed the last tokens of a lane that is over, so it may
// have gone another way at the first of them.
func (c *prefixCache) stray(l *lane, over bool) {
	q, ok := l.seq.(backend.Straying)
	if c.gone == nil || l.origins == nil || !ok {
		return
	}
	l.strayed = append(l.strayed, q.Strayed()...)
	if over && l.fed >= l.given && l.fed < len(l.tokens) {
		l.strayed = append(l.strayed, l.fed)
	}
	l.strayed = slices.DeleteFunc(l.strayed, func(at int) bool {
		if at >= len(l.tokens) && !over {
			return false
		}
		c.gone.stray(c.knownTo(l.principal), l.tokens, l.origins, at)
		return true
	})
}

// knownTo returns whose prompts the engine may use for a principal's: one name for all if it mixes them.
func (c *prefixCache) knownTo(principal string) string {
	if c.mixes {
		return ""
	}
	return principal
}

// takeOrFork takes idle sequence i. It takes a fork instead if more of the sequence would be lost than reused and
// there is room.
func (c *prefixCache) takeOrFork(i, keep int) backend.Sequence {
	of := c.idle[i]
	s := of.seq
	if len(s.Tokens()) > 2*keep {
		if f, err := s.Fork(); err == nil {
			return f
		}
	}
	c.idle = append(c.idle[:i], c.idle[i+1:]...)
	c.remember(of.principal, s.Tokens(), of.origins, 0)
	return s
}

func (c *prefixCache) fork(s backend.Sequence) (backend.Sequence, error) {
	for {
		f, err := s.Fork()
		if err == nil || !errors.Is(err, backend.ErrNoSequence) || !c.evict() {
			return f, err
		}
	}
}

func (c *prefixCache) fresh() (backend.Sequence, error) {
	for {
		s, err := c.model.NewSequence()
		if err == nil || !errors.Is(err, backend.ErrNoSequence) || !c.evict() {
			return s, err
		}
	}
}

// release keeps a lane's sequence for later, if it has one.
func (c *prefixCache) release(l *lane) {
	s := l.seq
	if s == nil {
		return
	}
	c.stray(l, true)
	next := ahead
	if l.unseen {
		next = 1 << chattemplate.Unseen
	}
	c.remember(l.principal, l.tokens, l.origins, next)
	if len(s.Tokens()) == 0 {
		s.Close()
		return
	}
	if p, ok := s.(backend.Pausing); ok {
		p.Pause()
	}
	c.clock++
	c.idle = append(c.idle, idleSequence{s, l.origins, l.turns, l.principal, c.clock})
}

// evict closes the idle sequence that was least recently used. It reports whether there was one.
func (c *prefixCache) evict() bool {
	if len(c.idle) == 0 {
		return false
	}
	oldest := 0
	for i := range c.idle {
		if c.idle[i].used < c.idle[oldest].used {
			oldest = i
		}
	}
	of := c.idle[oldest]
	c.remember(of.principal, of.seq.Tokens(), of.origins, 0)
	of.seq.Close()
	c.idle = append(c.idle[:oldest], c.idle[oldest+1:]...)
	return true
}

func (c *prefixCache) close() {
	for _, s := range c.idle {
		c.remember(s.principal, s.seq.Tokens(), s.origins, 0)
		s.seq.Close()
	}
	c.idle = nil
}

// outlived reports whether the engine may keep more than the runner does.
func (c *prefixCache) outlived() bool { return c.gone != nil }

func commonPrefix(a, b []backend.Token, limit int) int {
	n := min(len(a), len(b), limit)
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return max(n, 0)
}
