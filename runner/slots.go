package runner

import (
	"context"
	"slices"
	"sync"
)

// slots limits how many requests prepare a run at the same time: render a prompt, tokenize it or compile forms. A free
// slot goes to the principal that holds the fewest slots. Among equals it goes to the one that was served longest ago.
// So a principal with many requests does not keep others waiting. If there are several slots, no principal can hold
// all of them. So slow work of one principal leaves a slot for the others.
type slots struct {
	mu         sync.Mutex
	free, most int // most is the limit of one principal
	waiting    []*slotWaiter
	// of is the number of slots that each principal holds. served is the value of clock when it last got one.
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

// take waits for a slot, which give returns. If ctx ends first, it returns the cause.
func (s *slots) take(ctx context.Context, principal string) error {
	w := &slotWaiter{principal, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil // a free slot is granted even if ctx has ended
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

// give returns a principal's slot.
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

// next returns the index of the waiter to serve next, or -1.
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

// grant hands out the free slots.
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
