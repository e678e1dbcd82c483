package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/hint"
	"runner/server/wire"
)

// TestHalfSentHeadersDelayNobody opens many connections that repeatedly send half a header. No current answer may be
// cut, and no request may wait long.
func TestHalfSentHeadersDelayNobody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a b c ", 300) + "d"
	s := host(t, Config{MaxConnections: 12}, slowly(2*time.Millisecond, said("q", long)))
	for s.health.get() == healthLoading {
		time.Sleep(time.Millisecond)
	}
	stream := make(chan reply, 2)
	for range cap(stream) {
		go func() { stream <- s.do(t, http.MethodPost, "/say", `{"text":"q"}`) }()
	}
	stop := make(chan struct{})
	var flood sync.WaitGroup
	opened := make([]int, 2)
	for i := range opened {
		flood.Go(func() {
			var held []net.Conn
			for {
				select {
				case <-stop:
					for _, c := range held {
						c.Close()
					}
					return
				default:
				}
				c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err != nil {
					continue
				}
				fmt.Fprintf(c, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
				if held = append(held, c); len(held) > 100 {
					held[0].Close()
					held = held[1:]
				}
				opened[i]++
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var most time.Duration
	failed := 0
	for range 40 {
		began := time.Now()
		res, err := client.Get(s.url + "/health")
		if err != nil {
			failed++
			continue
		}
		res.Body.Close()
		most = max(most, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	flood.Wait()
	t.Logf("%v half requests were sent; the slowest of the others took %v, %d failed", opened, most, failed)
	if failed > 2 || most > headerTimeout/2 {
		t.Errorf("%d of 40 requests failed, and the slowest took %v", failed, most)
	}
	for range cap(stream) {
		if r := <-stream; r.StatusCode != http.StatusOK || !strings.Contains(r.body, "d") {
			t.Errorf("a stream was cut: %d", r.StatusCode)
		}
	}
}

// TestFullOfRequests checks the answer to one more connection when every connection carries a request.
func TestFullOfRequests(t *testing.T) {
	s := host(t, Config{MaxConnections: 2}, fake.Config{})
	h := &holding{read: make(chan struct{}), answer: make(chan struct{})}
	s.Mount(h)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if r := s.do(t, http.MethodPost, "/hold", "{}"); r.StatusCode != http.StatusNoContent {
				t.Errorf("%d", r.StatusCode)
			}
		})
		<-h.read
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), wire.CodeConnections) {
		t.Errorf("%d %v %s, %v", res.StatusCode, res.Header, body, err)
	}
	h.answer <- struct{}{}
	h.answer <- struct{}{}
	wg.Wait()
}

// far is a connection from a given address.
type far struct {
	net.Conn
	from   string
	closed bool
}

func (f *far) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.from), 1))
}

func (f *far) Close() error {
	f.closed = true
	return nil
}

func (f *far) Write(b []byte) (int, error)      { return len(b), nil }
func (f *far) SetDeadline(time.Time) error      { return nil }
func (f *far) Read([]byte) (int, error)         { return 0, io.EOF }
func (f *far) SetReadDeadline(time.Time) error  { return nil }
func (f *far) SetWriteDeadline(time.Time) error { return nil }

func TestConnectionsOfOnePeer(t *testing.T) {
	now := time.Unix(1000, 0)
	s, err := newConnections(nil, &Config{
		MaxConnections: 10, MaxPeerConnections: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
	}, newMetrics(newModelFigures(nil)).dropped)
	if err != nil {
		t.Fatal(err)
	}
	s.clock = func() time.Time { return now }
	open := func(from string) (*connection, *far) {
		now = now.Add(time.Second / 2)
		f := &far{from: from}
		c, _ := s.admit(f).(*connection)
		return c, f
	}
	first, firstConn := open("192.0.2.1")
	second, _ := open("::ffff:192.0.2.1")
	s.note(first, http.StateActive)
	s.note(second, http.StateActive)
	if c, _ := open("192.0.2.1"); c != nil {
		t.Error("a third connection of a peer with two busy ones is let in")
	}
	other, _ := open("192.0.2.2")
	if other == nil {
		t.Error("another peer is kept out")
	}
	for i := range 3 {
		if c, _ := open("10.1.2.3"); c == nil {
			t.Errorf("connection %d of a proxy is refused", i)
		} else {
			s.note(c, http.StateActive)
		}
	}
	s.note(first, http.StateIdle)
	if c, _ := open("192.0.2.1"); c == nil || !firstConn.closed {
		t.Error("an idle connection of the peer makes no room for its next")
	}
	_, wideConn := open("2001:db8::1")
	open("2001:db8::2")
	if c, _ := open("2001:db8::3"); c == nil || !wideConn.closed {
		t.Error("one network of IPv6 is not one peer")
	}
	if c, _ := open("127.0.0.1"); c == nil {
		t.Error("this machine is kept out")
	}
	for range 10 {
		if c, _ := open("127.0.0.1"); c != nil {
			s.note(c, http.StateActive)
		}
	}
	if n := len(s.open); n != 10 {
		t.Errorf("%d connections are open, 10 may be", n)
	}
	for c := range s.open {
		c.Close()
		c.Close()
	}
	if len(s.open) != 0 || len(s.peers) != 0 {
		t.Errorf("still counted: %v", s.peers)
	}
}

func TestConnectionsFitTheOpenFiles(t *testing.T) {
	limit, open := descriptors()
	if limit == 0 {
		t.Skip("the system has no limit of open files, or does not report it")
	}
	c := Config{}
	if err := c.LimitConnections(); err != nil || c.MaxConnections < leastConnections || c.MaxConnections > limit-open ||
		c.MaxPeerConnections > c.MaxConnections {
		t.Errorf("%d and %d of %d files, %d of them open: %v", c.MaxConnections, c.MaxPeerConnections, limit, open, err)
	}
	c = Config{MaxConnections: limit}
	if err := c.LimitConnections(); hint.Of(err) == "" || !strings.Contains(err.Error(), strconv.Itoa(limit)) {
		t.Errorf("%v", err)
	}
}
