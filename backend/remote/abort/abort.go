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
	waiting []generation
	sending bool
}

// generation is one that is to end. then, if not nil, is called when the engine was asked to.
type generation struct {
	id   string
	then func()
}

// New returns a queue. send sends one message.
func New(send func(ctx context.Context, ids []string)) *Queue { return &Queue{send: send} }

// Add asks to end a generation. It does not wait.
func (q *Queue) Add(id string) { q.AddThen(id, nil) }

// AddThen is Add that calls a function when the message was sent or was given up.
func (q *Queue) AddThen(id string, then func()) {
	q.mu.Lock()
	var dropped func()
	if len(q.waiting) == mostWaiting {
		dropped = q.waiting[0].then
		q.waiting = append(q.waiting[:0], q.waiting[1:]...)
	}
	q.waiting = append(q.waiting, generation{id, then})
	if !q.sending {
		q.sending = true
		go q.run()
	}
	q.mu.Unlock()
	if dropped != nil {
		dropped()
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
		now := append([]generation(nil), q.waiting[:n]...)
		q.waiting = append(q.waiting[:0], q.waiting[n:]...)
		q.mu.Unlock()
		ids := make([]string, n)
		for i := range now {
			ids[i] = now[i].id
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		q.send(ctx, ids)
		cancel()
		for _, g := range now {
			if g.then != nil {
				g.then()
			}
		}
	}
}
