package standin_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/standin"
	"runner/backend/remote/web"
)

// TestFaultsOfAStream checks the error of every fault in every way of speaking, and that the tokens before it are
// right.
func TestFaultsOfAStream(t *testing.T) {
	t.Parallel()
	v := fake.Harmony()
	patience := time.Second
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Burst = 1
			s, h := start(t, c)
			e := engine(t, c.Kind, h.URL, v)
			r := &remote.Request{ID: "r", Tokens: []backend.Token{1, 2, 3}, Most: 8, Sampling: backend.Sampling{TopLogprobs: -1}}
			want := direct(t, r)
			for _, f := range []struct {
				name  string
				fault standin.Fault
				kind  web.Kind
			}{
				{"silence", standin.Fault{What: standin.Silent}, web.Slow},
				{"a stall", standin.Fault{After: 3, What: standin.Stall}, web.Slow},
				{"a drop", standin.Fault{After: 3, What: standin.Drop}, web.Broken},
				{"garbage", standin.Fault{After: 3, What: standin.Garbage}, web.Malformed},
				{"another form", standin.Fault{After: 3, What: standin.Wrong}, web.Malformed},
				{"a foreign token", standin.Fault{After: 0, What: standin.Foreign}, web.Malformed},
				{"an endless event", standin.Fault{After: 3, What: standin.Endless}, web.Malformed},
				{"an early end", standin.Fault{After: 3, What: standin.Early}, web.Broken},
				{"a failure", standin.Fault{After: 3, What: standin.Failure}, web.Broken},
				{"an abort by others", standin.Fault{After: 3, What: standin.GiveUp}, web.Broken},
				{"status 429", standin.Fault{Status: http.StatusTooManyRequests, RetryAfter: "2"}, web.Busy},
				{"status 503", standin.Fault{Status: http.StatusServiceUnavailable, RetryAfter: "2"}, web.Busy},
				{"status 500", standin.Fault{Status: http.StatusInternalServerError}, web.Broken},
				{"status 401", standin.Fault{Status: http.StatusUnauthorized}, web.Denied},
			} {
				s.Fail(func(int) standin.Fault { return f.fault })
				r.ID = "r-" + strings.ReplaceAll(f.name, " ", "-")
				ctx, cancel := context.WithCancelCause(context.Background())
				timer := time.AfterFunc(time.Minute, func() { cancel(&web.Error{Kind: web.Slow}) })
				arrived := func(n int) {
					if f.kind == web.Slow && n == f.fault.After { // a busy machine may need longer for the tokens before
						timer.Reset(patience)
					}
				}
				arrived(0)
				got, err := read(ctx, e, r, arrived)
				timer.Stop()
				cancel(nil)
				var w *web.Error
				switch {
				case !errors.As(err, &w) || w.Kind != f.kind:
					t.Errorf("%s: %v", f.name, err)
				case f.kind == web.Busy && w.RetryAfter != 2*time.Second:
					t.Errorf("%s: come back after %v", f.name, w.RetryAfter)
				case strings.Contains(err.Error(), h.URL) || strings.Contains(err.Error(), "127.0.0.1"):
					t.Errorf("%s: the error has the address: %v", f.name, err)
				}
				if len(got) != f.fault.After {
					t.Errorf("%s: %d tokens before it, want %d", f.name, len(got), f.fault.After)
				}
				for i, x := range got {
					if x.Token != want[i].Token {
						t.Errorf("%s: token %d is %d, want %d", f.name, i, x.Token, want[i].Token)
					}
				}
			}
			s.Fail(nil)
			if got, err := read(context.Background(), e, r, nil); !errors.Is(err, io.EOF) || len(got) != len(want) {
				t.Errorf("after all faults: %d tokens, %v", len(got), err)
			}
		})
	}
}

// read reads a generation until it ends or fails. It calls arrived, if that is not nil, with the number of tokens
// whenever one has come.
func read(ctx context.Context, e remote.Engine, r *remote.Request, arrived func(int)) (list []remote.Sample,
	err error) {
	s, err := e.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		var x remote.Sample
		if err := s.Next(&x); err != nil {
			return list, err
		}
		if list = append(list, x); arrived != nil {
			arrived(len(list))
		}
	}
}

