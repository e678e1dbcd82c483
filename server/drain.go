package server

import "sync"

// drain counts the requests that are being answered, so that a server that stops knows when it may end.
type drain struct {
	mu     sync.Mutex
	active int
	// idle is nil until the server stops, and closed once nothing is left that came before.
	idle chan struct{}
}

// enter counts a request that begins, unless the server is stopping.
func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle != nil {
		return false
	}
	d.active++
	return true
}

// leave ends what enter has counted.
func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active--; d.active == 0 && d.idle != nil {
		close(d.idle)
	}
}

// stop lets no more requests enter, and returns what is closed when those that have are answered. It is called once.
func (d *drain) stop() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = make(chan struct{})
	if d.active == 0 {
		close(d.idle)
	}
	return d.idle
}
