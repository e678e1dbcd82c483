package runner

import (
	"runner/generation"
	"sync"
)

// queue bounds how many requests there are: those that wait or are under way, and beside them those that are over
// and whose events have not all been read, so that a slow reader keeps nobody waiting and its memory is bounded all
// the same.
type queue struct {
	mu      sync.Mutex
	running tally
	unread  tally
}

func newQueue(most int) *queue { return &queue{running: newTally(most), unread: newTally(most)} }

// Enter takes a place in the queue for what is no run, and returns what gives it back, which is harmless to call
// twice; or ErrQueueFull.
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
	// in is what the request counts in; nil when it has left.
	in *tally
}

// enter gives a request of a principal a place, or nil when there is none.
func (q *queue) enter(principal string) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running.enter(principal) {
		return nil
	}
	return &ticket{queue: q, principal: principal, in: &q.running}
}

// over says that the run has ended. When too many others have not been read either, the request keeps its place
// until it leaves.
func (t *ticket) over() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.in == &q.running && q.unread.enter(t.principal) {
		q.running.leave(t.principal)
		t.in = &q.unread
	}
}

// leave gives the place up. Leaving twice is harmless.
func (t *ticket) leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.in != nil {
		t.in.leave(t.principal)
		t.in = nil
	}
}

// tally counts requests and bounds them. Once it is full, a principal that has none may still enter with one, so
// that nobody shuts another out; with all of these there are never more than twice as many.
type tally struct {
	most, total int
	of          map[string]int
}

func newTally(most int) tally { return tally{most: most, of: map[string]int{}} }

func (t *tally) enter(principal string) bool {
	if t.total >= 2*t.most || t.total >= t.most && t.of[principal] > 0 {
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
