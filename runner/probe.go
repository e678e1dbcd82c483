package runner

import (
	"context"
	"fmt"

	"runner/backend"
)

// probe is a lane that samples one token and keeps nothing.
type probe struct {
	done chan error
}

func (p *probe) started(*lane, int) {}

func (p *probe) accept(l *lane, _ *backend.Output) {
	l.done = true
	// Its place stays free for the next probe, so that probing an idle model costs no more than one conversation in
	// the cache.
	l.seq.Close()
	l.seq = nil
	p.done <- nil
}

func (p *probe) full(l *lane) {
	l.done = true
	p.done <- nil // the model answers; it only has no room now
}

func (p *probe) failed(_ *lane, err error) { p.done <- err }

// Broken reports whether the model's engine has failed so that no step can follow. Every request fails until the
// model is loaded again.
func (r *Runner) Broken() bool { return r.Failure() != nil }

// Failure returns why Broken is true, or nil.
func (r *Runner) Failure() error {
	if err := r.sched.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Fail ends all runs with an error, and from then on the model is Broken. It is for whoever learns from elsewhere
// that the model cannot be used any more.
func (r *Runner) Fail(ctx context.Context, why error) error {
	err := fmt.Errorf("%w: %w", backend.ErrBroken, why)
	return r.sched.do(ctx, func() {
		if r.sched.broken == nil {
			r.sched.breaks(err)
			r.sched.failAll(err)
		}
	})
}

// Probe steps the model by one token, to see whether it still can. It waits its turn like any request, without a
// place in the queue. The error is nil, the backend's, ErrClosed or the context's.
func (r *Runner) Probe(ctx context.Context) error {
	p := &probe{done: make(chan error, 1)}
	first := backend.Token(0)
	if bos := r.model.Vocab().BOS(); bos != backend.NoToken {
		first = bos
	}
	l := &lane{ctx: ctx, owner: p, tokens: []backend.Token{first}, aside: true}
	l.sampling.TopLogprobs = -1
	var broken error
	if err := r.sched.do(ctx, func() {
		if broken = r.sched.broken; broken == nil {
			r.sched.add(l, false)
		}
	}); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // a step that hangs
	}
}