// TestCloseAbortsAtTheEngine closes a stream in the middle.
func TestCloseAbortsAtTheEngine(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			c.Pace, c.Burst = 5*time.Millisecond, 1
			s, h := start(t, c)
			e := engine(t, c.Kind, h.URL, fake.Harmony())
			for i, id := range []string{"first", "second"} {
				g, err := e.Open(context.Background(), &remote.Request{ID: id, Tokens: []backend.Token{1}, Most: 4000,
					Sampling: backend.Sampling{TopLogprobs: -1}})
				if err != nil {
					t.Fatal(err)
				}
				var x remote.Sample
				for range i * 2 { // the first one is closed before a token came
					if err := g.Next(&x); err != nil {
						t.Fatal(err)
					}
				}
				g.Close()
				g.Close()
				told := func() bool {
					return c.NoTokensRoute || c.OldRoutes ||
						slices.ContainsFunc(s.Aborted(), func(x string) bool { return strings.HasSuffix(x, id) })
				}
				for deadline := time.Now().Add(5 * time.Second); s.Running() > 0 || !told(); {
					if time.Now().After(deadline) {
						t.Fatalf("%d generations run, aborted are %q", s.Running(), s.Aborted())
					}
					time.Sleep(time.Millisecond)
				}
			}
			if n := len(s.Aborted()); n > 3 { // both names of the first one, and one of the second
				t.Errorf("%d aborts", n)
			}
		})
	}
}

// TestSGLangIsToldBeforeTheConnectionDrops ends generations by closing them and by ending their context, before and
// after the first token. SGLang would miss an abort that comes after the connection was dropped.
func TestSGLangIsToldBeforeTheConnectionDrops(t *testing.T) {
	t.Parallel()
	s, h := start(t, standin.Config{Kind: "sglang", Model: fake.Config{Script: never}, Pace: 2 * time.Millisecond})
	e := engine(t, "sglang", h.URL, fake.Harmony())
	const n = 24
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g, err := e.Open(ctx, &remote.Request{ID: "r" + string(rune('a'+i)), Tokens: []backend.Token{1}, Most: 4000,
			Sampling: backend.Sampling{TopLogprobs: -1}})
		if err != nil {
			t.Fatal(err)
		}
		var x remote.Sample
		for range i % 3 {
			if err := g.Next(&x); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			g.Close()
			continue
		}
		cancel()
		for began := time.Now(); err == nil; err = g.Next(&x) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("the generation goes on without its context")
			}
		}
		g.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); s.Running() > 0 || len(s.Aborted()) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d generations run, %d were aborted", s.Running(), len(s.Aborted()))
		}
		time.Sleep(time.Millisecond)
	}
	if missed := s.Missed(); len(missed) > 0 || len(s.Aborted()) != n {
		t.Errorf("%d aborts, of which %d came too late: %q", len(s.Aborted()), len(missed), missed)
	}
}

// TestAnAbortThatHangsDoesNotKeepTheConnection closes a generation at a server that does not answer the abort.
func TestAnAbortThatHangsDoesNotKeepTheConnection(t *testing.T) {
	t.Parallel()
	s := standin.New(standin.Config{Kind: "sglang", Model: fake.Config{Script: never}, Pace: 2 * time.Millisecond})
	h := newServer(t, "", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort_request" {
			<-r.Context().Done()
			return
		}
		s.ServeHTTP(w, r)
	}), nil)
	g, err := engine(t, "sglang", h.url, fake.Harmony()).Open(context.Background(), &remote.Request{ID: "r",
		Tokens: []backend.Token{1}, Most: 4000, Sampling: backend.Sampling{TopLogprobs: -1}})
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	began := time.Now()
	for ; s.Running() > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 4*time.Second {
			t.Fatal("the generation goes on")
		}
	}
}

// TestConnectionsAreKept runs generations one after the other.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		s := standin.New(c)
		var mu sync.Mutex
		connections := 0
		h := newServer(t, "", s, func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			if state == http.StateNew {
				connections++
			}
		})
		e := engine(t, c.Kind, h.url, fake.Harmony())
		for range 20 {
			// The caller stops to read after the token that it asked for.
			g, err := e.Open(context.Background(), &remote.Request{ID: "r", Tokens: []backend.Token{1}, Most: 1,
				Sampling: backend.Sampling{TopLogprobs: -1}})
			if err != nil {
				t.Fatal(err)
			}
			var x remote.Sample
			if err := g.Next(&x); err != nil {
				t.Fatal(err)
			}
			g.Close()
		}
		mu.Lock()
		if connections > 2 {
			t.Errorf("%s: %d connections for 20 generations", name, connections)
		}
		mu.Unlock()
	}
}

