package contract

import (
	"slices"

	"runner/reasoning"
)

// Queue passes on the events of a run, except those that have to wait for a part of the reply that is sent before them.
type Queue struct {
	// Waits reports whether an event has to wait. To gets the others.
	Waits func(*reasoning.Event) bool
	To    func(*reasoning.Event)

	held []reasoning.Event
}

// Push takes the next event.
func (q *Queue) Push(e *reasoning.Event) {
	if q.Waits(e) {
		q.held = append(q.held, *e)
		return
	}
	q.To(e)
}

// Release passes on the events that waited, if they need not wait any more.
func (q *Queue) Release() {
	held := q.held
	q.held = nil
	for i := range held {
		q.Push(&held[i])
	}
}

// Holds reports whether events of a segment wait.
func (q *Queue) Holds(s reasoning.Segment) bool {
	return slices.ContainsFunc(q.held, func(e reasoning.Event) bool { return e.Segment == s })
}

// Empty reports whether no event waits.
func (q *Queue) Empty() bool { return len(q.held) == 0 }
