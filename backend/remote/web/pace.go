package web

import (
	"context"
	"net"
	"sync"
	"time"
)

// This file is about engines that write each token of each stream at once. A read of its own for each token costs a
// system call and several switches between threads, which is most of what a token costs. So the connections of fast
// streams are read together, at the same moments: each read then finds what has come since the last one.
//
// The first data after a request is never delayed: a write wakes the read of its connection. Slow streams are not
// delayed either. Data of a fast stream waits for at most one tick.

const (
	// tick is the time between two moments.
	tick = 16 * time.Millisecond
	// fast is how soon after the last data of a connection the next must come so that the connection counts as fast.
	fast = 2 * tick
	// quickReads is how many reads after a write are not delayed. A handshake or a short reply needs no more.
	quickReads = 4
	// small is the largest read after which nothing more is expected at once.
	small = 4 << 10
	// mostEmpty is how many moments in a row may find nothing. Then the connection waits for data.
	mostEmpty = 2
)

// pacer lets goroutines go on together.
type pacer struct {
	mu sync.Mutex
	// waiting are the connections that wait for the next moment. One that was woken before may still be among them.
	waiting []*pacedConn
	// rounds counts the moments.
	rounds int
	timer  *time.Timer
	last   time.Time
}

func newPacer() *pacer {
	p := &pacer{}
	p.timer = time.AfterFunc(time.Hour, p.goOn)
	p.timer.Stop()
	return p
}

// wait waits for the next moment, or until the connection is woken. It returns at once if the connection is not paced
// any more.
func (p *pacer) wait(c *pacedConn) {
	p.mu.Lock()
	if !c.paced() { // a write came in between, and found nothing to wake
		p.mu.Unlock()
		return
	}
	if len(p.waiting) == 0 {
		d := tick - time.Since(p.last)
		if d <= 0 {
			d = tick
		}
		p.timer.Reset(d)
	}
	p.waiting = append(p.waiting, c)
	c.waits = true
	p.mu.Unlock()
	<-c.woken
}

// goOn is called by the timer.
func (p *pacer) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	p.rounds++
	for _, c := range p.waiting {
		c.goOn()
	}
	clear(p.waiting)
	p.waiting = p.waiting[:0]
}

// wake ends the wait of one connection.
func (p *pacer) wake(c *pacedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.goOn()
}

// pacedConn is a connection that is read at the moments of a pacer while it is fast.
type pacedConn struct {
	net.Conn
	pacer *pacer
	raw   *rawReader
	// waits says that a read waits for the pacer, whose lock guards it. woken then gets one value.
	waits bool
	woken chan struct{}

	mu sync.Mutex
	// quick is how many further reads are not delayed. last is when the last data came, and size is how much.
	quick int
	size  int
	last  time.Time
}

// Read implements net.Conn.
func (c *pacedConn) Read(b []byte) (int, error) {
	if len(b) > 0 {
		for empty := 0; c.paced() && empty < mostEmpty; empty++ {
			c.raw.gather(true)
			c.pacer.wait(c)
			if n, done, err := c.raw.try(b); done {
				c.came(n, n == len(b))
				return n, err
			}
		}
	}
	c.raw.gather(false)
	n, err := c.Conn.Read(b)
	c.came(n, n == len(b))
	return n, err
}

// goOn ends a wait, if there is one. The caller holds the pacer's lock.
func (c *pacedConn) goOn() {
	if c.waits {
		c.waits = false
		c.woken <- struct{}{} // there is room, because each wait takes one value
	}
}

// paced reports whether the next read waits.
func (c *pacedConn) paced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quick <= 0 && c.size <= small && c.size > 0 && time.Since(c.last) < fast
}

// came notes that data came. full means that there may be more.
func (c *pacedConn) came(n int, full bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quick--; full || now.Sub(c.last) >= fast {
		n = 0
	}
	c.size, c.last = n, now
}

// Write implements net.Conn. A read that still waits because of the stream before is woken: what it would find at the
// next moment is the beginning of the reply.
func (c *pacedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.quick = quickReads
	c.mu.Unlock()
	c.pacer.wake(c)
	return c.Conn.Write(b)
}

// pacedDial returns a function that connects. Its connections share a pacer.
func pacedDial(d *net.Dialer, p *pacer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if raw := newRawReader(c); raw != nil {
			return &pacedConn{Conn: c, pacer: p, raw: raw, quick: quickReads, woken: make(chan struct{}, 1)}, nil
		}
		return c, nil
	}
}
