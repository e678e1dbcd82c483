package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"runner/server/wire"
)

// bodies limits the memory that all requests together take until they are answered: their bodies, what is decoded from
// them, and long answers. The memory of models does not count. Its methods may be called by several goroutines at once.
//
// Above the limit, a principal may still hold as much as one of the longest bodies, so that nobody can shut out others.
// Even then the total is at most twice the limit.
type bodies struct {
	mu sync.Mutex
	// longest is the maximum of one request, and most the limit for all.
	longest, most int64
	total         int64
	of            map[string]int64
}

// newBodies returns bodies whose total is at most memory bytes; its limit is half of that. 0 means enough for eight
// of the longest bodies.
func newBodies(maxBody, memory int64) *bodies {
	b := &bodies{of: map[string]int64{}}
	b.resize(maxBody, memory)
	return b
}

// resize changes the limit. What is held stays held.
func (b *bodies) resize(maxBody, memory int64) {
	longest := wire.BodyCost(maxBody, 0)
	if memory <= 0 {
		memory = mostBodies * longest
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = max(memory/2, 1)
	b.longest = min(longest, b.most)
}

// follow is resize, but keeps the total between leastMemory and the default.
func (b *bodies) follow(maxBody, memory int64) {
	b.resize(maxBody, max(min(memory, mostBodies*wire.BodyCost(maxBody, 0)), leastMemory))
}

// leastMemory is the minimum for all requests.
const leastMemory = 16 << 20

// mostBodies is how many of the longest bodies fit into the default.
const mostBodies = 8

// longestBody returns the maximum length of a body for which there can be enough memory.
func (b *bodies) longestBody() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.longest / wire.BodyCost(1, 0)
}

// held returns how much is held.
func (b *bodies) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Errors of hold.
var (
	errNoRoom = errors.New("no room now")
	errNever  = errors.New("more than one request may take")
)

// hold counts n more bytes for a request of a principal that holds own bytes already. The error is errNoRoom or
// errNever.
func (b *bodies) hold(principal string, own, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	total, of := b.total+n, b.of[principal]+n
	switch {
	case own+n > b.longest:
		return errNever
	case total > 2*b.most || total > b.most && of > b.longest:
		return errNoRoom
	}
	b.total, b.of[principal] = total, of
	return nil
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

// body is a request's body. If its length is declared, all of it counts when its first byte is read, so that a body
// that was admitted can be read to the end. Otherwise it counts as it arrives. The read deadline ends when it has
// been read; answering may take longer.
//
// Reading is work: after some of it, the next part is read when the principal has a slot.
type body struct {
	io.ReadCloser
	control   *http.ResponseController
	bodies    *bodies
	principal string
	// ctx is the request's context, and work its use of the processor.
	ctx  context.Context
	work *work
	// owed is work of reading that no slot was charged with. due is when the read deadline ends.
	owed time.Duration
	due  time.Time
	// length is the declared length, 0 or less if there is none; read is how much has arrived. ended says that nothing
	// more comes.
	length, read int64
	ended        bool
	// counted is the memory counted for the body, and held that for the whole request.
	counted, held int64
	// values and depth are the limits of its shape.
	values, depth int
	// refused is the error that reading returns from now on; nil if none.
	refused error
	// limit is its maximum length, and flag the flag that sets it. most is the maximum for all routes, and of what is
	// dropped of a body.
	limit, most int64
	flag        string
}

const (
	// shortBody is the length up to which a body is checked and decoded without a slot. A request that takes no more
	// memory than that of such a body never has work.
	shortBody = 16 << 10
	// readCost estimates the work of reading once, and bytesCost that of reading so many bytes. A slot is charged with
	// mostOwed at once.
	readCost  = 3 * time.Microsecond
	bytesCost = 2 // bytes per nanosecond
	mostOwed  = time.Millisecond
)

// newBody returns the body of a request for a route.
func (s *Server) newBody(w http.ResponseWriter, r *http.Request, route *wire.Route, principal string) *body {
	b := &body{
		control: http.NewResponseController(w), bodies: s.bodies, principal: principal, length: r.ContentLength,
		ctx: r.Context(), work: &noteOf(r.Context()).work, due: time.Now().Add(bodyTimeout),
		limit: s.cfg.MaxBody, most: s.cfg.MaxBody, flag: "--max-body", values: s.cfg.MaxValues, depth: s.cfg.MaxDepth,
	}
	if most := s.bodies.longestBody(); most < b.limit {
		b.limit, b.flag = most, "--request-memory"
	}
	if route.MaxBody > 0 && route.MaxBody < b.limit {
		b.limit, b.flag = route.MaxBody, route.MaxBodyFlag
	}
	b.ReadCloser = r.Body
	return b
}

// checkLength refuses a body whose declared length is over the limit. A client that waits for permission to send it
// (Expect: 100-continue) is answered before it sends anything. Other bodies are dropped.
func (b *body) checkLength(r *http.Request) error {
	if b.length <= b.limit {
		return nil
	}
	b.refused = b.tooLong()
	if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		b.drop()
	}
	return b.refused
}

