package runner

import (
	"context"
	"fmt"

	"runner/backend"
)

// probe owns a lane that samples one token and keeps nothing.
type probe struct {
	done chan error
}

func (p *probe) started(*lane, int) {}

func (p *probe) accept(l *lane, _ *backend.Output) {
	l.done = true
	// The sequence is closed, so it stays free for the next probe. So probing an idle model evicts at most one
	// conversation from the cache.
	l.seq.Close()
	l.seq = nil
	p.done <- nil
}

func (p *probe) drafted(int, int) {}

func (p *probe) full(l *lane) {
	l.done = true
	p.done <- nil // the model works; there is only no room now
}

func (p *probe) failed(_ *lane, err error) { p.done <- err }

// Broken reports whether the model's engine failed so that no step can follow. Every request fails until the model is
// loaded again.
func (r *Runner) Broken() bool { return r.Failure() != nil }

// Failure returns the reason why Broken is true, or nil.
func (r *Runner) Failure() error {
	if err := r.sched.lost.Load(); err != nil {
		return *err
	}
	// An engine in a process of its own can also be lost between steps.
	if m, ok := r.model.(interface{ Failure() error }); ok {
		return m.Failure()
	}
	return nil
}

// Fail ends all runs with an error and marks the model as Broken. It is for a caller that learns elsewhere that the
// model is unusable.
func (r *Runner) Fail(ctx context.Context, why error) error {
	err := fmt.Errorf("%w: %w", backend.ErrBroken, why)
	return r.sched.do(ctx, func() {
		if r.sched.broken == nil {
			r.sched.breaks(err)
			r.sched.failAll(err)
		}
	})
}

// Probe steps the model by one token, to check that it still works. It waits like any request, but takes no place in
// the queue. The error is nil, the backend's, ErrClosed or the context's.
func (r *Runner) Probe(ctx context.Context) error {
	p := &probe{done: make(chan error, 1)}
	first := backend.Token(0)
	if bos := r.model.Vocab().BOS(); bos != backend.NoToken {
		first = bos
	}
	l := &lane{ctx: ctx, owner: p, tokens: []backend.Token{first}, aside: true}
	l.sampling.TopLogprobs = -1
	if err := r.sched.enter(l); err != nil {
		return err
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // the step hangs
	}
}
