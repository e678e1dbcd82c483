package server

import "sync"

// drain counts current requests, so that a server that stops knows when all have been answered.
type drain struct {
	mu     sync.Mutex
	active int
	// idle is nil until the server stops. It is closed when all requests from before have been answered.
	idle chan struct{}
}

// enter counts a new request and returns true, or returns false if the server is stopping.
func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle != nil {
		return false
	}
	d.active++
	return true
}

// stopping reports whether new requests are refused.
func (d *drain) stopping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idle != nil
}

// leave uncounts a request that enter has counted.
func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active--; d.active == 0 && d.idle != nil {
		close(d.idle)
	}
}

// stop lets no more requests enter. It returns a channel that is closed when all others have been answered. It must be
// called only once.
func (d *drain) stop() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = make(chan struct{})
	if d.active == 0 {
		close(d.idle)
	}
	return d.idle
}
