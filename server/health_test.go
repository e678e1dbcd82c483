package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/runner"
	"runner/server/pool"
	"runner/server/wire"
	"runner/testenv"
)

func TestHealthFollowsTheModel(t *testing.T) {
	var broken sync.Map
	c := fake.Config{Fail: func(int, []backend.Input) error {
		if _, yes := broken.Load("yes"); yes {
			return backend.ErrBroken
		}
		return nil
	}}
	s := host(t, Config{}, c)
	deadline := time.Now().Add(10 * time.Second)
	for s.do(t, http.MethodGet, "/health", "").StatusCode != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("never ready")
		}
	}
	broken.Store("yes", true)
	s.health.check(t.Context())
	if r := s.do(t, http.MethodGet, "/health", ""); r.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(r.body, healthFailing) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// A server whose first model cannot be loaded is unhealthy, however often it is asked.
func TestModelThatCannotBeLoadedIsUnhealthy(t *testing.T) {
	cannot := &backend.LoadError{Path: "a.gguf", Detail: "ends early", Advice: "download the file again"}
	var fail atomic.Bool
	fail.Store(true)
	var passed atomic.Int64
	clock := func() time.Time { return time.Unix(0, 0).Add(time.Duration(passed.Load())) }
	p := pool.New(pool.Config{Clock: clock, Models: []pool.Entry{{Name: "a"}},
		Open: func(context.Context, string) (wire.Loaded, error) {
			if fail.Load() {
				return nil, cannot
			}
			return runner.New(fake.New(fake.Config{}), runner.Config{})
		}})
	defer p.Close()
	log := &testenv.Buffer{}
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx := wire.WithPrincipal(t.Context(), s.local())
	for range 3 {
		if s.health.check(ctx); s.health.get() != healthFailing {
			t.Fatalf("it is %s", s.health.get())
		}
	}
	if line := log.String(); !strings.Contains(line,
		`error="cannot load a.gguf: ends early" advice="download the file again"`) {
		t.Errorf("the log says %s", line)
	}
	fail.Store(false)
	passed.Add(int64(probeEvery))
	if s.health.check(ctx); s.health.get() != healthOK {
		t.Errorf("it is %s once the model can be loaded", s.health.get())
	}
}

// Checking a model's health does not count as using it.
func TestHealthKeepsNoModelLoaded(t *testing.T) {
	p := pool.New(pool.Config{KeepAlive: 50 * time.Millisecond, Models: []pool.Entry{{Name: "a"}},
		Open: func(context.Context, string) (wire.Loaded, error) {
			return runner.New(fake.New(fake.Config{}), runner.Config{})
		}})
	defer p.Close()
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}})
	ctx := wire.WithPrincipal(t.Context(), s.local())
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.health.check(ctx)
		switch {
		case s.health.get() != healthOK:
			t.Fatalf("it is %s", s.health.get())
		case p.Loaded("a") == nil:
			return
		case time.Now().After(deadline):
			t.Fatal("the model is never unloaded")
		}
	}
}

// TestModelWhoseFilesChange checks that changed files are reported and not loaded. Once the original files are back,
// the model is loaded again.
func TestModelWhoseFilesChange(t *testing.T) {
	var bad, changed atomic.Bool
	var loads atomic.Int64
	var passed atomic.Int64
	clock := func() time.Time { return time.Unix(0, 0).Add(time.Duration(passed.Load())) }
	compare := func(name string) error {
		if changed.Load() {
			return fmt.Errorf("%s.gguf: %w", name, pool.ErrChanged)
		}
		return nil
	}
	p := pool.New(pool.Config{
		Clock: clock, Models: []pool.Entry{{Name: "a"}},
		Check: func(_ context.Context, name string) error { return compare(name) },
		Open: func(_ context.Context, name string) (wire.Loaded, error) {
			if err := compare(name); err != nil {
				return nil, err
			}
			loads.Add(1)
			return runner.New(fake.New(fake.Config{Fail: func(_ int, in []backend.Input) error {
				if bad.Load() {
					return &backend.InputError{Err: backend.ErrBadLogits}
				}
				return nil
			}}), runner.Config{})
		},
	})
	defer p.Close()
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}})
	s.Mount(&echo{s})
	ask := func(method, path string) (status int, body string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(`{"text":"q"}`)))
		return w.Code, w.Body.String()
	}
	says := func(method, path string, status int, contains string) {
		t.Helper()
		if got, body := ask(method, path); got != status || !strings.Contains(body, contains) {
			t.Errorf("%s: %d %s, want %d %s", path, got, body, status, contains)
		}
	}
	ctx := wire.WithPrincipal(t.Context(), s.local())
	s.health.check(ctx)
	says(http.MethodGet, "/health", http.StatusOK, `{"status":"ok"}`)

	// The weights are damaged while the engine uses them.
	passed.Add(int64(time.Minute))
	bad.Store(true)
	for range 3 {
		says(http.MethodPost, "/say", http.StatusOK, wire.CodeModelUnusable) // its stream has begun
	}
	says(http.MethodGet, "/health", http.StatusServiceUnavailable, wire.CodeModelUnusable)
	changed.Store(true)
	for range 3 {
		says(http.MethodPost, "/say", http.StatusServiceUnavailable, wire.CodeModelChanged)
	}
	says(http.MethodGet, "/health", http.StatusServiceUnavailable, `{"reason":"model_changed","status":"failing"}`)
	if n := loads.Load(); n != 1 {
		t.Errorf("loaded %d times", n)
	}
	passed.Add(int64(time.Minute))
	s.health.check(ctx)
	says(http.MethodGet, "/health", http.StatusServiceUnavailable, wire.CodeModelChanged)

	// They are restored.
	passed.Add(int64(time.Minute))
	bad.Store(false)
	changed.Store(false)
	s.health.check(ctx)
	says(http.MethodGet, "/health", http.StatusOK, `{"status":"ok"}`)
	says(http.MethodPost, "/say", http.StatusOK, "")

	// They are replaced while the model is not loaded.
	if err := p.Unload(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	changed.Store(true)
	for range 2 {
		says(http.MethodPost, "/say", http.StatusServiceUnavailable, wire.CodeModelChanged)
	}
	says(http.MethodGet, "/health", http.StatusServiceUnavailable, `{"reason":"model_changed","status":"failing"}`)
	changed.Store(false)
	passed.Add(int64(time.Minute))
	s.health.check(ctx)
	says(http.MethodGet, "/health", http.StatusOK, `{"status":"ok"}`)
	says(http.MethodPost, "/say", http.StatusOK, "")

	// They are damaged in a way that the engine does not notice.
	passed.Add(int64(time.Minute))
	changed.Store(true)
	s.health.check(ctx)
	says(http.MethodGet, "/health", http.StatusServiceUnavailable, wire.CodeModelChanged)
	says(http.MethodPost, "/say", http.StatusServiceUnavailable, wire.CodeModelChanged)
	if n := loads.Load(); n != 3 {
		t.Errorf("loaded %d times", n)
	}
}
