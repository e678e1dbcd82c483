package runner

import (
	"sync"

	"runner/generation"
)

// queue limits the number of requests. running counts those that wait or run. unread counts finished requests with
// unread events. They are counted apart so that a slow reader keeps nobody waiting, and limited so that their memory
// is bounded.
type queue struct {
	mu      sync.Mutex
	running tally
	unread  tally
	// entered is called whenever a request comes.
	entered func()
}

func newQueue(most int, entered func()) *queue {
	return &queue{running: newTally(most), unread: newTally(most), entered: entered}
}

// Enter takes a place in the queue for work that is not a run. It returns a function that gives the place back, or
// ErrQueueFull. Calling the function twice is harmless.
func (r *Runner) Enter(principal string) (leave func(), err error) {
	t := r.queue.enter(principal)
	if t == nil {
		return nil, generation.ErrQueueFull
	}
	return t.leave, nil
}

// ticket is a request's place in a queue.
type ticket struct {
	queue     *queue
	principal string
	// in is the tally that counts the request; nil after leave.
	in *tally
}

// enter returns a place for a principal's request, or nil if there is none.
func (q *queue) enter(principal string) *ticket {
	q.entered()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running.enter(principal) {
		return nil
	}
	return &ticket{queue: q, principal: principal, in: &q.running}
}

// over marks the run as finished. If there are too many unread requests, the request keeps its place until it leaves.
func (t *ticket) over() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.in == &q.running && q.unread.enter(t.principal) {
		q.running.leave(t.principal)
		t.in = &q.unread
	}
}

// leave gives up the place. Leaving twice is harmless.
func (t *ticket) leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.in != nil {
		t.in.leave(t.principal)
		t.in = nil
	}
}

// tally counts requests and limits them. Once it is full, a principal may still enter as many as its share of another
// most, and at least one, so that nobody can shut others out. The total never exceeds twice the limit.
type tally struct {
	most, total int
	of          map[string]int
}

func newTally(most int) tally { return tally{most: most, of: map[string]int{}} }

func (t *tally) enter(principal string) bool {
	mine, known := t.of[principal]
	principals := len(t.of)
	if !known {
		principals++
	}
	if t.total >= 2*t.most || t.total >= t.most && mine >= max(1, t.most/principals) {
		return false
	}
	t.total++
	t.of[principal]++
	return true
}

func (t *tally) leave(principal string) {
	t.total--
	if t.of[principal]--; t.of[principal] == 0 {
		delete(t.of, principal)
	}
}
