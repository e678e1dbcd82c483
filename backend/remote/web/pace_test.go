package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// numbers serves streams of n events, one each time that pause has passed.
func numbers(t *testing.T, n int, pause time.Duration) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			time.Sleep(pause)
			fmt.Fprintf(w, "data: %d\n\n", i)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return client(t, s.URL, Config{})
}

// rounds counts how often the connections of a client were read together.
func rounds(c *Client) int {
	c.pacer.mu.Lock()
	defer c.pacer.mu.Unlock()
	return c.pacer.rounds
}

// readNumbers reads a stream of n events.
func readNumbers(t *testing.T, c *Client, n int) {
	t.Helper()
	e, err := c.Stream(t.Context(), "/", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range n {
		if data, err := e.Next(); err != nil || string(data) != fmt.Sprint(i) {
			t.Fatalf("event %d is %q, %v", i, data, err)
		}
	}
	if _, err := e.Next(); err != io.EOF {
		t.Errorf("after the stream: %v", err)
	}
}

// A fast stream is read at a few moments, and nothing is lost.
func TestFastStreamsAreReadTogether(t *testing.T) {
	const n = 400
	c := numbers(t, n, time.Millisecond)
	readNumbers(t, c, n)
	if r := rounds(c); r == 0 || r > n/4 {
		t.Errorf("%d moments for %d events", r, n)
	}
}

// A slow stream and short replies are read when something comes.
func TestSlowStreamsAreReadAtOnce(t *testing.T) {
	c := numbers(t, 8, 2*fast)
	readNumbers(t, c, 8)
	short := numbers(t, 1, 0)
	for range 20 {
		readNumbers(t, short, 1)
	}
	if r := rounds(c) + rounds(short); r > 5 { // a machine under load may deliver some of the 28 events together
		t.Errorf("they waited %d times", r)
	}
}

// twoStreams returns a client of a server that answers each request with as many events as its path says, one each
// millisecond, and how long the first event of a short stream took right after a long one.
func twoStreams(tb testing.TB) (first func() time.Duration) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		n := 1
		if r.URL.Path == "/long" {
			n = 40
		}
		for i := range n {
			if n > 1 {
				time.Sleep(time.Millisecond)
			}
			fmt.Fprintf(w, "data: %d\n\n", i)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}))
	tb.Cleanup(s.Close)
	c := client(tb, s.URL, Config{})
	read := func(path string) time.Duration {
		begin := time.Now()
		e, err := c.Stream(tb.Context(), path, []byte("{}"))
		if err != nil {
			tb.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Next(); err != nil {
			tb.Fatal(err)
		}
		took := time.Since(begin)
		for err == nil {
			_, err = e.Next()
		}
		return took
	}
	return func() time.Duration {
		read("/long")
		return read("/short")
	}
}

// The first event is not delayed on a connection that a fast stream used just before.
func TestFirstEventOfAReusedConnection(t *testing.T) {
	first := twoStreams(t)
	var all []time.Duration
	for range 21 {
		all = append(all, first())
	}
	slices.Sort(all)
	// Without the wake-up the median is about half a tick or more. A machine under load delays some, but not most.
	if median := all[len(all)/2]; median > tick/4 {
		t.Errorf("the first event took %v in the median: %v", median, all)
	}
}

// BenchmarkFirstEventOfAReusedConnection measures the first event of a stream right after a fast one.
func BenchmarkFirstEventOfAReusedConnection(b *testing.B) {
	first := twoStreams(b)
	var all []time.Duration
	for b.Loop() {
		all = append(all, first())
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "us/first-event")
	b.ReportMetric(float64(all[len(all)*9/10].Microseconds()), "us/first-event-p90")
}

// The end of a connection ends a read that waits.
func TestPacedReadEndsWithItsConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan error, 1)
	conn, err := pacedDial(&net.Dialer{}, newPacer())(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		in := bufio.NewReader(conn)
		for {
			if _, err := in.ReadByte(); err != nil {
				got <- err
				return
			}
		}
	}()
	for range 50 {
		if _, err := there.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	there.Close()
	select {
	case err := <-got:
		if err != io.EOF {
			t.Errorf("error %v, want %v", err, io.EOF)
		}
	case <-time.After(10 * time.Second):
		t.Error("the read goes on")
	}
	conn.Close()
}

// Reading a fast stream allocates nothing.
func TestPacedReadsDoNotAllocate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n")
		for event := []byte("9\r\ndata: 7\n\n\r\n"); err == nil; time.Sleep(200 * time.Microsecond) {
			_, err = conn.Write(event)
		}
	}()
	e, err := client(t, "http://"+l.Addr().String(), Config{}).Stream(t.Context(), "/", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 200 {
		if _, err := e.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(500, func() { _, err = e.Next() }); n != 0 || err != nil {
		t.Errorf("%v allocations for an event, %v", n, err)
	}
}
