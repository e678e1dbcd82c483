//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestFewOpenFiles limits the server to 64 open files. 200 half-sent headers keep no other client out.
func TestFewOpenFiles(t *testing.T) {
	const files = 64
	limited := func(c *exec.Cmd) {
		script := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)
		c.Args = append([]string{"sh", "-c", script}, c.Args...)
		c.Args[3] = c.Path
		c.Path, c.Err = exec.LookPath("sh")
	}
	s := serveAs(t, limited)
	for i := range 200 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	began := time.Now()
	for range 5 {
		if a := s.ask(t.Context(), client, "What is 17 + 25?", 0); a.err != nil || a.text != "17 + 25 = 42." {
			t.Fatalf("%q, %v", a.text, a.err)
		}
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("five requests took %v; half-sent headers end by themselves after 10 s", took)
	}

	few := exec.Command("runner", "serve", "--port", "0", "--max-connections", "60")
	limited(few)
	if out, err := few.CombinedOutput(); err == nil || !strings.Contains(string(out), "open files leaves room for") ||
		!strings.Contains(string(out), "ulimit -n") {
		t.Errorf("more connections than files: %v: %s", err, out)
	}
}
