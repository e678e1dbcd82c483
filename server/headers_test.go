package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
)

func TestLongHeadersAreRefused(t *testing.T) {
	s := host(t, Config{}, fake.Config{})
	r := s.do(t, http.MethodGet, "/health", "", "X-Long", strings.Repeat("x", maxHeader/2))
	if r.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("half of what is allowed: %s", r.Status)
	}
	if r := s.do(t, http.MethodGet, "/health", "", "X-Long",
		strings.Repeat("x", 2*maxHeader)); r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("twice what is allowed: %s", r.Status)
	}
}

// A client that does not finish its headers holds a connection only for the header timeout.
func TestHeadersHaveATimeLimit(t *testing.T) {
	t.Parallel()
	s := host(t, Config{}, fake.Config{})
	begin := time.Now() // the server's time starts at Accept, which may be before Dial returns
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(begin.Add(3 * headerTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
	if took := time.Since(begin); took < headerTimeout {
		t.Errorf("closed after %v, %v are allowed", took, headerTimeout)
	}
}
