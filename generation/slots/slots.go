// Package slots shares the processor among requests while they are read, checked and prepared, so that the work of one
// principal neither keeps others waiting nor slows down the runs of others.
//
// A slot is held by a goroutine that computes, never by one that waits for a client or a model. All models and the
// server of a process have the same slots. The methods of a type here may be called by several goroutines at once.
package slots

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// restFactor is how many times as long as it has worked a principal rests while others run: it then has a quarter of
	// the time of a processor. brief is the rest that nobody has to take, and longest the maximum.
	restFactor = 3
	brief      = 20 * time.Millisecond
	longest    = time.Second
	// remembered is how long after its rest the order of a principal counts.
	remembered = time.Second
)

// Slots limits how many requests are worked on at the same time. A free slot goes to the principal that holds the
// fewest slots. Among equals it goes to the one that was served longest ago. So a principal with many requests does not
// keep others waiting. If there are several slots, no principal can hold all of them. So slow work of one principal
// leaves a slot, and with it a processor, for the others.
//
// A principal that has worked rests while runs of others are under way, see [Slots.Run].
type Slots struct {
	clock func() time.Time

	mu         sync.Mutex
	free, most int // most is the limit of one principal
	waiting    []*waiter
	// of is the number of slots that each principal holds. served is the value of count when it last got one. After
	// remembered, it counts as one that never got any.
	of     map[string]int
	served map[string]uint64
	count  uint64
	// runs counts the runs of each principal. rested is when each principal that has worked has rested.
	runs   map[string]int
	rested map[string]time.Time
	// alarm looks for waiters that have rested.
	alarm *time.Timer
}

type waiter struct {
	principal string
	granted   chan struct{}
}

// New returns n slots. 0 means as many as there are processors, but at least two: even on one processor, a principal
// leaves a slot for others.
func New(n int) *Slots {
	if n == 0 {
		n = max(2, runtime.GOMAXPROCS(0))
	}
	return &Slots{
		clock: time.Now, free: n, most: max(1, n-1), of: map[string]int{}, served: map[string]uint64{},
		runs: map[string]int{}, rested: map[string]time.Time{},
	}
}

// Slot is a slot that a principal holds.
type Slot struct {
	in        *Slots
	principal string
	since     time.Time
}

// Take waits for a slot. If ctx ends first, it returns the cause.
func (s *Slots) Take(ctx context.Context, principal string) (*Slot, error) {
	w := &waiter{principal, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted: // a free slot is granted even if ctx has ended
		return &Slot{s, principal, s.clock()}, nil
	default:
	}
	select {
	case <-w.granted:
		return &Slot{s, principal, s.clock()}, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.put(principal)
	}
	return nil, context.Cause(ctx)
}

// Charge counts work of a slot's principal that was done without the slot.
func (t *Slot) Charge(work time.Duration) { t.since = t.since.Add(-work) }

// Give gives the slot back. It must be called once.
func (t *Slot) Give() {
	s := t.in
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	rested := s.rested[t.principal]
	if rested.Before(now) {
		rested = now
	}
	if rested = rested.Add(restFactor * now.Sub(t.since)); rested.Sub(now) > longest {
		rested = now.Add(longest)
	}
	s.rested[t.principal] = rested
	s.forget(now)
	s.put(t.principal)
}

// forget drops principals that have rested for so long that they are equal to new ones.
func (s *Slots) forget(now time.Time) {
	for principal, rested := range s.rested {
		if now.Sub(rested) > remembered {
			delete(s.rested, principal)
			delete(s.served, principal)
		}
	}
}

// Run says that a run of a principal is under way until end is called. Work of other principals gives way to it: after
// working they rest for longer than they have worked, or until the run ends.
func (s *Slots) Run(principal string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[principal]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.runs[principal]--; s.runs[principal] == 0 {
			delete(s.runs, principal)
		}
		s.grant()
	}
}

func (s *Slots) put(principal string) {
	s.free++
	if s.of[principal]--; s.of[principal] == 0 {
		delete(s.of, principal)
	}
	s.grant()
}

// rest returns how long a principal still has to rest: at most until the runs of others have ended.
func (s *Slots) rest(principal string, now time.Time) time.Duration {
	left := s.rested[principal].Sub(now)
	others := len(s.runs)
	if s.runs[principal] > 0 {
		others--
	}
	if left <= brief || others == 0 {
		return 0
	}
	return left - brief
}

// next returns the index of the waiter to serve next, or -1. If all have to rest, it returns how long the first does.
func (s *Slots) next(now time.Time) (next int, wait time.Duration) {
	next = -1
	for i, w := range s.waiting {
		of := s.of[w.principal]
		if of >= s.most {
			continue
		}
		if left := s.rest(w.principal, now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if next < 0 {
			next = i
			continue
		}
		best := s.waiting[next].principal
		if fewest := s.of[best]; of < fewest || of == fewest && s.served[w.principal] < s.served[best] {
			next = i
		}
	}
	return next, wait
}

// grant hands out the free slots.
func (s *Slots) grant() {
	for s.free > 0 && len(s.waiting) > 0 {
		next, wait := s.next(s.clock())
		if next < 0 {
			if wait > 0 {
				s.wake(wait)
			}
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.free--
		s.count++
		s.of[w.principal]++
		s.served[w.principal] = s.count
		close(w.granted)
	}
}

// wake calls grant again after some time.
func (s *Slots) wake(after time.Duration) {
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.alarm = time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.grant()
	})
}
