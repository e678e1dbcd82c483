package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"runner/hint"
	"runner/server/wire"
)

// Limits of connections.
const (
	// mostConnections is the default limit, if the system allows enough open files.
	mostConnections = 4096
	// leastConnections is the minimum with which a server is useful.
	leastConnections = 4
	// spareDescriptors is the number of files for everything else: models, keys, traces, and connections being refused.
	spareDescriptors = 24
	// headersDue is how long a new connection may take to send the headers of its first request.
	headersDue = time.Second
	// fresh is how long a new connection is never closed: its request may have arrived and not been read yet.
	fresh = 5 * time.Millisecond
	// mostRefusals is how many refused connections are answered at once, and refusalTimeout how long each may take.
	mostRefusals   = 8
	refusalTimeout = time.Second
)

// LimitConnections sets the limits of connections that are 0. It fails if the system allows too few open files.
func (c *Config) LimitConnections() error {
	limit, open := descriptors()
	room := limit - open - spareDescriptors
	switch {
	case limit > 0 && (room < leastConnections || c.MaxConnections > room):
		text := fmt.Sprintf("the limit of %d open files leaves room for %d connections", limit, max(room, 0))
		if c.MaxConnections > 0 {
			text += fmt.Sprintf(", not for %d", c.MaxConnections)
		}
		return hint.New(text, "raise the limit with ulimit -n, or choose fewer with --max-connections")
	case c.MaxConnections == 0 && limit > 0:
		c.MaxConnections = min(room, mostConnections)
	case c.MaxConnections == 0:
		c.MaxConnections = mostConnections
	}
	if c.MaxPeerConnections == 0 {
		c.MaxPeerConnections = max(c.MaxConnections/4, 1)
	}
	return nil
}

// connections is a listener that limits the number of connections, in total and of each peer. If there are too many, it
// closes one without a request to make room for a new one. So a client that opens many and sends nothing cannot keep
// others out. Its methods may be called by several goroutines at once.
type connections struct {
	net.Listener
	most, perPeer int
	proxies       []netip.Prefix
	tls           bool
	// plain answers requests without TLS, if tls is set.
	plain   http.Handler
	clock   func() time.Time
	dropped *prometheus.CounterVec
	// refusals has an item for each connection that is being refused, by a goroutine of refusing.
	refusals chan struct{}
	refusing sync.WaitGroup

	mu   sync.Mutex
	open map[*connection]struct{}
	// peers counts the connections of each limited peer.
	peers map[netip.Prefix]int
}

// connection is a connection that counts.
type connection struct {
	net.Conn
	in   *connections
	peer netip.Prefix // zero for peers that are not limited
	// busy says that it has a request now, begun that it has had one. since is when it was opened or last became idle.
	busy, begun bool
	since       time.Time
	gone        bool
	// read says that something was read.
	read bool
}

func newConnections(l net.Listener, cfg *Config, dropped *prometheus.CounterVec) (*connections, error) {
	if cfg.MaxConnections == 0 || cfg.MaxPeerConnections == 0 {
		if err := cfg.LimitConnections(); err != nil {
			return nil, err
		}
	}
	return &connections{
		Listener: l, most: cfg.MaxConnections, perPeer: cfg.MaxPeerConnections, proxies: cfg.Proxies, tls: cfg.TLS != nil,
		clock: time.Now, dropped: dropped,
		refusals: make(chan struct{}, mostRefusals), open: map[*connection]struct{}{}, peers: map[netip.Prefix]int{},
	}, nil
}

// Accept implements [net.Listener].
func (s *connections) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := s.admit(c); admitted != nil {
			return admitted, nil
		}
	}
}

