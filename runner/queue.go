package runner

import "sync"

// queue counts the requests that wait or are under way and bounds how many that are. Once it is full, a principal that has none may still
// enter with one, so that nobody shuts another out; with all of these there are never more than twice as many.
type queue struct {
	most int

	mu    sync.Mutex
	total int
	of    map[string]int
}

func newQueue(most int) *queue { return &queue{most: most, of: map[string]int{}} }

// enter counts a request of a principal, who leaves again, or reports false.
func (q *queue) enter(principal string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= 2*q.most || q.total >= q.most && q.of[principal] > 0 {
		return false
	}
	q.total++
	q.of[principal]++
	return true
}

func (q *queue) leave(principal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.of[principal]--; q.of[principal] == 0 {
		delete(q.of, principal)
	}
}
