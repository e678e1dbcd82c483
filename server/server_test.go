package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
	"runner/server/keys"
	"runner/server/pool"
	"runner/server/wire"
)

const canary = "XYZZY-secret"

// echo is a format with one route that generates and streams the answer.
type echo struct{ models wire.Models }

func (e *echo) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodPost, Path: "/say", Scope: wire.ScopeGenerate, Handle: e.say},
		{Method: http.MethodGet, Path: "/panic", Handle: func(http.ResponseWriter, *http.Request) { panic(canary) }},
	}
}

func (e *echo) WriteError(w http.ResponseWriter, _ *http.Request, err *wire.Error) {
	wire.SetRetryAfter(w, err)
	wire.WriteJSON(w, err.Status, map[string]string{"echo_error": err.Code, "message": err.Message})
}

func (e *echo) say(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text, Model string
		Visibility  reasoning.Visibility
		Pad         int
	}
	err := wire.ReadJSON(r, &in)
	var m wire.Model
	if err == nil {
		m, err = e.models.Use(r.Context(), in.Model)
	}
	if err != nil {
		e.WriteError(w, r, wire.FromError(err, nil))
		return
	}
	defer m.Release()
	req := runner.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: in.Text}}, Visibility: in.Visibility}
	var s *wire.Stream
	for ev, err := range m.Generate(r.Context(), req) {
		if err != nil {
			if s == nil {
				e.WriteError(w, r, wire.FromError(err, nil))
			} else {
				_ = s.Send("error", []byte(`"`+wire.FromError(err, nil).Code+`"`))
			}
			break
		}
		if s == nil {
			s = wire.NewEvents(w)
			defer s.End()
		}
		if ev.Kind == reasoning.SegmentDelta {
			if s.Send("", wire.AppendString(nil, strings.Repeat(ev.Text, 1+in.Pad))) != nil {
				break
			}
		}
	}
}

type site struct {
	*Server
	url string
	log *lockedBuffer
	// fakes are the models that were opened.
	fakes chan *fake.Model
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// frameEnds are what stands between the texts of two frames.
var frameEnds = regexp.MustCompile(`"\n\ndata: "`)

// host serves fake models called a and b until the test ends. queue is how many requests may wait, 100 if it is not given.
func host(t *testing.T, cfg Config, model fake.Config, queue ...int) *site {
	t.Helper()
	rc := runner.Config{Queue: 100}
	if len(queue) > 0 {
		rc.Queue = queue[0]
	}
	s := &site{log: &lockedBuffer{}, fakes: make(chan *fake.Model, 16)}
	cfg.Pool = pool.New(pool.Config{
		Models: []pool.Entry{{Name: "a"}, {Name: "b"}},
		Open: func(_ context.Context, name string) (*runner.Runner, error) {
			c := model
			c.Name = name
			m := fake.New(c)
			s.fakes <- m
			return runner.New(m, rc)
		},
	})
	cfg.Cards = []wire.Card{{Name: "a"}, {Name: "b"}}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Server = New(cfg)
	s.Mount(&echo{s.Server})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		close(s.fakes)
		for m := range s.fakes {
			if n := m.OpenSequences(); n != 0 {
				t.Errorf("%d sequences leaked", n)
			}
		}
	})
	return s
}

type reply struct {
	*http.Response
	body string
}

func (s *site) do(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res, frameEnds.ReplaceAllString(string(content), "")}
}

func scripted(replies ...fake.Reply) fake.Config {
	v := fake.Harmony()
	return fake.Config{Vocab: v, Script: fake.Replies(v, replies...)}
}

func said(text, answer string) fake.Reply {
	return fake.Reply{After: text + "<|end|><|start|>assistant",
		Say: "<|channel|>analysis<|message|>" + canary + "<|end|><|start|>assistant<|channel|>final<|message|>" + answer + "<|return|>"}
}

