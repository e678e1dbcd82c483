package runner

import (
	"sync"
	"time"

	"runner/reasoning"
)

// stream carries events from the scheduler to one reader. Writing never blocks, so a slow reader delays nobody. The
// number of unread events is bounded by the run's token limit. Two buffers alternate, so a steady stream does not
// allocate.
type stream struct {
	mu     sync.Mutex
	events []reasoning.Event
	closed bool
	err    error
	// wake holds at most one signal that there is something to read.
	wake chan struct{}
	// due says that the scheduler will signal. It belongs to the scheduler's goroutine.
	due bool
}

func newStream() *stream { return &stream{wake: make(chan struct{}, 1)} }

// send appends an event and wakes the reader. After close it does nothing.
func (s *stream) send(e reasoning.Event) {
	s.add(e)
	s.signal()
}

// add appends an event. Call signal afterwards. After close it does nothing.
func (s *stream) add(e reasoning.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.events = append(s.events, e)
	}
}

// empty reports whether nothing is there to read, and more may come.
func (s *stream) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events) == 0 && !s.closed
}

// close ends the stream. The reader gets err after the events that were sent before.
func (s *stream) close(err error) {
	s.mu.Lock()
	if !s.closed {
		s.closed, s.err = true, err
	}
	s.mu.Unlock()
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for events and returns those sent since the last call. free is the slice that the last call returned; its
// memory is reused. At the end of the stream, next returns no events, end and the error passed to close. If tick fires
// first, it returns no events. A nil tick never fires.
func (s *stream) next(free []reasoning.Event, tick <-chan time.Time) (events []reasoning.Event, end bool, err error) {
	for {
		s.mu.Lock()
		if len(s.events) > 0 {
			events, s.events = s.events, free[:0]
			s.mu.Unlock()
			return events, false, nil
		}
		end, err = s.closed, s.err
		s.mu.Unlock()
		if end {
			return nil, true, err
		}
		select {
		case <-s.wake:
		case <-tick:
			return free[:0], false, nil
		}
	}
}
