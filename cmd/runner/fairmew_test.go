package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// floods are what participants of a MEW space do to keep others from being answered. Each sends on a connection until
// it is ended.
var floods = []struct {
	name string
	send func(ctx context.Context, ws *websocket.Conn, i int) error
}{
	{"messages over the rate", func(ctx context.Context, ws *websocket.Conn, i int) error {
		return ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"kind":"chat","to":["nobody"],"payload":{"text":"%d"}}`, i))
	}},
	{"messages of a MiB", func(ctx context.Context, ws *websocket.Conn, i int) error {
		return ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"kind":"chat","to":["nobody"],"payload":{"text":"%d%s"}}`,
			i, strings.Repeat("ab", 500_000)))
	}},
	{"invalid messages", func(ctx context.Context, ws *websocket.Conn, i int) error {
		return ws.Write(ctx, websocket.MessageText, []byte(strings.Repeat("[", 100_000)))
	}},
	{"a message in fragments of a byte", func(ctx context.Context, ws *websocket.Conn, i int) error {
		w, err := ws.Writer(ctx, websocket.MessageText)
		if err != nil {
			return err
		}
		for range 100_000 {
			if _, err := w.Write([]byte("x")); err != nil {
				return err
			}
		}
		return w.Close()
	}},
}

// TestMEWFloods: what participants send hardly delays a key. The short form does all in turn.
func TestMEWFloods(t *testing.T) {
	f := fairnessNow()
	table := fairnessTable
	if os.Getenv("RUNNER_LONG") == "" {
		table += flood(t, f, "floods", func(ctx context.Context, ws *websocket.Conn, i int) error {
			return floods[i/500%len(floods)].send(ctx, ws, i)
		})
	} else {
		for _, fl := range floods {
			t.Run(fl.name, func(t *testing.T) { table += flood(t, f, fl.name, fl.send) })
		}
	}
	t.Log("\n" + table)
}

// flood has four participants send on a connection each, which they open again when it is closed.
func flood(t *testing.T, f fairness, name string, send func(context.Context, *websocket.Conn, int) error) (row string) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	var members []string
	for i := range besides {
		members = append(members, mewToken(t, tokens, fmt.Sprint("flood", i), "chat"))
	}
	var next atomic.Int64
	return f.check(t, hostility{name: name, server: []string{"--mew", "--mew-tokens", tokens},
		send: func(ctx context.Context, a *attacker) error {
			token := members[int(next.Add(1))%len(members)]
			ws, _, err := websocket.Dial(ctx, strings.Replace(a.url, "http", "ws", 1)+"/ws",
				&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
			if err != nil {
				a.refused.Add(1)
				time.Sleep(10 * time.Millisecond)
				return nil
			}
			defer func() { _ = ws.CloseNow() }()
			go func() {
				for {
					if _, _, err := ws.Read(ctx); err != nil {
						return
					}
				}
			}()
			for i := 0; ctx.Err() == nil; i++ {
				if send(ctx, ws, i) != nil {
					a.refused.Add(1)
					break
				}
			}
			return nil
		}})
}