// BenchmarkFirstToken measures the first token of a generation on a connection that a fast one used just before.
func BenchmarkFirstToken(b *testing.B) {
	for _, kind := range []string{"vllm", "sglang"} {
		b.Run(kind, func(b *testing.B) {
			_, h := start(b, standin.Config{Kind: kind, Model: fake.Config{Script: never}, Pace: time.Millisecond})
			e := engine(b, kind, h.URL, fake.Harmony())
			var all []time.Duration
			for b.Loop() {
				for _, most := range []int{40, 2} {
					began := time.Now()
					g, err := e.Open(context.Background(), &remote.Request{ID: "r", Tokens: []backend.Token{1}, Most: most,
						Sampling: backend.Sampling{TopLogprobs: -1}})
					var x remote.Sample
					if err == nil {
						err = g.Next(&x)
					}
					if most == 2 {
						all = append(all, time.Since(began))
					}
					for err == nil {
						err = g.Next(&x)
					}
					if !errors.Is(err, io.EOF) {
						b.Fatal(err)
					}
					g.Close()
				}
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "us/first-token")
			b.ReportMetric(float64(all[len(all)*9/10].Microseconds()), "us/first-token-p90")
		})
	}
}

// server is a server that can be stopped and started at the same address.
type server struct {
	url, addr string
	http      *http.Server
}

// newServer starts a server at an address; empty means any.
func newServer(t *testing.T, addr string, h http.Handler, watch func(net.Conn, http.ConnState)) *server {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var l net.Listener
	var err error
	for range 50 { // the last owner of the address may still be leaving
		if l, err = net.Listen("tcp", addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &server{"http://" + l.Addr().String(), l.Addr().String(), &http.Server{Handler: h, ConnState: watch}}
	go s.http.Serve(l)
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() { s.http.Close() }

// generate takes tokens of a greedy generation from a model, in the way of the runner.
func generate(m *remote.Model, n int) (list []backend.Token, err error) {
	q, err := m.NewSequence()
	if err != nil {
		return nil, err
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	feed := []backend.Token{1, 2, 3}
	for range n {
		out := make([]backend.Output, 1)
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &backend.Sampling{TopLogprobs: -1}}}
		if err := backend.StepAll(ctx, m, in, out); err != nil {
			return list, err
		}
		list = append(list, out[0].Token)
		feed = []backend.Token{out[0].Token}
	}
	return list, nil
}

// never replaces a token that would end the generation.
func never(tokens []backend.Token) backend.Token { return backend.Token(1 + len(tokens)*7%200) }

// TestBrokenStreamsGoOn lets twelve generations fail in random ways. The tokens are those without faults.
func TestBrokenStreamsGoOn(t *testing.T) {
	t.Parallel()
	const n, most = 160, 12
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Model = fake.Config{Script: never}
			s, h := start(t, c)
			m := open(t, engine(t, c.Kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{
				FirstToken: 200 * time.Millisecond, NextToken: 200 * time.Millisecond, Faults: 20 * time.Second})
			want, err := generate(m, n)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			faults := 0
			s.Fail(func(int) standin.Fault {
				if faults == most {
					return standin.Fault{}
				}
				faults++
				f := standin.Fault{After: 1 + rng.IntN(9),
					What: standin.Drop + standin.What(rng.IntN(int(standin.GiveUp-standin.Drop)+1))}
				switch f.What {
				case standin.Endless:
					f.What = standin.Early // 16 MiB each time is too slow here
				case standin.Foreign:
					f.After = 0
				}
				if rng.IntN(6) == 0 {
					f = standin.Fault{Status: http.StatusServiceUnavailable}
				}
				return f
			})
			got, err := generate(m, n)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v after %d faults\ngot  %v\nwant %v", err, faults, got, want)
			}
			if faults != most {
				t.Errorf("there were %d faults", faults)
			}
		})
	}
}

