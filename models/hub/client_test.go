package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
)

const secret = "hf_SecretOfTheTests"

// quick repeats requests without much waiting.
var quick = hub.Retry{Tries: 4, First: time.Millisecond, Most: 2 * time.Millisecond, Patience: 50 * time.Millisecond}

func client(t *testing.T, h *hubtest.Hub, token string) *hub.Client {
	t.Helper()
	tok, err := hub.NewToken(token)
	if err != nil {
		t.Fatal(err)
	}
	c, err := hub.New(hub.Config{Endpoint: h.URL + "/", Token: tok, Retry: quick, Stall: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// model is a repository with one small file and a large one.
func model() hubtest.Repo {
	return hubtest.Repo{ID: "Org/Model-GGUF", License: "apache-2.0", Files: []hubtest.File{
		{Path: "model Q4.gguf", Content: []byte(strings.Repeat("weights ", 20_000)), LFS: true},
		{Path: "README.md", Content: []byte("hello")},
	}}
}

func find(t *testing.T, l hub.Listing, path string) catalog.File {
	t.Helper()
	for _, f := range l.Files {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("the list has no %s: %+v", path, l)
	return catalog.File{}
}

func TestRepositoryAndFiles(t *testing.T) {
	h := hubtest.Start(t)
	h.PageSize = 1
	want := h.Add(model())
	c := client(t, h, "")
	r, err := c.Repository(t.Context(), "org/model-gguf", "main")
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != want.ID || r.Commit != want.Commit || r.License != "apache-2.0" || r.Gated {
		t.Errorf("got %+v", r)
	}
	l, err := c.Files(t.Context(), r.ID, r.Commit)
	if err != nil || len(l.Files) != 2 || l.Files[0].Path != "README.md" {
		t.Fatalf("got %+v, %v", l, err)
	}
	for i, f := range l.Files {
		from := want.Files[1-i]
		if f.Path != from.Path || f.Etag != from.Etag() || f.Size != int64(len(from.Content)) {
			t.Errorf("got %+v", f)
		}
		for _, part := range [][2]int64{{0, f.Size}, {1, f.Size}, {2, 3}} {
			b, err := c.Open(t.Context(), r.ID, r.Commit, f, part[0], part[1], "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(b)
			if err != nil || string(got) != string(from.Content[part[0]:part[1]]) {
				t.Errorf("bytes %d of %s: %d bytes, %v", part, f.Path, len(got), err)
			}
			_ = b.Close()
		}
	}
}

// TestErrors checks that each failure has its kind and a hint, and that no text has the token or a storage host's key.
func TestErrors(t *testing.T) {
	status := func(code int, header ...string) hubtest.Fault {
		f := hubtest.Fault{Status: code, Header: http.Header{}}
		for i := 0; i < len(header); i += 2 {
			f.Header.Set(header[i], header[i+1])
		}
		return f
	}
	for _, c := range []struct {
		name     string
		repo, at string
		token    string
		gated    bool
		fault    hubtest.Fault
		kind     hub.Kind
		hint     string
	}{
		{name: "missing", repo: "org/none", kind: hub.NotFound, hint: "spelling"},
		{name: "missing with a token", repo: "org/none", token: secret, kind: hub.NotFound, hint: "spelling"},
		{name: "not a name", repo: "../../etc", kind: hub.NotFound, hint: "ORG/REPO"},
		{name: "a name with a query", repo: "org/model?x=1", kind: hub.NotFound, hint: "ORG/REPO"},
		{name: "revision", at: "v7", kind: hub.NotFound, hint: "revision"},
		{name: "another commit", at: strings.Repeat("0", 40), kind: hub.NotFound},
		{name: "gated", gated: true, kind: hub.Gated, hint: "HF_TOKEN"},
		{name: "gated with a token", gated: true, token: "hf_other", kind: hub.Gated, hint: "account of the token"},
		{name: "token", token: secret, fault: status(401, "X-Error-Message", "Invalid credentials in Authorization header"),
			kind: hub.Unauthorized, hint: "HF_TOKEN"},
		{name: "forbidden", token: secret, fault: status(403, "X-Error-Message", "no\u202escope"), kind: hub.Unauthorized},
		{name: "limited", fault: status(429, "Retry-After", "3000"), kind: hub.RateLimited, hint: "50m0s"},
		{name: "limited by another header", fault: status(429, "RateLimit", `"api";r=0;t=120`), kind: hub.RateLimited,
			hint: "2m0s"},
		{name: "failing", fault: status(503), kind: hub.Unreachable, hint: "later"},
		{name: "odd", fault: status(418), kind: hub.BadAnswer},
		{name: "cut", fault: hubtest.Fault{Abort: true}, kind: hub.Unreachable, hint: "network"},
		{name: "loop", fault: hubtest.Fault{Redirect: "?again"}, kind: hub.BadAnswer},
		{name: "scheme", fault: hubtest.Fault{Redirect: "file:///etc/passwd"}, kind: hub.BadAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hubtest.Start(t)
			m := model()
			m.Gated = c.gated
			if c.gated {
				m.Token = secret
			}
			m = h.Add(m)
			h.Fail(func(hubtest.Request) hubtest.Fault { return c.fault })
			if c.repo == "" {
				c.repo = m.ID
			}
			if c.at == "" {
				c.at = "main"
			}
			cl := client(t, h, c.token)
			_, err := cl.Repository(t.Context(), c.repo, c.at)
			if c.gated && err == nil {
				f := catalog.File{Path: "README.md", Size: 5, Etag: m.Files[1].Etag()}
				_, err = cl.Open(t.Context(), m.ID, m.Commit, f, 0, 5, "")
			}
			var e *hub.Error
			if !errors.As(err, &e) || e.Kind != c.kind {
				t.Fatalf("got %#v", err)
			}
			if e.Hint() == "" || !strings.Contains(e.Hint()+e.Detail, c.hint) {
				t.Errorf("the hint is %q", e.Hint())
			}
			if c.gated && e.Page != h.URL+"/"+m.ID {
				t.Errorf("the page is %q", e.Page)
			}
			text := fmt.Sprintf("%v %+v %#v %s", err, e, e, e.Hint())
			if strings.Contains(text, "hf_") || strings.Contains(text, "\u202e") || strings.Contains(e.Error(), "\n") {
				t.Errorf("the error says %q", text)
			}
		})
	}
}

func TestOffline(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(model())
	c, err := hub.New(hub.Config{Endpoint: h.URL, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Repository(t.Context(), "Org/Model-GGUF", "main")
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.Offline ||
		!strings.Contains(e.Hint(), "HF_HUB_OFFLINE") {
		t.Errorf("got %v", err)
	}
	if len(h.Asked()) > 0 {
		t.Error("the hub was asked")
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	var waits int
	c, err := hub.New(hub.Config{Endpoint: s.URL, Retry: quick, Waiting: func(error, time.Duration) { waits++ }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Repository(t.Context(), "a/b", "main")
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.Unreachable {
		t.Errorf("got %v", err)
	}
	if waits != quick.Tries-1 {
		t.Errorf("%d waits", waits)
	}
}

// TestTokenStaysHome checks who gets the token along redirects.
func TestTokenStaysHome(t *testing.T) {
	var got []string
	note := func(name string, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			got = append(got, name+r.URL.Path)
		}
	}
	var away, home *httptest.Server
	away = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note("away", r)
		http.Redirect(w, r, home.URL+"/back", http.StatusFound)
	}))
	defer away.Close()
	home = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note("home", r)
		switch r.URL.Path {
		case "/inside":
			to := strings.Replace(away.URL, "http://", "http://user:password@", 1) + "/out?key=hidden"
			http.Redirect(w, r, to, http.StatusFound)
		case "/back":
			http.Error(w, "", http.StatusTeapot)
		default:
			http.Redirect(w, r, "/inside", http.StatusFound)
		}
	}))
	defer home.Close()
	token, _ := hub.NewToken(secret)
	c, err := hub.New(hub.Config{Endpoint: home.URL, Token: token, Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.Repeat("a", 40)
	_, err = c.Open(t.Context(), "a/b", commit, catalog.File{Path: "f", Size: 9, Etag: commit}, 0, 9, "")
	if err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "password") {
		t.Errorf("the error is %v", err)
	}
	// /back is the endpoint, but a stranger chose the address.
	want := "[home/a/b/resolve/" + commit + "/f home/inside]"
	if fmt.Sprint(got) != want {
		t.Errorf("the token went to %v", got)
	}
}

// TestTokenPrintsNothing formats a token in all the ways that programs log values.
func TestTokenPrintsNothing(t *testing.T) {
	token, err := hub.NewToken(" " + secret + "\n")
	if err != nil || token.IsZero() {
		t.Fatal(err)
	}
	config := hub.Config{Token: token}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token, "config", config)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token, "config", config)
	asJSON, err := json.Marshal(struct{ Token hub.Token }{token})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+verb, token, config)
	}
	c, _ := hub.New(config)
	text := log.String() + string(asJSON) + fmt.Sprintf("%+v", config)
	if strings.Contains(text, "Secret") || strings.Contains(text, fmt.Sprintf("%x", "Secret")) {
		t.Errorf("the token is in %q", text)
	}
	_ = c
	for _, bad := range []string{"a b", "a\r\nHost: x", "ü", "a\x00"} {
		if _, err := hub.NewToken(bad); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE",
		"TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN"} {
		t.Setenv(v, "")
	}
	t.Setenv("HF_HOME", home)
	// sent is the token that the hub gets.
	sent := func() string {
		config, err := hub.FromEnvironment()
		if err != nil {
			return err.Error()
		}
		var got string
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
		}))
		defer s.Close()
		config.Endpoint, config.Retry = s.URL, quick
		c, err := hub.New(config)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Repository(t.Context(), "a/b", "main")
		return got
	}
	if got := sent(); got != "" {
		t.Errorf("without a token the hub gets %q", got)
	}
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ variable, value, want string }{
		{"HF_HOME", home, "Bearer hf_file"},
		{"HUGGING_FACE_HUB_TOKEN", "hf_old", "Bearer hf_old"},
		{"HF_TOKEN", " hf_new ", "Bearer hf_new"},
		{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", ""},
		{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "", "Bearer hf_new"},
		{"HF_TOKEN", "two words", "HF_TOKEN: the token has a character that no token has, at byte 3"},
	} {
		t.Setenv(c.variable, c.value)
		if got := sent(); got != c.want {
			t.Errorf("with %s=%s the hub gets %q", c.variable, c.value, got)
		}
	}
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_ENDPOINT", "https://mirror.example/hub/")
	t.Setenv("HF_HUB_OFFLINE", "yes")
	config, err := hub.FromEnvironment()
	if err != nil || config.Endpoint != "https://mirror.example/hub/" || !config.Offline {
		t.Errorf("got %+v, %v", config, err)
	}
	for _, bad := range []string{"ftp://x", "x", "https://", "https://u:p@x", "https://x?q", "http://[::1"} {
		if _, err := hub.New(hub.Config{Endpoint: bad}); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestProxy runs this test in a process of its own, because Go reads the variables for proxies once.
func TestProxy(t *testing.T) {
	if os.Getenv("HTTP_PROXY") != "" && os.Getenv("HUB_TEST_PROXY") != "" {
		c, err := hub.New(hub.Config{Endpoint: "http://hub.invalid", Retry: quick})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Repository(t.Context(), "a/b", "main")
		if e := (*hub.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Error(), "418") {
			t.Errorf("got %v", err)
		}
		return
	}
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(http.StatusTeapot)
	}))
	defer proxy.Close()
	test := exec.Command(os.Args[0], "-test.run", "^TestProxy$")
	test.Env = append(os.Environ(), "HTTP_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=", "HUB_TEST_PROXY=1")
	if out, err := test.CombinedOutput(); err != nil || asked != "http://hub.invalid/api/models/a/b/revision/main" {
		t.Errorf("the proxy was asked for %q: %v\n%s", asked, err, out)
	}
}

