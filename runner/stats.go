package runner

import (
	"sync/atomic"
	"time"

	"runner/generation"
)

// Stats returns the current statistics. Each value is read at its own moment.
func (r *Runner) Stats() generation.Stats {
	c := &r.sched.counts
	s := generation.Stats{
		Waiting: int(c.waiting.Load()), Active: int(c.active.Load()), Idle: int(c.idle.Load()),
		Paused: int(c.paused.Load()), Pauses: c.pauses.Load(),
		MaskTime: time.Duration(r.maskTime.Load()), Steps: c.steps.Load(), Tokens: c.tokens.Load(),
		Violations: r.violations.Load(), Drafted: c.drafted.Load(), Accepted: c.accepted.Load(),
	}
	if m, ok := r.model.(supervised); ok {
		e := &s.Engine
		e.Crashes, e.Hangs, e.Failed = m.Crashes()
		e.Memory = m.Memory()
	}
	if m, ok := r.model.(remoteModel); ok {
		e := &s.Remote
		e.Streams, e.Replaced, e.Faults, e.GaveUp = m.StreamCounts()
		e.Down, e.Other, e.FormsRefused = m.Down(), m.Other(), m.FormsRefused()
	}
	return s
}

// remoteModel is a model whose engine is on another machine. Its methods may be called from any goroutine.
type remoteModel interface {
	// StreamCounts returns how many generations were opened, how many tokens were replaced because a constraint did not
	// allow them, how many generations failed, and how many sequences were given up.
	StreamCounts() (opened, replaced, faults, gaveUp int64)
	// FormsRefused returns how many forms the engine refused to follow.
	FormsRefused() int64
	// Down reports whether the engine counts as down because it failed several times in a row.
	Down() bool
	// Other reports whether the engine runs another model than the one that was opened.
	Other() bool
}

// supervised is a model whose engine has a process of its own. Its methods may be called from any goroutine.
type supervised interface {
	// Crashes returns how many processes ended, how many of them hung, and how many sequences were given up.
	Crashes() (all, hangs, failed int64)
	// Memory returns how many bytes the process has in memory, or 0.
	Memory() int64
}

// counts are the scheduler's statistics, which other goroutines read.
type counts struct {
	waiting, active, idle, paused, pauses, steps, tokens, drafted, accepted atomic.Int64
}

// note updates the counts between two steps.
func (c *counts) note(s *scheduler) {
	c.waiting.Store(int64(len(s.waiting)))
	c.active.Store(int64(len(s.active)))
	c.idle.Store(int64(len(s.cache.idle)))
	c.paused.Store(int64(s.places.paused))
}

// stepped counts a step that succeeded.
func (c *counts) stepped(s *scheduler) {
	c.steps.Add(1)
	n := 0
	for i := range s.inputs {
		n += len(s.inputs[i].Tokens) + len(s.inputs[i].Drafts)
	}
	c.tokens.Add(int64(n))
}