// TestRetryAfterIsKept asks again when the engine said, and not before.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"vllm", "sglang"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, h := start(t, standin.Config{Kind: kind, Model: fake.Config{Script: never}})
			m := open(t, engine(t, kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{})
			s.Fail(func(i int) standin.Fault {
				return standin.Fault{Status: []int{http.StatusServiceUnavailable, 0}[min(i, 1)], RetryAfter: "1"}
			})
			began := time.Now()
			if _, err := generate(m, 3); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < time.Second || took > 10*time.Second {
				t.Errorf("the tokens came after %v", took)
			}
		})
	}
}

// TestTheEngineRestarts stops the engine for a while in the middle of a generation.
func TestTheEngineRestarts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"vllm", "sglang"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := standin.Config{Kind: kind, Model: fake.Config{Script: never}, Pace: 5 * time.Millisecond}
			h := newServer(t, "", standin.New(c), nil)
			m := open(t, engine(t, kind, h.url, fake.Harmony()), backend.Config{}, remote.Patience{})
			want, err := generate(m, 100)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(100 * time.Millisecond)
				h.stop()
				time.Sleep(200 * time.Millisecond)
				newServer(t, h.addr, standin.New(c), nil)
			}()
			got, err := generate(m, 100)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v\ngot  %v\nwant %v", err, got, want)
			}
			if _, _, faults, _ := m.StreamCounts(); faults == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}

// TestAnotherModelIsRefused restarts the engine with another model in the middle of a generation.
func TestAnotherModelIsRefused(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, h := start(t, standin.Config{Kind: kind, Model: fake.Config{Script: never}, Pace: time.Millisecond})
			m := open(t, engine(t, kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{})
			s.Fail(func(i int) standin.Fault {
				if i == 0 {
					return standin.Fault{After: 20, What: standin.Drop}
				}
				return standin.Fault{}
			})
			go func() {
				time.Sleep(10 * time.Millisecond)
				s.Swap("another", fake.Config{Vocab: fake.Think()})
			}()
			for range 2 {
				if got, err := generate(m, 100); !errors.Is(err, backend.ErrOtherModel) {
					t.Errorf("%d tokens, %v", len(got), err)
				}
			}
		})
	}
}

// TestMessagesThatNameAnotherModel sends generations to a replica with another model, while the questions what the
// engine runs reach the right one. vLLM's route for text names the model in each message.
func TestMessagesThatNameAnotherModel(t *testing.T) {
	t.Parallel()
	c := standin.Config{Kind: "vllm", NoTokensRoute: true, Model: fake.Config{Script: never}}
	right, other := standin.New(c), c
	other.Name = "another"
	wrong := standin.New(other)
	wrong.AnyName()
	var turned atomic.Bool
	h := newServer(t, "", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turned.Load() && r.URL.Path == "/v1/completions" {
			wrong.ServeHTTP(w, r)
			return
		}
		right.ServeHTTP(w, r)
	}), nil)
	m := open(t, engine(t, "vllm", h.url, fake.Harmony()), backend.Config{}, remote.Patience{})
	if _, err := generate(m, 5); err != nil {
		t.Fatal(err)
	}
	turned.Store(true)
	if got, err := generate(m, 5); !errors.Is(err, backend.ErrOtherModel) || len(got) > 0 {
		t.Errorf("%d tokens of another model, %v", len(got), err)
	}
}

// TestConnectingHasALimit connects to a listener that never answers. The time for TLS belongs to connecting.
func TestConnectingHasALimit(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, kind := range []string{"vllm", "sglang"} {
		began := time.Now()
		e := engineWithTimeout(t, kind, "https://"+l.Addr().String(), 100*time.Millisecond)
		_, err := e.Describe(context.Background())
		var w *web.Error
		if took := time.Since(began); !errors.As(err, &w) || w.Kind == web.Refused || took > 5*time.Second {
			t.Errorf("%s: %v after %v", kind, err, took)
		}
	}
}

// TestTooLongPromptsAreNamed sends a prompt that is longer than the engine's context.
func TestTooLongPromptsAreNamed(t *testing.T) {
	for name, c := range variants {
		c.Model = fake.Config{ContextSize: 64}
		_, h := start(t, c)
		_, err := read(context.Background(), engine(t, c.Kind, h.URL, fake.Harmony()), &remote.Request{ID: "r",
			Tokens: make([]backend.Token, 65), Most: 1, Sampling: backend.Sampling{TopLogprobs: -1}}, nil)
		var w *web.Error
		if !errors.As(err, &w) || w.Kind != web.Refused || !w.TooLong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