func TestARequestIsAnsweredAndLoggedWithoutItsContent(t *testing.T) {
	s := host(t, Config{}, scripted(said("my secret question", "four")))
	r := s.do(t, http.MethodPost, "/say", `{"text":"my secret question"}`, "Authorization", "Bearer top-secret-key")
	if r.StatusCode != http.StatusOK || !strings.Contains(r.body, "four") || r.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	metrics := s.do(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{`runner_runs_total{finish="stop",model="a"} 1`, `runner_tokens_total{kind="reasoning",model="a"}`,
		`runner_requests_total{route="POST /say",status="200"} 1`, "runner_time_to_first_token_seconds_count", `runner_model_loaded{model="a"} 1`, "runner_steps_total"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	log := s.log.String()
	if !strings.Contains(log, `route="POST /say"`) || !strings.Contains(log, "completion_tokens=") {
		t.Errorf("log: %s", log)
	}
	for _, secret := range []string{"secret question", "four", canary, "top-secret-key"} {
		if strings.Contains(log, secret) || strings.Contains(metrics, secret) {
			t.Errorf("%q shows in the log or the metrics", secret)
		}
	}
}

func TestContentIsLoggedOnlyWhereItIsAskedFor(t *testing.T) {
	s := host(t, Config{LogContent: true}, scripted(said("question", "four")))
	s.do(t, http.MethodPost, "/say", `{"text":"question"}`)
	if log := s.log.String(); !strings.Contains(log, "question") || !strings.Contains(log, "four") {
		t.Errorf("log: %s", log)
	}
}

func TestAPanicIsAnErrorAndItsValueIsNotLogged(t *testing.T) {
	s := host(t, Config{}, fake.Config{})
	r := s.do(t, http.MethodGet, "/panic", "")
	if r.StatusCode != http.StatusInternalServerError || !strings.Contains(r.body, "echo_error") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if log := s.log.String(); strings.Contains(log, canary) || !strings.Contains(log, "server_test.go") {
		t.Errorf("log: %s", log)
	}
}

func keyFile(t *testing.T, entries string) *keys.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"keys":[`+entries+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := keys.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func entry(id, key, more string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf(`{"id":%q,"sha256":%q%s}`, id, hex.EncodeToString(sum[:]), more)
}

func TestKeysDecideWhoMayDoWhat(t *testing.T) {
	set := keyFile(t, entry("full", "key-full", `,"reasoning":"full"`)+","+entry("small", "key-small", `,"reasoning":"summary","scopes":["generate"],"models":["b"]`))
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
		{"POST", "/say", `{"text":"q","visibility":"full"}`, []string{"Authorization", "Bearer key-full"}, 200, canary},
		{"POST", "/say", `{"text":"q","visibility":"full"}`, []string{"Authorization", "Bearer key-small"}, 403, "reasoning:full"},
		{"POST", "/say", `{"text":"q"}`, []string{"Authorization", "Bearer key-small"}, 200, "four"},
		{"POST", "/say", `{"text":"q","model":"a"}`, []string{"Authorization", "Bearer key-small"}, 404, wire.CodeModel},
		{"POST", "/say", `{"text":"q","model":"c"}`, []string{"Authorization", "Bearer key-full"}, 404, wire.CodeModel},
		{"GET", "/metrics", "", []string{"Authorization", "Bearer key-small"}, 403, "metrics"},
		{"GET", "/metrics", "", nil, 401, wire.CodeNoKey},
		{"GET", "/health", "", nil, 200, "ok"},
	} {
		for s.health.get() == healthLoading {
			time.Sleep(time.Millisecond)
		}
		r := s.do(t, c.method, c.path, c.body, c.header...)
		if r.StatusCode != c.status || !strings.Contains(r.body, c.contains) {
			t.Errorf("%s %s %v: %d %s", c.path, c.body, c.header, r.StatusCode, r.body)
		}
	}
	if log := s.log.String(); strings.Contains(log, "key-full") || strings.Contains(log, "key-small") || !strings.Contains(log, "key=small") {
		t.Errorf("log: %s", log)
	}
}

func TestRatesAreLimited(t *testing.T) {
	now := time.Unix(0, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	set := keyFile(t, entry("requests", "key-requests", `,"requests_per_minute":2`)+","+entry("tokens", "key-tokens", `,"tokens_per_minute":60`))
	s := host(t, Config{Keys: set, Clock: clock}, scripted(said("q", "four")))
	ask := func(key string) reply {
		return s.do(t, http.MethodPost, "/say", `{"text":"q"}`, "Authorization", "Bearer "+key)
	}
	for i, want := range []int{200, 200, 429} {
		if r := ask("key-requests"); r.StatusCode != want {
			t.Errorf("request %d: %d %s", i, r.StatusCode, r.body)
		}
	}
	if r := ask("key-requests"); r.Header.Get("Retry-After") != "30" || !strings.Contains(r.body, wire.CodeRate) {
		t.Errorf("Retry-After %q: %s", r.Header.Get("Retry-After"), r.body)
	}
	pass(30 * time.Second)
	if r := ask("key-requests"); r.StatusCode != http.StatusOK {
		t.Errorf("after a while: %d", r.StatusCode)
	}
	if r := ask("key-tokens"); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := ask("key-tokens"); r.StatusCode != http.StatusTooManyRequests || !strings.Contains(r.body, "tokens") {
		t.Errorf("more tokens than there are: %d %s", r.StatusCode, r.body)
	}
	pass(10 * time.Minute)
	if r := ask("key-tokens"); r.StatusCode != http.StatusOK {
		t.Errorf("after a long while: %d", r.StatusCode)
	}
}

func TestPagesAndForeignNamesAreKeptOut(t *testing.T) {
	s := host(t, Config{Origins: []string{"https://good.example"}, Hosts: []string{"runner.lan"}}, scripted(said("q", "four")))
	for _, c := range []struct {
		header  []string
		status  int
		allowed string
	}{
		{nil, 200, ""},
		{[]string{"Host", "evil.example"}, 403, ""},
		{[]string{"Host", "evil.example:8080"}, 403, ""},
		{[]string{"Host", "localhost:8080"}, 200, ""},
		{[]string{"Host", "LOCALHOST."}, 200, ""},
		{[]string{"Host", "runner.lan"}, 200, ""},
		{[]string{"Host", "[::1]:80"}, 200, ""},
		{[]string{"Host", "192.168.1.7"}, 200, ""},
		{[]string{"Host", "localhost.evil.example"}, 403, ""},
		{[]string{"Origin", "https://evil.example"}, 403, ""},
		{[]string{"Origin", "null"}, 403, ""},
		{[]string{"Origin", "https://good.example"}, 200, "https://good.example"},
		{[]string{"Origin", "http://localhost:3000"}, 200, "http://localhost:3000"},
		{[]string{"Origin", "http://localhost.evil.example"}, 403, ""},
		{[]string{"Origin", "vscode-webview://abc"}, 200, "vscode-webview://abc"},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
	} {
		r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, c.header...)
		if r.StatusCode != c.status || r.Header.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%v: %d, allowed %q: %s", c.header, r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"), r.body)
		}
	}
	r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://good.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); r.StatusCode != http.StatusForbidden {
		t.Errorf("preflight of a foreign page: %d", r.StatusCode)
	}
}

func TestPathsThatAreNotThere(t *testing.T) {
	s := host(t, Config{MaxBody: 64}, fake.Config{})
	if r := s.do(t, http.MethodGet, "/nothing", ""); r.StatusCode != http.StatusNotFound || !strings.Contains(r.body, wire.CodeNotFound) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodGet, "/say", ""); r.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(r.body, "POST") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/say", `{"text":"`+strings.Repeat("x", 100)+`"}`); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// half is a format that takes a path only with its header.
type half struct{ echo }

func (*half) Routes() []wire.Route {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	own := func(r *http.Request) bool { return r.Header.Get("X-Half") != "" }
	return []wire.Route{
		{Method: http.MethodGet, Path: "/shared", Handle: answer("half"), When: own}, {Method: http.MethodGet, Path: "/shared", Handle: answer("rest")},
		{Method: http.MethodGet, Path: "/only", Handle: answer("half"), When: own},
	}
}

func TestFormatsShareAPath(t *testing.T) {
	p := pool.New(pool.Config{})
	defer p.Close()
	s := New(Config{Pool: p})
	s.Mount(&half{})
	get := func(path, header string) string {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		if header != "" {
			r.Header.Set(header, "1")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	for _, c := range [][3]string{{"/shared", "X-Half", "half"}, {"/shared", "", "rest"}, {"/only", "X-Half", "half"}, {"/only", "", "not_found"}} {
		if got := get(c[0], c[1]); !strings.Contains(got, c[2]) {
			t.Errorf("%s with %q: %s", c[0], c[1], got)
		}
	}
}

func TestTokensAndTemplates(t *testing.T) {
	s := host(t, Config{}, scripted(said("q", "four")))
	var tokens struct{ Tokens []runner.Token }
	r := s.do(t, http.MethodPost, "/tokenize", `{"content":"hi <|end|>"}`)
	if err := json.Unmarshal([]byte(r.body), &tokens); err != nil || len(tokens.Tokens) == 0 {
		t.Fatalf("%s: %v", r.body, err)
	}
	list, _ := json.Marshal(tokens.Tokens)
	if r := s.do(t, http.MethodPost, "/detokenize", `{"tokens":`+string(list)+`}`); r.body != `{"content":"hi \u003c|end|\u003e"}` {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/detokenize", `{"tokens":[-1]}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/tokenize", `{"content":"ä\u0001","with_pieces":true}`); !strings.Contains(r.body, `"piece":[195`) {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/apply-template", `{"messages":[{"role":"user","content":"q"}]}`); !strings.Contains(r.body, "start|\\u003eassistant") {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/apply-template", `{"messages":[]}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodGet, "/props?model=b", ""); !strings.Contains(r.body, `"model":"b"`) {
		t.Errorf("%s", r.body)
	}
}

func TestOnlyTheMachineItselfIsServedWithoutKeys(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip("no address that others can reach: ", err)
	}
	p := pool.New(pool.Config{})
	defer p.Close()
	if err := New(Config{Pool: p}).Serve(t.Context(), l); !errors.Is(err, ErrPublic) {
		t.Errorf("%v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}

// slowly makes a model that takes its time for every step.
func slowly(d time.Duration, replies ...fake.Reply) fake.Config {
	c := scripted(replies...)
	c.Delay = func(int) time.Duration { return d }
	return c
}

func TestAStoppingServerFinishesWhatItCanAndCutsTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		drain time.Duration
		want  string
	}{
		"finishes": {time.Minute, "d"}, "cuts": {time.Millisecond, wire.CodeDraining},
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat("a b c ", 30) + "d"
			p := pool.New(pool.Config{Models: []pool.Entry{{Name: "a"}}, Open: func(context.Context, string) (*runner.Runner, error) {
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

// working is a format that goes on with something until it is closed.
type working struct {
	echo
	closed chan error
}

func (*working) Routes() []wire.Route { return nil }

func (f *working) Close(ctx context.Context) {
	<-ctx.Done()
	f.closed <- ctx.Err()
}

func TestAStoppingServerWaitsForFormats(t *testing.T) {
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

func TestRunsThatTakeTooLongAreCut(t *testing.T) {
	s := host(t, Config{RequestTimeout: 30 * time.Millisecond}, slowly(2*time.Millisecond, said("q", strings.Repeat("a b ", 200))))
	if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`); !strings.Contains(r.body, wire.CodeTimeout) || !strings.HasSuffix(r.body, "\n\n") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

func TestAClientThatLeavesEndsItsRun(t *testing.T) {
	s := host(t, Config{}, slowly(time.Millisecond, said("q", strings.Repeat("a b ", 2000))))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/say", strings.NewReader(`{"text":"q"}`))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	res.Body.Close()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.do(t, http.MethodGet, "/metrics", "").body, `runner_runs_total{finish="cancelled",model="a"} 1`) {
		if time.Now().After(deadline) {
			t.Fatal("the run goes on")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestASlowReaderHoldsUpNobody: clients that ask and do not read what they get keep nobody else waiting, and their runs end all the same.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	c := scripted(said("slow", strings.Repeat("a b ", 500)), said("q", "four"))
	c.Sequences = 4
	s := host(t, Config{}, c)
	for range 3 {
		// Some 200 MB each, which no buffer on the way holds.
		res, err := http.Post(s.url+"/say", "application/json", strings.NewReader(`{"text":"slow","pad":100000}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	for range 20 {
		if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`); !strings.Contains(r.body, "four") {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(s.do(t, http.MethodGet, "/metrics", "").body, `runner_runs_active{model="a"} 0`) {
		if time.Now().After(deadline) {
			t.Fatal("the slow readers hold their sequences")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestManyAtOnce: 64 clients ask at once, some leave early, and everybody gets the answer to their own question. Nothing is left behind.
func TestManyAtOnce(t *testing.T) {
	soak := 3 * time.Second
	if os.Getenv("RUNNER_LONG") != "" {
		soak = 2 * time.Minute
	}
	var replies []fake.Reply
	for i := range 50 {
		replies = append(replies, said(fmt.Sprintf("question %d.", i), fmt.Sprintf("answer %d of many words that take a while", i)))
	}
	c := scripted(replies...)
	c.Sequences = 16
	s := host(t, Config{}, c)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	ask := func(i int, leave time.Duration) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if leave > 0 {
			defer time.AfterFunc(leave, cancel).Stop()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/say", strings.NewReader(fmt.Sprintf(`{"text":"question %d."}`, i)))
		if err != nil {
			return "", err
		}
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		return frameEnds.ReplaceAllString(string(content), ""), err
	}
	idle := func() int {
		client.CloseIdleConnections()
		deadline := time.Now().Add(20 * time.Second)
		for {
			r, ok := s.cfg.Pool.Loaded("a"), false
			if r != nil {
				stats := r.Stats()
				ok = stats.Active == 0 && stats.Waiting == 0
			}
			if ok {
				time.Sleep(50 * time.Millisecond) // connections take a moment to close
				return runtime.NumGoroutine()
			}
			if time.Now().After(deadline) {
				t.Fatal("runs are left behind")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if _, err := ask(0, 0); err != nil {
		t.Fatal(err)
	}
	before := idle()
	var whole, left atomic.Int64
	end := time.Now().Add(soak)
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(n)))
			for time.Now().Before(end) {
				i, leave := rng.IntN(50), time.Duration(0)
				if rng.IntN(3) == 0 {
					leave = time.Duration(1+rng.IntN(3000)) * time.Microsecond
				}
				got, err := ask(i, leave)
				want := fmt.Sprintf("data: \"answer %d of many words that take a while\"\n\n", i)
				switch {
				case errors.Is(err, context.Canceled):
					left.Add(1)
				case err != nil:
					t.Error(err)
				case got != want:
					t.Errorf("%q, want %q", got, want)
				default:
					whole.Add(1)
				}
			}
		})
	}
	wg.Wait()
	after := idle()
	t.Logf("%d answers, %d clients left early; %d goroutines, then %d", whole.Load(), left.Load(), before, after)
	if whole.Load() == 0 || left.Load() == 0 {
		t.Error("the test tests nothing")
	}
	if after > before+5 {
		t.Errorf("%d goroutines are left behind", after-before)
	}
}

func TestAFullQueueIsToldSo(t *testing.T) {
	c := slowly(2*time.Millisecond, said("q", strings.Repeat("a b ", 20)))
	c.Sequences = 1
	s := host(t, Config{}, c, 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range 8 {
		wg.Go(func() {
			r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`)
			mu.Lock()
			defer mu.Unlock()
			count[r.StatusCode]++
			if r.StatusCode == http.StatusTooManyRequests && (r.Header.Get("Retry-After") == "" || !strings.Contains(r.body, wire.CodeQueue)) {
				t.Errorf("Retry-After %q: %s", r.Header.Get("Retry-After"), r.body)
			}
		})
	}
	wg.Wait()
	if count[200] != 3 || count[429] != 5 { // one runs and two wait
		t.Errorf("%v", count)
	}
}

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
	if r := s.do(t, http.MethodGet, "/health", ""); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(r.body, healthFailing) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// A server whose first model cannot be loaded is not well, however often it is asked.
func TestAModelThatCannotBeLoadedIsNoHealth(t *testing.T) {
	cannot := errors.New("cannot")
	var fail atomic.Bool
	fail.Store(true)
	p := pool.New(pool.Config{Models: []pool.Entry{{Name: "a"}}, Open: func(context.Context, string) (*runner.Runner, error) {
		if fail.Load() {
			return nil, cannot
		}
		return runner.New(fake.New(fake.Config{}), runner.Config{})
	}})
	defer p.Close()
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}})
	ctx := wire.WithPrincipal(t.Context(), local)
	for range 3 {
		if s.health.check(ctx); s.health.get() != healthFailing {
			t.Fatalf("it is %s", s.health.get())
		}
	}
	fail.Store(false)
	if s.health.check(ctx); s.health.get() != healthOK {
		t.Errorf("it is %s once the model can be loaded", s.health.get())
	}
}

// Looking at a model's health is no use of it.
func TestHealthKeepsNoModelLoaded(t *testing.T) {
	p := pool.New(pool.Config{KeepAlive: 50 * time.Millisecond, Models: []pool.Entry{{Name: "a"}}, Open: func(context.Context, string) (*runner.Runner, error) {
		return runner.New(fake.New(fake.Config{}), runner.Config{})
	}})
	defer p.Close()
	s := New(Config{Pool: p, Cards: []wire.Card{{Name: "a"}}})
	ctx := wire.WithPrincipal(t.Context(), local)
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

// timed notes until when a body can be read.
type timed struct {
	httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = t
	return nil
}

// A body has its time also where the request is refused, since package http waits for it before it answers. Who has been read has no more.
func TestABodyHasItsTime(t *testing.T) {
	s := host(t, Config{Keys: keyFile(t, entry("k", "key-k", ""))}, fake.Config{}, 1)
	for _, c := range []struct {
		name, key, body string
		limited         bool
	}{{"refused", "", "{}", true}, {"read", "key-k", `{"text":3}`, false}, {"none", "", "", false}} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/say", strings.NewReader(c.body))
		r.Header.Set("X-Api-Key", c.key)
		w := &timed{ResponseRecorder: *httptest.NewRecorder()}
		if s.ServeHTTP(w, r); w.until.IsZero() == c.limited {
			t.Errorf("%s: %d, until %v", c.name, w.Code, w.until)
		}
	}
}

// A client that is sent to the log finds something there.
func TestWhatFailsIsInTheLog(t *testing.T) {
	s := host(t, Config{}, fake.Config{Fail: func(int, []backend.Input) error { return errors.New("the engine gave up") }})
	if r := s.do(t, http.MethodPost, "/say", `{"text":"`+canary+`"}`); !strings.Contains(r.body, wire.CodeInternal) {
		t.Errorf("%s", r.body)
	}
	if log := s.log.String(); !strings.Contains(log, "a run failed") || !strings.Contains(log, "the engine gave up") || strings.Contains(log, canary) {
		t.Errorf("%s", log)
	}
}

func TestAllRoutesAnswerErrorsInTheirOwnShape(t *testing.T) {
	set := keyFile(t, entry("k", "key-k", ""))
	s := host(t, Config{Keys: set}, fake.Config{})
	if r := s.do(t, http.MethodPost, "/say", "{}"); !strings.Contains(r.body, "echo_error") {
		t.Errorf("%s", r.body)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "http://localhost/tokenize", nil))
	var e struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil || e.Error.Code != wire.CodeNoKey || e.Error.Message == "" {
		t.Errorf("%s: %v", rec.Body, err)
	}
}
