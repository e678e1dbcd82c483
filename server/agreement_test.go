package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/runner"
	"runner/server/pool"
	"runner/server/wire"
)

// faults are what is wrong with the model of an agreement. Tests change them while the server runs.
type faults struct {
	open, step, files atomic.Pointer[error]
	passed            atomic.Int64
}

func (f *faults) now() time.Time { return time.Unix(0, 0).Add(time.Duration(f.passed.Load())) }

func (f *faults) set(at *atomic.Pointer[error], err error) { at.Store(&err) }

func of(at *atomic.Pointer[error]) error {
	if err := at.Load(); err != nil {
		return *err
	}
	return nil
}

// agreement is a server with two models, a and b. The first is in memory.
type agreement struct {
	*Server
	*faults
	pool *pool.Pool
}

func agrees(t *testing.T) *agreement {
	t.Helper()
	f := &faults{}
	p := pool.New(pool.Config{
		Clock: f.now, Models: []pool.Entry{{Name: "a"}, {Name: "b"}}, KeepAlive: -1,
		Check: func(context.Context, string) error { return of(&f.files) },
		Open: func(context.Context, string) (wire.Loaded, error) {
			if err := errors.Join(of(&f.open), of(&f.files)); err != nil {
				return nil, err
			}
			return runner.New(fake.New(fake.Config{Fail: func(int, []backend.Input) error { return of(&f.step) }}),
				runner.Config{})
		},
	})
	t.Cleanup(func() { p.Close() })
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}, {Name: "b"}}})
	s.Mount(&echo{s})
	a := &agreement{s, f, p}
	a.check()
	return a
}

// check is what the server's watch does from time to time.
func (a *agreement) check() {
	a.health.check(wire.WithPrincipal(context.Background(), a.local()))
}

// ask asks a model and returns the code of the error in the answer, empty if it is answered.
func (a *agreement) ask(model string) (code string) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost/say",
		strings.NewReader(`{"text":"q","model":"`+model+`"}`)))
	for _, code := range []string{wire.CodeModelChanged, wire.CodeModelUnusable, wire.CodeUnavailable, wire.CodeQueue,
		wire.CodeDraining, wire.CodeInternal} {
		if strings.Contains(w.Body.String(), code) {
			return code
		}
	}
	return ""
}

// says returns the status and the reason of /health.
func (a *agreement) says() (status int, body string) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/health", nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// TestHealthAgreesWithRequests checks in each state that a request is answered if and only if the server is healthy,
// and that the reason is the code of the request's error. Then what is wrong ends, and both must work again. Each order
// counts: health must not need a request to learn of a state, nor a request a check.
func TestHealthAgreesWithRequests(t *testing.T) {
	unusable := errors.New("it ends early")
	for _, c := range []struct {
		state string
		// model is which one is asked.
		model      string
		begin, end func(*agreement)
		code       string
	}{
		{"all is well", "a", func(*agreement) {}, func(*agreement) {}, ""},
		{"a model is idle", "b", func(*agreement) {}, func(*agreement) {}, ""},
		{"the engine breaks", "a", func(a *agreement) {
			a.set(&a.step, backend.ErrBroken)
			a.ask("a")
		}, func(a *agreement) { a.set(&a.step, nil) }, wire.CodeModelUnusable},
		{"the engine breaks and cannot be loaded again", "a", func(a *agreement) {
			a.set(&a.step, backend.ErrBroken)
			a.ask("a")
			a.set(&a.open, unusable)
			a.passed.Add(int64(time.Minute))
			a.ask("a")
		}, func(a *agreement) {
			a.set(&a.open, nil)
			a.set(&a.step, nil)
		}, wire.CodeModelUnusable},
		{"a model cannot be loaded", "b", func(a *agreement) {
			a.set(&a.open, unusable)
			a.ask("b")
		}, func(a *agreement) { a.set(&a.open, nil) }, wire.CodeModelUnusable},
		{"a model was unloaded and cannot be loaded again", "a", func(a *agreement) {
			a.set(&a.open, unusable)
			if err := a.pool.Unload(context.Background(), "a"); err != nil {
				t.Fatal(err)
			}
			a.ask("a")
		}, func(a *agreement) { a.set(&a.open, nil) }, wire.CodeModelUnusable},
		{"the engine at an address is down when a model is loaded", "b", func(a *agreement) {
			a.set(&a.open, backend.ErrUnavailable)
			a.ask("b")
		}, func(a *agreement) { a.set(&a.open, nil) }, wire.CodeUnavailable},
		{"the engine at an address is down", "a", func(a *agreement) {
			a.set(&a.step, backend.ErrUnavailable)
			a.check()
		}, func(a *agreement) { a.set(&a.step, nil) }, wire.CodeUnavailable},
		{"the files change", "a", func(a *agreement) {
			a.set(&a.files, pool.ErrChanged)
			a.check()
			a.passed.Add(int64(time.Minute))
		}, func(a *agreement) { a.set(&a.files, nil) }, wire.CodeModelChanged},
	} {
		for _, asksFirst := range []bool{true, false} {
			name := c.state + ", health first"
			if asksFirst {
				name = c.state + ", a request first"
			}
			t.Run(name, func(t *testing.T) {
				a := agrees(t)
				agree := func(when, want string) {
					t.Helper()
					var status int
					var body, code string
					if asksFirst {
						code = a.ask(c.model)
						status, body = a.says()
					} else {
						status, body = a.says()
						code = a.ask(c.model)
					}
					healthy := status == http.StatusOK
					if code != want || healthy != (code == "") || !healthy && !strings.Contains(body, code) {
						t.Errorf("%s: a request gets %q, health is %d %s, want %q", when, code, status, body, want)
					}
				}
				c.begin(a)
				agree("while it lasts", c.code)
				c.end(a)
				a.passed.Add(int64(time.Minute))
				if !asksFirst {
					a.check()
				}
				agree("afterwards", "")
			})
		}
	}
}

// TestServerThatStopsIsUnhealthyAtOnce checks that health and requests see the same moment.
func TestServerThatStopsIsUnhealthyAtOnce(t *testing.T) {
	a := agrees(t)
	a.drain.stop()
	if status, body := a.says(); status != http.StatusServiceUnavailable || !strings.Contains(body, healthStopping) {
		t.Errorf("%d %s", status, body)
	}
	if code := a.ask("a"); code != wire.CodeDraining {
		t.Errorf("a request gets %q", code)
	}
}

// TestHealthFollowsSoon checks the server's own watch: a failure is noticed when a request fails, and its end without
// any request.
func TestHealthFollowsSoon(t *testing.T) {
	f := &faults{}
	s := host(t, Config{}, fake.Config{Fail: func(int, []backend.Input) error { return of(&f.step) }})
	becomes := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); s.health.get() != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it is %s, not %s", s.health.get(), want)
			}
		}
	}
	becomes(healthOK)
	f.set(&f.step, backend.ErrUnavailable)
	s.do(t, http.MethodPost, "/say", `{"text":"q"}`)
	becomes(healthFailing)
	f.set(&f.step, nil)
	becomes(healthOK)
}
