package remote

import (
	"errors"
	"sync"
	"time"

	"runner/backend/remote/web"
)

const (
	// tripAfter is how many faults in a row open the breaker, and tripFor how long it stays open.
	tripAfter = 8
	tripFor   = 2 * time.Second
)

// breaker keeps requests from an engine that fails again and again. While it is open, nothing is sent. Then one request
// is let through as a test.
type breaker struct {
	mu     sync.Mutex
	faults int
	// since is when the first of the faults came, and until is when a test may be made.
	since, until time.Time
	// testing means that a test is under way.
	testing bool
}

// errOpen is the error while the breaker is open.
var errOpen = &web.Error{Kind: web.Unreachable, Detail: "it failed several times in a row"}

// allow returns an error if the engine is not to be asked now.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.faults < tripAfter:
		return nil
	case time.Now().Before(b.until), b.testing:
		return errOpen
	}
	b.testing = true
	return nil
}

// giveUp says that a request ended before it showed anything, because its caller left.
func (b *breaker) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.testing = false
}

// note records how a request went: nil when its first token came.
func (b *breaker) note(err error) {
	var e *web.Error
	b.mu.Lock()
	defer b.mu.Unlock()
	b.testing = false
	if !errors.As(err, &e) || !e.Temporary() || e.Kind == web.Busy {
		b.faults = 0
		return
	}
	if b.faults == 0 {
		b.since = time.Now()
	}
	if b.faults++; b.faults >= tripAfter {
		b.until = time.Now().Add(tripFor)
	}
}

// downFor returns for how long the engine has failed, or 0 if the breaker is not open. Requests need not wait for an
// engine that has been down for long.
func (b *breaker) downFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults < tripAfter {
		return 0
	}
	return time.Since(b.since)
}

// open reports whether the breaker is open.
func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults >= tripAfter
}

// retry says when a request is tried again.
type retry struct {
	// patience is how long requests are tried again after a fault, and deadline when that is over. It is zero until a
	// fault.
	patience time.Duration
	deadline time.Time
	wait     time.Duration
}

const (
	firstWait = 50 * time.Millisecond
	longWait  = 2 * time.Second
)

// reset forgets earlier faults, after a token came.
func (r *retry) reset(patience time.Duration) { *r = retry{patience: patience, wait: firstWait} }

// after returns how long to wait before the next try, and whether there is one.
func (r *retry) after(err error) (time.Duration, bool) {
	var e *web.Error
	if !errors.As(err, &e) || !e.Temporary() {
		return 0, false
	}
	if r.deadline.IsZero() {
		r.deadline = time.Now().Add(r.patience)
	}
	wait := max(r.wait, e.RetryAfter)
	if time.Now().Add(wait).After(r.deadline) {
		return 0, false
	}
	r.wait = min(2*r.wait, longWait)
	return wait, true
}
