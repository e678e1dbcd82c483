package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"runner/server/mew/envelope"
)

// mewToken makes a participant's token with the program itself.
func mewToken(t *testing.T, file, id, allow string) string {
	t.Helper()
	out, err := exec.Command("runner", "mew", "token", file, id, "--allow", allow).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// listener is a connection with a space, which reads.
type listener struct {
	ws *websocket.Conn

	mu    sync.Mutex
	heard []envelope.Envelope
	err   error
}

func listen(t *testing.T, url, token, origin string) (*listener, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + token}}
	if origin != "" {
		header.Set("Origin", origin)
	}
	ws, resp, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws", &websocket.DialOptions{HTTPHeader: header})
	status := 0
	if resp != nil {
		status = resp.StatusCode
		if resp.Body != nil {
			_ = resp.Body.Close() // the library has read it
		}
	}
	if err != nil {
		return nil, status
	}
	l := &listener{ws: ws}
	done := make(chan struct{})
	t.Cleanup(func() { _ = ws.CloseNow(); <-done })
	go func() {
		defer close(done)
		for {
			_, data, err := ws.Read(context.Background())
			var e envelope.Envelope
			if err == nil {
				e, err = envelope.Parse(data)
			}
			l.mu.Lock()
			l.err = err
			l.heard = append(l.heard, e)
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l, status
}

func (l *listener) wait(t *testing.T, what string, fits func(*envelope.Envelope) bool) envelope.Envelope {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		l.mu.Lock()
		for i := range l.heard {
			if fits(&l.heard[i]) {
				defer l.mu.Unlock()
				return l.heard[i]
			}
		}
		l.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not come", what)
	return envelope.Envelope{}
}

// sayings are what a participant thought, concluded and said, in this order.
func sayings(heard []envelope.Envelope, who string) []string {
	var out []string
	for i := range heard {
		if e := &heard[i]; e.From == who && slices.Contains([]string{envelope.Thought, envelope.Conclusion, envelope.Chat}, e.Kind) {
			var said struct{ Message, Text string }
			e.Read(&said)
			out = append(out, said.Message+said.Text)
		}
	}
	return out
}

// shownInDocument reads the messages that docs/mew.md shows.
func shownInDocument(t *testing.T) []envelope.Envelope {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "mew.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []envelope.Envelope
	for line := range strings.Lines(string(doc)) {
		var e envelope.Envelope
		if strings.HasPrefix(line, `{"id"`) && json.Unmarshal([]byte(line), &e) == nil {
			shown = append(shown, e)
		}
	}
	return shown
}

// Two bundled models, one in the server and one in a program of its own, answer the same question at once; each tells as much of its reasoning as its
// operator says.
func TestMEW(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	alice, helper := mewToken(t, file, "alice", "chat"), mewToken(t, file, "helper", "agent")
	s := serve(t, "--mew", "--mew-tokens", file, "--mew-space", "sums", "--api-key", "an API key of the server")
	if _, status := listen(t, s.url, "wrong", ""); status != http.StatusForbidden {
		t.Errorf("a wrong token: %d", status)
	}
	if _, status := listen(t, s.url, alice, "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a page of elsewhere: %d", status)
	}
	l, status := listen(t, s.url, alice, "http://localhost:3000")
	if l == nil {
		t.Fatalf("alice is not let in: %d", status)
	}
	agent := exec.Command("runner", "mew", "--url", s.url, "--space", "sums", "--reasoning", "full", "--temperature", "0")
	agent.Env = append(os.Environ(), "RUNNER_MEW_TOKEN="+helper)
	var log bytes.Buffer
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "the helper", func(e *envelope.Envelope) bool {
		return e.Kind == envelope.Presence && strings.Contains(string(e.Payload), `"join","participant":{"id":"helper"`)
	})
	if err := l.ws.Write(context.Background(), websocket.MessageText, []byte(`{"id":"q","kind":"chat","payload":{"text":"What is 17 + 25?"}}`)); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"runner", "helper"} {
		e := l.wait(t, "the answer of "+who, func(e *envelope.Envelope) bool { return e.Kind == envelope.Chat && e.From == who })
		var said envelope.ChatText
		if !e.Read(&said) || said.Text != "17 + 25 = 42." || e.Context != "" || !slices.Equal(e.Correlation, []string{"q"}) {
			t.Errorf("%s answers %s to %v", who, e.Payload, e.Correlation)
		}
	}
	l.mu.Lock()
	heard := slices.Clone(l.heard)
	l.mu.Unlock()
	if said := sayings(heard, "helper"); !slices.Equal(said, sayings(shownInDocument(t), "helper")) {
		t.Errorf("docs/mew.md does not show what the helper says: %q", said)
	}
	if said := sayings(heard, "runner"); len(said) != 2 || said[0] != "" {
		t.Errorf("the server, which keeps its reasoning to itself, says %q", said)
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ends with %v: %s", err, log.String())
	}
	l.wait(t, "the helper's leaving", func(e *envelope.Envelope) bool {
		return e.Kind == envelope.Presence && strings.Contains(string(e.Payload), `"leave","participant":{"id":"helper"`)
	})
	for _, secret := range []string{alice, helper, "17 + 25", "digit by digit"} {
		if strings.Contains(log.String()+s.logged(), secret) {
			t.Errorf("the logs have %q", secret)
		}
	}
	agent = exec.Command("runner", "mew", "--url", s.url, "--token", "wrong")
	var exit *exec.ExitError
	if out, err := agent.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "refuses this participant") {
		t.Errorf("with a wrong token: %v, %s", err, out)
	}
}