// long reports whether a body may be longer than shortBody.
func (b *body) long() bool { return b.length < 0 || b.length > shortBody }

func (b *body) tooLong() *wire.Error {
	e := wire.Errorf(wire.CodeTooLarge,
		"the body is longer than the %d bytes that are allowed", b.limit)
	if b.flag != "" {
		e.Message += " (" + b.flag + ")"
	}
	return e
}

func (b *body) Read(p []byte) (int, error) {
	if b.refused != nil {
		return 0, b.refused
	}
	if err := b.count(min(b.length, b.limit)); err != nil {
		return 0, b.refuse(err)
	}
	n, err := b.take(p)
	if b.read > b.limit {
		b.refused = b.tooLong()
		return 0, b.refused
	}
	if err := b.count(b.read); err != nil {
		return 0, b.refuse(err)
	}
	return n, err
}

// take reads, and waits for a slot if much was read without one.
func (b *body) take(p []byte) (int, error) {
	if b.owed >= mostOwed {
		if err := b.wait(func() error { return b.work.pay(b.ctx, b.owed) }); err != nil {
			return 0, err
		}
		b.owed = 0
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.owed += readCost + time.Duration(n/bytesCost)
	if b.ended = err != nil; err == io.EOF { // if not, package http may read on before it answers
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// wait waits for a slot. The client gets that much more time to send its body.
func (b *body) wait(slot func() error) error {
	began := time.Now()
	err := slot()
	if waited := time.Since(began); waited > time.Millisecond && !b.ended {
		b.due = b.due.Add(waited)
		_ = b.control.SetReadDeadline(b.due)
	}
	return err
}

// Work implements [wire.Budget].
func (b *body) Work(ctx context.Context) error {
	if b.held <= wire.BodyCost(shortBody, 0) {
		return nil
	}
	return b.wait(func() error { return b.work.begin(ctx) })
}

// Rest implements [wire.Budget].
func (b *body) Rest() { b.work.end() }

// drop reads and drops what is left of a body, up to most bytes: a client that is still sending when its connection is
// closed may not see the answer. If even more is left, package http closes the connection.
func (b *body) drop() {
	b.work.end()
	part := make([]byte, 32<<10)
	for until := b.read + b.most; !b.ended && b.read < until; {
		if _, err := b.take(part); err != nil {
			break
		}
	}
	b.ended = true
}

// count counts a body of n bytes in total, or returns an error of hold.
func (b *body) count(n int64) error {
	more := wire.BodyCost(n, 0) - b.counted
	if more <= 0 {
		return nil
	}
	if err := b.bodies.hold(b.principal, b.held, more); err != nil {
		return err
	}
	b.counted += more
	b.held += more
	return nil
}

// Shape implements [wire.Budget].
func (b *body) Shape() (values, depth int) { return b.values, b.depth }

// Reserve implements [wire.Budget].
func (b *body) Reserve(n int64) error {
	if n <= 0 {
		return nil
	}
	switch err := b.bodies.hold(b.principal, b.held, n); err {
	case nil:
		b.held += n
		return nil
	case errNever:
		return wire.Errorf(wire.CodeTooLarge,
			"the request takes more memory than one may (--request-memory); send less at once")
	}
	return noRoom()
}

// noRoom returns the error for a lack of memory because of other requests.
func noRoom() *wire.Error {
	e := wire.Errorf(wire.CodeBusy,
		"the requests under way take too much memory together; try again soon")
	e.RetryAfter = time.Second
	return e
}

// refuse returns the error for a body that hold refused.
func (b *body) refuse(why error) error {
	if b.refused = noRoom(); why == errNever {
		b.refused = b.tooLong()
	}
	b.drop()
	return b.refused
}

// release gives all memory back after the request was answered.
func (b *body) release() { b.bodies.release(b.principal, b.held) }
