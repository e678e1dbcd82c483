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

	"runner/testenv"
)

// floods are what participants of a MEW space do to keep others from being answered. Each sends on a connection until
// it is ended.
var floods = []struct {
	name string
	send func(ctx context.Context, ws *websocket.Conn, i int) error
}{
	{"messages over the rate", func(ctx context.Context, ws *websocket.Conn, i int) error {
		return ws.Write(ctx, websocket.MessageText, note(i, ""))
	}},
	{"messages of a MiB", func(ctx context.Context, ws *websocket.Conn, i int) error {
		return ws.Write(ctx, websocket.MessageText, note(i, strings.Repeat("ab", 500_000)))
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

// note returns a message to nobody that ends with a text.
func note(i int, text string) []byte {
	return fmt.Appendf(nil, `{"kind":"chat","to":["nobody"],"payload":{"text":"%d%s"}}`, i, text)
}

// TestMEWFloods: what participants send hardly delays a key. The short form sends all in turn.
func TestMEWFloods(t *testing.T) {
	testenv.NeedLong(t, "it measures times, so nothing else may run")
	f, tokens := fairnessNow(), filepath.Join(t.TempDir(), "tokens.json")
	var members []string
	for i := range besides {
		members = append(members, mewToken(t, tokens, fmt.Sprint("flood", i), "chat"))
	}
	list := []hostility{flood("floods", members, func(ctx context.Context, ws *websocket.Conn, i int) error {
		return floods[i/500%len(floods)].send(ctx, ws, i)
	})}
	if os.Getenv("RUNNER_LONG") != "" {
		for _, one := range floods {
			list = append(list, flood(one.name, members, one.send))
		}
	}
	list[0].server = []string{"--mew", tokens}
	rows := f.check(t, list...)
	t.Logf("%d questions in each of %d turns\n%s%s", f.questions, f.turns, fairnessTable, rows)
}

// flood sends on a connection of each member, which is opened again when it is closed.
func flood(name string, members []string, send func(context.Context, *websocket.Conn, int) error) hostility {
	var next atomic.Int64
	return hostility{name: name, send: func(ctx context.Context, a *attacker) error {
		header := http.Header{"Authorization": {"Bearer " + members[int(next.Add(1))%len(members)]}}
		ws, resp, err := websocket.Dial(ctx, strings.Replace(a.url, "http", "ws", 1)+"/ws",
			&websocket.DialOptions{HTTPHeader: header})
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
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
	}}
}
