// Package abort tells an engine which generations to end. Engines also end a generation when its connection drops, but
// a proxy between can hide that. So an abort is sent in the background, and its failure is not reported.
package abort

import (
	"context"
	"sync"
	"time"
)

const (
	// mostWaiting is how many ids wait at most. The oldest are dropped.
	mostWaiting = 4096
	// mostAtOnce is how many ids one message has at most.
	mostAtOnce = 64
	// patience is how long one message may take.
	patience = 5 * time.Second
)

// Queue collects the ids of generations and sends them one message after the other. It is safe for concurrent use.
type Queue struct {
	send func(ctx context.Context, ids []string)

	mu      sync.Mutex
	waiting []string
	sending bool
}

// New returns a queue. send sends one message.
func New(send func(ctx context.Context, ids []string)) *Queue { return &Queue{send: send} }

// Add asks to end a generation. It does not wait.
func (q *Queue) Add(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == mostWaiting {
		q.waiting = append(q.waiting[:0], q.waiting[1:]...)
	}
	q.waiting = append(q.waiting, id)
	if !q.sending {
		q.sending = true
		go q.run()
	}
}

// run sends messages until nothing waits.
func (q *Queue) run() {
	for {
		q.mu.Lock()
		n := min(len(q.waiting), mostAtOnce)
		if n == 0 {
			q.sending = false
			q.mu.Unlock()
			return
		}
		ids := append([]string(nil), q.waiting[:n]...)
		q.waiting = append(q.waiting[:0], q.waiting[n:]...)
		q.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		q.send(ctx, ids)
		cancel()
	}
}
