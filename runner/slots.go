package runner

import (
	"context"
	"slices"
	"sync"

	"runner/generation"
)

// slots bounds how many do heavy work at once that comes before a run: rendering a prompt, tokenizing it, compiling
// forms. A slot goes to the principal that holds the fewest, then to the one that was served longest ago, so that
// nobody's many requests keep another's one waiting. No principal ever holds all of several, so that its slow work
// leaves one for the others.
type slots struct {
	mu         sync.Mutex
	free, most int // most is how many one principal may hold
	waiting    []*slotWaiter
	// of is how many slots each principal holds, and served when it got the last one, as a number that grows.
	of     map[string]int
	served map[string]uint64
	clock  uint64
}

type slotWaiter struct {
	principal string
	granted   chan struct{}
}

func newSlots(n int) *slots {
	return &slots{free: n, most: max(1, n-1), of: map[string]int{}, served: map[string]uint64{}}
}

// take waits for a slot, which give returns, or for the end of ctx, whose cause it returns.
func (s *slots) take(ctx context.Context, principal string) error {
	w := &slotWaiter{principal, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil // what needs no waiting does not fail here
	default:
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.put(principal)
	}
	return context.Cause(ctx)
}

// inSlot runs f, which does heavy work for a principal, as soon as there is a slot. The model is not closed meanwhile.
// The errors are f's, the cause of ctx's end and ErrClosed.
func (r *Runner) inSlot(ctx context.Context, principal string, f func() error) error {
	if err := r.slots.take(ctx, principal); err != nil {
		return err
	}
	defer r.slots.give(principal)
	r.using.RLock()
	defer r.using.RUnlock()
	if r.sched.stop.Err() != nil {
		return generation.ErrClosed
	}
	return f()
}

// give returns a slot of a principal.
func (s *slots) give(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(principal)
}

func (s *slots) put(principal string) {
	s.free++
	if s.of[principal]--; s.of[principal] == 0 {
		delete(s.of, principal)
	}
	s.grant()
}

// next says who of those that wait is served next, -1 for none.
func (s *slots) next() int {
	next := -1
	for i, w := range s.waiting {
		of := s.of[w.principal]
		if of >= s.most {
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
	return next
}

// grant hands out what is free.
func (s *slots) grant() {
	for s.free > 0 {
		next := s.next()
		if next < 0 {
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.free--
		s.clock++
		s.of[w.principal]++
		s.served[w.principal] = s.clock
		close(w.granted)
	}
}
