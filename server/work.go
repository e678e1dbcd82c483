package server

import (
	"context"
	"sync"
	"time"

	"runner/generation/slots"
)

// work is a request's use of the processor beside its model: its body is read, checked and decoded, and the answer is
// written as JSON. The request holds a slot for that. It gives the slot back while it waits for a model or a client.
// The zero value has no slots and does nothing. Its methods may be called by several goroutines at once.
type work struct {
	slots     *slots.Slots
	principal string

	mu   sync.Mutex
	slot *slots.Slot // nil while the request has no work
	// begun says that the request has had work.
	begun bool
}

// begin waits for a slot and holds it until end. It does nothing if the request has one. The error is the cause of
// ctx's end.
func (w *work) begin(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slot != nil || w.slots == nil {
		return nil
	}
	slot, err := w.slots.Take(ctx, w.principal)
	if err == nil {
		w.slot, w.begun = slot, true
	}
	return err
}

// resume begins again for a request that has had work.
func (w *work) resume(ctx context.Context) error {
	w.mu.Lock()
	begun := w.begun
	w.mu.Unlock()
	if !begun {
		return nil
	}
	return w.begin(ctx)
}

// apart ends the work, calls f and resumes. f waits, or takes a slot itself: it could not get one while the request
// holds the only one that its principal may have.
func (w *work) apart(ctx context.Context, f func() error) error {
	w.end()
	if err := f(); err != nil {
		return err
	}
	return w.resume(ctx)
}

// close ends the work for good. What a request leaves in the background must not take a slot that nobody gives back.
func (w *work) close() {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots = nil
}

// end gives the slot back, if there is one.
func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slot != nil {
		w.slot.Give()
		w.slot = nil
	}
}

// pay charges the principal with work that was done without a slot. It waits for a slot unless the request has one.
func (w *work) pay(ctx context.Context, done time.Duration) error {
	if w.charge(done) {
		return nil
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	w.charge(done)
	w.end()
	return nil
}

// charge charges the slot and reports whether there is one.
func (w *work) charge(done time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slot == nil {
		return false
	}
	w.slot.Charge(done)
	return true
}
