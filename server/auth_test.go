package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/server/keys"
	"runner/server/ollama"
	"runner/server/pool"
	"runner/server/traces"
	"runner/server/web"
	"runner/server/wire"
)

func TestKeysDecideWhoMayDoWhat(t *testing.T) {
	set := keyFile(t, entry("full", "key-full", `,"reasoning":"full"`)+","+entry("small", "key-small",
		`,"reasoning":"summary","scopes":["generate"],"models":["b"]`))
	s := host(t, Config{Keys: set}, scripted(said("q", "four")))
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		contains           string
	}{
		{"POST", "/say", `{"text":"q"}`, nil, 401, wire.CodeNoKey},
		{"POST", "/say", `{"text":"q"}`, []string{"Authorization", "Bearer wrong"}, 401, wire.CodeBadKey},
		{"POST", "/say", `{"text":"q"}`, []string{"Authorization", "Bearer key-full"}, 200, "four"},
		{"POST", "/say", `{"text":"q"}`, []string{"Authorization", "bearer key-full"}, 200, "four"},
		{"POST", "/say", `{"text":"q"}`, []string{"X-Api-Key", "key-full"}, 200, "four"},
		{"POST", "/say", `{"text":"q"}`, []string{"X-Api-Key", "key-full", "Authorization", "Bearer "}, 200, "four"},
		{"POST", "/say", `{"text":"q","visibility":"full"}`, []string{"Authorization", "Bearer key-full"}, 200, canary},
		{"POST", "/say", `{"text":"q","visibility":"full"}`, []string{"Authorization", "Bearer key-small"}, 403,
			"reasoning:full"},
		{"POST", "/say", `{"text":"q"}`, []string{"Authorization", "Bearer key-small"}, 200, "four"},
		{"POST", "/say", `{"text":"q","model":"a"}`, []string{"Authorization", "Bearer key-small"}, 404, wire.CodeModel},
		{"POST", "/say", `{"text":"q","model":"c"}`, []string{"Authorization", "Bearer key-full"}, 404, wire.CodeModel},
		{"GET", "/metrics", "", []string{"Authorization", "Bearer key-small"}, 403, "metrics"},
		{"GET", "/metrics", "", nil, 401, wire.CodeNoKey},
		{"GET", "/health", "", nil, 200, "ok"},
		{"GET", "/health", "", []string{"Authorization", "Bearer wrong"}, 200, "ok"},
	} {
		for s.health.get() == healthLoading {
			time.Sleep(time.Millisecond)
		}
		r := s.do(t, c.method, c.path, c.body, c.header...)
		if r.StatusCode != c.status || !strings.Contains(r.body, c.contains) {
			t.Errorf("%s %s %v: %d %s", c.path, c.body, c.header, r.StatusCode, r.body)
		}
	}
	if log := s.log.String(); strings.Contains(log, "key-full") || strings.Contains(log, "key-small") ||
		!strings.Contains(log, "key=small") {
		t.Errorf("log: %s", log)
	}
	if log := s.log.String(); !regexp.MustCompile(`route="GET /metrics" status=403 ms=\S+ key=small `).MatchString(log) {
		t.Errorf("the log does not say which key was refused: %s", log)
	}
}

// TestStrangersAreNoOperators checks what callers without keys may do: everything on a server for this machine, but
// nothing of the operator's and no traces on one that other machines can reach.
func TestStrangersAreNoOperators(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      Config
		stranger bool
	}{
		"for this machine": {Config{}, false},
		"public":           {Config{Public: true}, true},
		"behind a proxy":   {Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, true},
		"public, and clients may change the models": {
			Config{Public: true, Granted: []wire.Scope{ollama.ScopeModelsWrite}}, true},
	} {
		c.cfg.Pool = pool.New(pool.Config{Models: []pool.Entry{{Name: "a"}}})
		c.cfg.Cards = []wire.Card{{Name: "a"}}
		s := New(c.cfg)
		s.Mount(web.New(s, web.Config{Figures: s.Figures}))
		s.Mount(traces.New(traces.Config{}))
		ask := func(method, path string) (int, string) {
			r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		refused := func(method, path, scope string) {
			t.Helper()
			code, body := ask(method, path)
			forbidden := code == http.StatusForbidden && strings.Contains(body, "nobody the permission "+scope+";")
			if forbidden != c.stranger {
				t.Errorf("%s: %s %s: %d %s", name, method, path, code, body)
			}
		}
		refused("GET", "/web/figures", "admin")
		refused("GET", "/v1/traces", "trace:read")
		refused("GET", "/v1/traces/trace_1/content", "trace:read")
		refused("DELETE", "/v1/traces/trace_1", "trace:erase")
		if code, body := ask("GET", "/web/session"); code != 200 ||
			strings.Contains(body, `"admin":true`) == c.stranger {
			t.Errorf("%s: the page's session: %d %s", name, code, body)
		}
		for _, path := range []string{"/metrics", "/health"} { // the figures name no person
			if code, _ := ask("GET", path); code == http.StatusForbidden || code == http.StatusUnauthorized {
				t.Errorf("%s: %s: %d", name, path, code)
			}
		}
		if may := s.local().May(ollama.ScopeModelsWrite); may != (c.cfg.Granted != nil) {
			t.Errorf("%s: models:write is %t", name, may)
		}
		if err := c.cfg.Pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKeysAreReadAgain checks that added keys work and removed keys do not, without a restart.
func TestKeysAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"keys":[` + entry("first", "key-first", "") + `]}`)
	set, err := keys.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s := host(t, Config{Keys: set}, fake.Config{})
	status := func(key string) int {
		return s.do(t, http.MethodGet, "/props", "", "X-Api-Key", key).StatusCode
	}
	write(`{"keys":[` + entry("second", "key-second", "") + `]`)
	if s.Reload(); status("key-first") != 200 || !strings.Contains(s.log.String(), "the old ones stay in use") {
		t.Errorf("%s", s.log)
	}
	write(`{"keys":[` + entry("second", "key-second", "") + `]}`)
	if s.Reload(); status("key-first") != 401 || status("key-second") != 200 ||
		!strings.Contains(s.log.String(), "the API keys were read again") {
		t.Errorf("%s", s.log)
	}
	if strings.Contains(s.log.String(), "key-second") {
		t.Error("a key is in the log")
	}
}

// TestServeWaitsForItsWork has a source that is slow to read. Serve returns after that.
func TestServeWaitsForItsWork(t *testing.T) {
	reading, read, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	begin := sync.OnceFunc(func() { close(reading) })
	other := host(t, Config{}, fake.Config{})
	s := New(Config{Pool: other.cfg.Pool, Cards: other.cfg.Cards, Sources: []keys.Source{{Name: "slow things",
		Reread: func(bool) (bool, error) {
			begin()
			<-read
			return false, nil
		}}}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { over <- s.Serve(ctx, l) }()
	<-reading
	stop()
	select {
	case <-over:
		t.Error("it did not wait")
	case <-time.After(200 * time.Millisecond):
	}
	close(read)
	if err := <-over; err != nil {
		t.Error(err)
	}
}
