package remote

import (
	"sync"
	"sync/atomic"
	"time"
)

// alarm calls a function when something takes too long. It is cheap to set again and again, because its timer is left
// as it is and looks for the time that was set last.
type alarm struct {
	late func()
	// until is when it is late, in nanoseconds since 1970; 0 means never.
	until atomic.Int64

	mu      sync.Mutex
	timer   *time.Timer
	fires   int64 // when the timer fires
	stopped bool
}

// set says how long something may take from now on.
func (a *alarm) set(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	a.until.Store(until)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(d, a.check)
	case a.fires <= until && a.fires != 0:
		return
	default:
		a.timer.Reset(d)
	}
	a.fires = until
}

// rest says that nothing is awaited.
func (a *alarm) rest() { a.until.Store(0) }

// check is called by the timer.
func (a *alarm) check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fires = 0
	until := a.until.Load()
	if a.stopped || until == 0 {
		return
	}
	now := time.Now().UnixNano()
	if now >= until {
		a.late()
		return
	}
	a.fires = until
	a.timer.Reset(time.Duration(until - now))
}

// stop ends the alarm.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.timer.Stop()
}