// admit counts a connection, or refuses it and returns nil.
func (s *connections) admit(c net.Conn) net.Conn {
	added := &connection{Conn: c, in: s, peer: s.peerOf(c.RemoteAddr())}
	for {
		s.mu.Lock()
		now := s.clock()
		full, why := s.full(added.peer)
		var victim *connection
		wait := time.Duration(0)
		if full != nil {
			victim, wait = s.choose(full, now)
		}
		if full == nil || victim != nil {
			if victim != nil {
				s.remove(victim)
			}
			added.since = now
			s.open[added] = struct{}{}
			if added.peer.IsValid() {
				s.peers[added.peer]++
			}
			s.mu.Unlock()
			if victim != nil {
				s.dropped.WithLabelValues("idle").Inc()
				_ = victim.Conn.Close() // an error does not matter
			}
			return added
		}
		s.mu.Unlock()
		if wait > 0 {
			time.Sleep(wait)
			continue
		}
		s.dropped.WithLabelValues(why).Inc()
		s.refuse(c)
		return nil
	}
}

// full returns which connections are too many for a new one of a peer, and why; nil if there is room.
func (s *connections) full(peer netip.Prefix) (of func(*connection) bool, why string) {
	switch {
	case peer.IsValid() && s.peers[peer] >= s.perPeer:
		return func(c *connection) bool { return c.peer == peer }, "peer"
	case len(s.open) >= s.most:
		return func(*connection) bool { return true }, "all"
	}
	return nil, ""
}

// choose returns the connection to close: one whose first request is late, else one between two requests, else a
// new one; the oldest of each. If the only ones are so new that their request may have arrived, it returns how long
// to wait. It never chooses a connection with a request.
func (s *connections) choose(of func(*connection) bool, now time.Time) (victim *connection, wait time.Duration) {
	best := 0
	for c := range s.open {
		age := now.Sub(c.since)
		rank := 0
		switch {
		case c.busy || !of(c):
			continue
		case !c.begun && age >= headersDue:
			rank = 3
		case c.begun:
			rank = 2
		case age >= fresh:
			rank = 1
		default:
			if left := fresh - age; wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if rank > best || rank == best && c.since.Before(victim.since) {
			best, victim = rank, c
		}
	}
	return victim, wait
}

// remove uncounts a connection. Removing it again is harmless.
func (s *connections) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	delete(s.open, c)
	if c.peer.IsValid() {
		if s.peers[c.peer]--; s.peers[c.peer] <= 0 {
			delete(s.peers, c.peer)
		}
	}
}

// peerOf returns the peer of a connection. It is zero for this machine and for proxies, which are not limited.
func (s *connections) peerOf(a net.Addr) netip.Prefix {
	from, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	addr := from.Addr().Unmap().WithZone("")
	if addr.IsLoopback() || slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return netip.Prefix{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64 // one host can have all addresses of such a network
	}
	peer, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return peer
}

// refuse closes a connection. If it can do so quickly, it first answers that there are too many.
func (s *connections) refuse(c net.Conn) {
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	s.refusing.Go(func() {
		defer func() { <-s.refusals }()
		defer c.Close()
		if s.tls {
			return // an answer would need a TLS handshake
		}
		_ = c.SetDeadline(time.Now().Add(refusalTimeout))
		const body = `{"error":{"message":"too many connections; try again soon",` +
			`"type":"service_unavailable_error","param":null,"code":"` + wire.CodeConnections + `"}}`
		_, err := fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n"+
			"Retry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
		if err == nil {
			finish(c)
		}
	})
}

// note is for [http.Server.ConnState].
func (s *connections) note(c net.Conn, state http.ConnState) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	own, ok := c.(*connection)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateActive, http.StateHijacked:
		own.busy, own.begun = true, true
	case http.StateIdle:
		own.busy, own.since = false, s.clock()
	}
}

// errPlain is why a connection ends that came without TLS.
var errPlain = errors.New("a request without TLS")

// Read implements [net.Conn]. With TLS it answers a request that comes without.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.read || !c.in.tls {
		return n, err
	}
	c.read = true
	if method := p[0]; method < 'A' || method > 'Z' { // the numbers of TLS's records are smaller
		return n, err
	}
	c.withoutTLS(p[:n])
	return 0, errPlain
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.in.mu.Lock()
	c.in.remove(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side, so that the client sees the end of the answer before the connection is closed.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
