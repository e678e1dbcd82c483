package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/runner"
	"runner/server/pool"
	"runner/server/wire"
)

func TestStoppingServerFinishesOrCutsRequests(t *testing.T) {
	for name, c := range map[string]struct {
		drain time.Duration
		want  string
	}{
		"finishes": {time.Minute, "d"}, "cuts": {time.Millisecond, wire.CodeDraining},
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat("a b c ", 30) + "d"
			p := pool.New(pool.Config{Models: []pool.Entry{{Name: "a"}},
				Open: func(context.Context, string) (wire.Loaded, error) {
					return runner.New(fake.New(slowly(2*time.Millisecond, said("q", long))), runner.Config{})
				}})
			s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}, DrainTimeout: c.drain})
			s.Mount(&echo{s})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, l) }()
			res, err := http.Post("http://"+l.Addr().String()+"/say", "application/json", strings.NewReader(`{"text":"q"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			begin := make([]byte, 8)
			if _, err := io.ReadFull(res.Body, begin); err != nil {
				t.Fatal(err)
			}
			stop()
			if c.drain == time.Minute {
				refusesWhileItDrains(t, s, l.Addr().String())
			}
			rest, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatalf("the stream was torn: %v", err)
			}
			text := string(begin) + string(rest)
			if !strings.HasSuffix(text, "\n\n") || !strings.Contains(text, c.want) {
				t.Errorf("%q", text)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
				conn.Close()
				t.Error("the server still listens")
			}
		})
	}
}

// refusesWhileItDrains checks the server's answers to other clients while it stops.
func refusesWhileItDrains(t *testing.T, s *Server, addr string) {
	t.Helper()
	for s.health.get() != healthStopping {
		time.Sleep(time.Millisecond)
	}
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{http.MethodGet, "/health", http.StatusServiceUnavailable, healthStopping},
		{http.MethodGet, "/metrics", http.StatusOK, "runner_requests_in_flight 2"},
		{http.MethodGet, "/props", http.StatusServiceUnavailable, wire.CodeDraining},
		{http.MethodPost, "/say", http.StatusServiceUnavailable, wire.CodeDraining},
	} {
		req, err := http.NewRequest(c.method, "http://"+addr+c.path, strings.NewReader(`{"text":"q"}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(body), c.text) {
			t.Errorf("%s: %d %.200s, %v", c.path, res.StatusCode, body, err)
		}
		if refused := c.text == wire.CodeDraining; !res.Close || refused != (res.Header.Get("Retry-After") != "") {
			t.Errorf("%s: closed %v, %v", c.path, res.Close, res.Header)
		}
	}
}

// working is a format that works until it is closed.
type working struct {
	echo
	closed chan error
}

func (*working) Routes() []wire.Route { return nil }

func (f *working) Close(ctx context.Context) {
	<-ctx.Done()
	f.closed <- ctx.Err()
}

func TestStoppingServerWaitsForFormats(t *testing.T) {
	p := pool.New(pool.Config{})
	s := New(Config{Pool: p, DrainTimeout: 20 * time.Millisecond})
	f := &working{closed: make(chan error, 1)}
	s.Mount(f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Serve(ctx, l); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	default:
		t.Error("the server ended before the format")
	}
}
