package server

import (
	"io"
	"net/http"
	"sync"
	"time"

	"runner/server/wire"
)

// bodies bounds how long the bodies are together of which answers are being made: what a request takes of the memory before it has a place in a
// model's queue is a multiple of its body. Its methods may be called by several goroutines at once.
//
// Once there are too many, a principal that holds no more than one of the longest may still bring that one, so that nobody shuts another out;
// with all of these there is never more than twice as much.
type bodies struct {
	longest, most int64

	mu    sync.Mutex
	total int64
	of    map[string]int64
}

// newBodies allows as much as four of the longest bodies.
func newBodies(longest int64) *bodies {
	return &bodies{longest: longest, most: 4 * longest, of: map[string]int64{}}
}

// hold counts n more bytes of a principal, or reports that they are too many now.
func (b *bodies) hold(principal string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	total, of := b.total+n, b.of[principal]+n
	if total > 2*b.most || total > b.most && of > b.longest {
		return false
	}
	b.total, b.of[principal] = total, of
	return true
}

// release gives n bytes of a principal back.
func (b *bodies) release(principal string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.of[principal] -= n; b.of[principal] <= 0 {
		delete(b.of, principal)
	}
}

// body is a request's body, whose bytes count as they come, however its length was told. Reading it is bounded in time until it is read;
// answering may take longer.
type body struct {
	io.ReadCloser
	control   *http.ResponseController
	bodies    *bodies
	principal string
	// held is how much of it counts, and refused why no more of it does.
	held    int64
	refused error
}

func (b *body) Read(p []byte) (int, error) {
	if b.refused != nil {
		return 0, b.refused
	}
	n, err := b.ReadCloser.Read(p)
	if !b.bodies.hold(b.principal, int64(n)) {
		e := wire.Errorf(http.StatusServiceUnavailable, wire.CodeBusy, "the requests under way are too long together; try again soon")
		e.RetryAfter = time.Second
		n, b.refused = 0, e
		// A client that is still sending when its connection is closed might not see the answer.
		_, _ = io.Copy(io.Discard, b.ReadCloser)
		err = e
	}
	b.held += int64(n)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// release says that the request was answered.
func (b *body) release() { b.bodies.release(b.principal, b.held) }
