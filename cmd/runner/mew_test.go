package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// mewToken makes a participant's token with the program.
func mewToken(t *testing.T, file, id, allow string) string {
	t.Helper()
	out, err := exec.Command("runner", "mew", "token", file, id, "--allow", allow).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// listener is a connection to a space that reads messages.
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
	ws, resp, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws",
		&websocket.DialOptions{HTTPHeader: header})
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

// sayings returns a participant's thoughts, conclusions and messages, in this order.
func sayings(heard []envelope.Envelope, who string) []string {
	var out []string
	for i := range heard {
		if e := &heard[i]; e.From == who && slices.Contains([]string{envelope.Thought, envelope.Conclusion, envelope.Chat},
			e.Kind) {
			var said struct{ Message string }
			e.Read(&said)
			out = append(out, said.Message)
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

// TestMEW: two bundled models, one in the server and one in another process, answer the same question at once. Each
// shows as much of its reasoning as its operator allows.
func TestMEW(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	alice, helper := mewToken(t, file, "alice", "chat"), mewToken(t, file, "helper", "agent")
	s := serve(t, "--mew", file, "--mew-space", "sums", "--api-key", "an API key of the server")
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
	if err := l.ws.Write(context.Background(), websocket.MessageText,
		[]byte(`{"id":"q","kind":"chat","payload":{"text":"What is 17 + 25?"}}`)); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"runner", "helper"} {
		e := l.wait(t, "the answer of "+who, func(e *envelope.Envelope) bool {
			return e.Kind == envelope.Chat && e.From == who
		})
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
	if out, err := agent.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.Contains(string(out), "refuses this participant") {
		t.Errorf("with a wrong token: %v, %s", err, out)
	}
}

// TestMEWTraces: with --trace, both the server's model and one in another process keep a trace of each of their runs.
// With --rationale, the models give reasons for their calls, which visibility full shows.
func TestMEWTraces(t *testing.T) {
	a := newArchive(t)
	file, served := filepath.Join(t.TempDir(), "tokens.json"), filepath.Join(a.data, "served")
	desk, helper := mewToken(t, file, "desk", "chat,mcp/response"), mewToken(t, file, "helper", "agent")
	s := serve(t, "--mew", file, "--mew-reasoning", "full", "--temperature", "0", "--rationale",
		"--trace", "--trace-store", served, "--trace-to", strings.TrimSpace(a.runner("trace", "keys", "export")))
	if status, _ := send(t, http.MethodGet, s.url+"/v1/traces", "", ""); status == http.StatusOK {
		t.Error("the traces of the space are served to clients")
	}
	d, _ := listen(t, s.url, desk, "")
	agent := a.command("mew", "--url", s.url, "--token", helper, "--reasoning", "full", "--temperature", "0",
		"--rationale", "--trace")
	var log bytes.Buffer
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		if err := d.ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const tool = `{"name":"calculator","description":"Calculates","inputSchema":{"type":"object",` +
		`"properties":{"expression":{"type":"string"}},"required":["expression"]}}`
	// The desk also asks, so that its tools are known before its question arrives.
	for _, who := range []string{"runner", "helper"} {
		request := func(method string) string {
			e := d.wait(t, method+" of "+who, func(e *envelope.Envelope) bool {
				var call envelope.RPC
				return e.Kind == envelope.MCPRequest && e.From == who && e.Read(&call) && call.Method == method
			})
			return e.ID
		}
		answer := func(id, result string) {
			const response = `{"kind":"mcp/response","to":[%q],"correlation_id":[%q],"payload":{"result":%s}}`
			say(fmt.Sprintf(response, who, id, result))
		}
		answer(request("tools/list"), `{"tools":[`+tool+`]}`)
		say(fmt.Sprintf(`{"id":"q-%s","to":[%[1]q],"kind":"chat","payload":{"text":"What is 48213 + 9977?"}}`, who))
		answer(request("tools/call"), `{"content":[{"type":"text","text":"58190"}]}`)
		d.wait(t, "the answer of "+who, func(e *envelope.Envelope) bool {
			return e.Kind == envelope.Chat && e.From == who && e.Context == ""
		})
		d.wait(t, "a reason of "+who, func(e *envelope.Envelope) bool {
			return e.From == who && e.Kind == envelope.Thought && strings.Contains(string(e.Payload), `"rationale":{`)
		})
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ends with %v: %s", err, log.String())
	}
	for _, c := range []struct{ store, principal, question, log string }{
		{served, "mew space", "q-runner", s.logged()},
		{filepath.Join(a.data, "runner", "traces"), "local", "q-helper", log.String()},
	} {
		list := strings.Split(strings.TrimSpace(a.runner("trace", "list", "--json", "--store", c.store)), "\n")
		if len(list) != 2 { // one for the call and one for the answer
			t.Errorf("%s: %d traces: %s", c.principal, len(list), list)
		}
		for _, line := range list {
			var e struct{ ID, State, Principal string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if e.State != "complete" || e.Principal != c.principal || !strings.Contains(c.log, "trace="+e.ID) {
				t.Errorf("%s: %s, the log is %s", c.principal, line, c.log)
			}
			shown := a.runner("trace", "show", "--store", c.store, e.ID)
			for _, text := range []string{c.question, "--trace", "48213 + 9977", "calculator"} {
				if !strings.Contains(shown, text) {
					t.Errorf("%s: the trace %s has no %q: %s", c.principal, e.ID, text, shown)
				}
			}
		}
	}
	a.sealed()
}
