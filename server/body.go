package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
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

// body is a request's body. It counts when its first byte is read where its length was told, so that who is let in can also be read to the end,
// and else as it comes. Reading it is bounded in time until it is read; answering may take longer.
type body struct {
	io.ReadCloser
	control   *http.ResponseController
	bodies    *bodies
	principal string
	// length is the length that was told, 0 or less for none; read is how much came, and held how much of it counts.
	length, read, held int64
	// refused is why no more of it is read.
	refused error
	// limit is the longest that it may be, and flag names what sets that.
	limit int64
	flag  string
}

// newBody returns the body of a request for a route.
func (s *Server) newBody(w http.ResponseWriter, r *http.Request, route *wire.Route, principal string) *body {
	b := &body{
		control: http.NewResponseController(w), bodies: s.bodies, principal: principal, length: r.ContentLength,
		limit: s.cfg.MaxBody, flag: "--max-body",
	}
	if route.MaxBody > 0 && route.MaxBody < b.limit {
		b.limit, b.flag = route.MaxBody, route.MaxBodyFlag
	}
	b.ReadCloser = http.MaxBytesReader(w, r.Body, b.limit)
	return b
}

// checkLength refuses a body whose declared length is over the limit. A client that waits for leave to send it
// (Expect: 100-continue) is answered before it sends anything. Of others as much as the limit is read and dropped: a
// client that is still sending when its connection is closed might not see the answer.
func (b *body) checkLength(r *http.Request) *wire.Error {
	if b.length <= b.limit {
		return nil
	}
	if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		_, _ = io.Copy(io.Discard, b.ReadCloser)
	}
	_ = b.control.SetReadDeadline(time.Time{})
	return b.tooLong(nil)
}

func (b *body) tooLong(cause error) *wire.Error {
	e := wire.Errorf(http.StatusRequestEntityTooLarge, wire.CodeTooLarge,
		"the body is longer than the %d bytes that are allowed", b.limit)
	if b.flag != "" {
		e.Message += " (" + b.flag + ")"
	}
	e.Err = cause
	return e
}

func (b *body) Read(p []byte) (int, error) {
	if b.refused != nil {
		return 0, b.refused
	}
	if !b.hold(min(b.length, b.bodies.longest)) {
		return 0, b.refuse()
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		b.refused = b.tooLong(err)
		err = b.refused
	}
	if !b.hold(b.read) {
		return 0, b.refuse()
	}
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// hold counts n bytes in all, or reports that they are too many now.
func (b *body) hold(n int64) bool {
	if more := n - b.held; more > 0 {
		if !b.bodies.hold(b.principal, more) {
			return false
		}
		b.held = n
	}
	return true
}

// refuse says that there is no room for the body, and takes what is left of it: a client that is still sending when its connection is closed might
// not see the answer.
func (b *body) refuse() error {
	e := wire.Errorf(http.StatusServiceUnavailable, wire.CodeBusy, "the requests under way are too long together; try again soon")
	e.RetryAfter = time.Second
	b.refused = e
	_, _ = io.Copy(io.Discard, b.ReadCloser)
	_ = b.control.SetReadDeadline(time.Time{})
	return e
}

// release says that the request was answered.
func (b *body) release() { b.bodies.release(b.principal, b.held) }