// TestTemporaryFailures checks that requests are repeated, and how long they wait.
func TestTemporaryFailures(t *testing.T) {
	h := hubtest.Start(t)
	m := h.Add(model())
	var began []time.Time
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		began = append(began, time.Now())
		switch r.Number {
		case 1:
			return hubtest.Fault{Abort: true}
		case 2:
			return hubtest.Fault{Status: 408}
		case 3:
			return hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}
		}
		return hubtest.Fault{}
	})
	patient := quick
	patient.Patience = 2 * time.Second
	c, err := hub.New(hub.Config{Endpoint: h.URL, Retry: patient})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Repository(t.Context(), m.ID, "main"); err != nil || r.Commit != m.Commit {
		t.Fatalf("got %+v, %v", r, err)
	}
	if len(began) != 4 || began[3].Sub(began[2]) < time.Second {
		t.Errorf("%d requests, the last after %v", len(began), began[3].Sub(began[2]))
	}
	// A wait ends with its context.
	h.Fail(func(hubtest.Request) hubtest.Fault { return hubtest.Fault{Status: 503} })
	slow, err := hub.New(hub.Config{Endpoint: h.URL, Retry: hub.Retry{First: time.Hour, Most: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := slow.Repository(ctx, m.ID, "main"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestRetryWaits(t *testing.T) {
	temporary := &hub.Error{Temporary: true}
	r := hub.Retry{Tries: 10, First: time.Second, Most: 8 * time.Second, Patience: time.Minute}
	waits := map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 9: 8 * time.Second}
	for failures, want := range waits {
		for _, random := range []float64{0, 0.5, 0.999} {
			got, ok := r.After(failures, fmt.Errorf("x: %w", temporary), random)
			if !ok || got < want/2 || got > want {
				t.Errorf("after %d failures: %v", failures, got)
			}
		}
	}
	for _, c := range []struct {
		failures int
		err      error
	}{{10, temporary}, {1, &hub.Error{}}, {1, io.EOF}, {1, &hub.Error{Temporary: true, RetryAfter: 2 * time.Minute}}} {
		if _, ok := r.After(c.failures, c.err, 0); ok {
			t.Errorf("%v is repeated after %d failures", c.err, c.failures)
		}
	}
	if got, ok := r.After(1, &hub.Error{Temporary: true, RetryAfter: 30 * time.Second}, 0); !ok || got != 30*time.Second {
		t.Errorf("the server's wait became %v", got)
	}
}
