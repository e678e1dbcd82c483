package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/standin"
	"runner/backend/remote/vllm"
	"runner/backend/remote/web"
	"runner/runner"
	"runner/server"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/pool"
	chatpage "runner/server/web"
	"runner/server/wire"
	"runner/testenv"
)

// remoteFormats are requests in every format. $S is whether to stream. Those of formats that always stream do not
// have it.
var remoteFormats = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"q"}],"stream":$S}`},
	{"completions", "/v1/completions", `{"prompt":"q","stream":$S}`},
	{"responses", "/v1/responses", `{"input":"q","stream":$S}`},
	{"anthropic", "/v1/messages", `{"model":"big","max_tokens":9,"messages":[{"role":"user","content":"q"}],"stream":$S}`},
	{"ollama chat", "/api/chat", `{"model":"big","messages":[{"role":"user","content":"q"}],"stream":$S}`},
	{"ollama generate", "/api/generate", `{"model":"big","prompt":"q","stream":$S}`},
	{"agui", "/agui", `{"threadId":"t","runId":"r","protocolVersion":"1.0","forwardedProps":{},` +
		`"messages":[{"id":"m","role":"user","content":"q"}]}`},
	{"web", "/web/chat", `{"conversation":"c","messages":[{"role":"user","content":"q"}]}`},
}

// site is a server with all formats before an engine at an address. A model that was unloaded remembers what it was.
type site struct {
	*server.Server
	engine *standin.Server
	pool   *pool.Pool
	url    string
}

func before(t *testing.T, c standin.Config) *site {
	t.Helper()
	s := &site{engine: standin.New(c)}
	h := httptest.NewServer(s.engine)
	t.Cleanup(h.Close)
	s.pool = remotePool(t, h.URL, backend.Config{Sequences: 8}, runner.Config{})
	s.Server = server.New(server.Config{Pool: s.pool, Cards: []wire.Card{{Name: "big"}},
		Granted: []wire.Scope{ollama.ScopeModelsWrite}})
	for _, f := range []wire.Format{openai.New(s, openai.Config{}), responses.New(s, responses.Config{}),
		anthropic.New(s, anthropic.Config{}), ollama.New(s, ollama.Config{}), agui.New(s, agui.Config{}),
		chatpage.New(s, chatpage.Config{})} {
		s.Mount(f)
	}
	s.url = testenv.Listen(t, s)
	return s
}

// remotePool has a model called big, which vLLM computes at an address.
func remotePool(tb testing.TB, engine string, load backend.Config, cfg runner.Config) *pool.Pool {
	tb.Helper()
	local := fake.New(fake.Config{})
	at, err := web.New(web.Config{Base: engine})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(at.Close)
	var known remote.Known
	return pool.New(pool.Config{
		Models: []pool.Entry{{Name: "big"}},
		Open: func(ctx context.Context, _ string) (wire.Loaded, error) {
			m, err := remote.Open(ctx, remote.Config{Engine: vllm.New(at, local.Vocab()), Vocab: local.Vocab(),
				Tokenize: local.Tokenize, Architecture: "gpt-oss", Load: load, Known: &known})
			if err != nil {
				return nil, err
			}
			return runner.New(m, cfg)
		},
	})
}

// ask sends a request and returns its answer.
func (s *site) ask(t *testing.T, method, path, body string) (status int, retry, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Retry-After"), string(data)
}

// begun reports whether the answer to a request begins before its run fails. Then its last event has the error, and it
// is too late for a header.
func begun(body, stream string) bool { return stream == "true" || !strings.Contains(body, "$S") }

// TestRetryAfterReachesClients checks that every format passes on when the engine wants to be asked again.
func TestRetryAfterReachesClients(t *testing.T) {
	s := before(t, standin.Config{Kind: "vllm", Model: fake.Config{Script: talk(fake.Harmony())}})
	for after, want := range map[string]string{"77": "77", "3600": "600"} {
		s.engine.Fail(func(int) standin.Fault {
			return standin.Fault{Status: http.StatusServiceUnavailable, RetryAfter: after}
		})
		for _, f := range remoteFormats {
			for _, stream := range []string{"true", "false"} {
				status, retry, text := s.ask(t, http.MethodPost, f.path, strings.ReplaceAll(f.body, "$S", stream))
				code, header := http.StatusServiceUnavailable, want
				if begun(f.body, stream) {
					code, header = http.StatusOK, ""
				}
				if status != code || retry != header || !strings.Contains(text, "try again in "+want+" s") ||
					strings.Contains(text, "127.0.0.1") {
					t.Errorf("%s, stream %s: status %d, Retry-After %q, want %s: %s", f.name, stream, status, retry, header, text)
				}
			}
		}
	}
}

// TestAnotherModelReachesNoClient checks that every format refuses another model with an error that says so, whether
// the model is loaded or was unloaded before. Nothing is loaded under the old name by itself.
func TestAnotherModelReachesNoClient(t *testing.T) {
	c := fake.Config{Script: talk(fake.Harmony()), ContextSize: 4096}
	s := before(t, standin.Config{Kind: "vllm", Name: "first", Model: c})
	works := func() bool {
		status, _, text := s.ask(t, http.MethodPost, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"q"}],"max_tokens":3}`)
		return status == http.StatusOK && strings.Contains(text, `"choices"`)
	}
	if !works() {
		t.Fatal("the engine does not work")
	}
	for _, unloaded := range []bool{false, true} {
		if unloaded {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.pool.Unload(ctx, "big"); err != nil {
				t.Fatalf("unloading: %v", err)
			}
			for s.pool.Loaded("big") != nil && ctx.Err() == nil { // the last request may still hold it for a moment
				time.Sleep(10 * time.Millisecond)
			}
			if s.pool.Loaded("big") != nil {
				t.Fatal("the model stays loaded")
			}
		}
		s.engine.Swap("second", c)
		time.Sleep(1100 * time.Millisecond) // until what came last is no proof any more
		for _, f := range remoteFormats {
			for _, stream := range []string{"true", "false"} {
				status, retry, text := s.ask(t, http.MethodPost, f.path, strings.ReplaceAll(f.body, "$S", stream))
				failed := status == http.StatusServiceUnavailable && retry == "10"
				if !unloaded && begun(f.body, stream) {
					failed = status == http.StatusOK
				}
				if !failed || !strings.Contains(text, "another model") {
					t.Errorf("%s, stream %s, unloaded %v: status %d, Retry-After %q: %s", f.name, stream, unloaded, status, retry,
						text)
				}
			}
		}
		if status, _, text := s.ask(t, http.MethodGet, "/health", ""); !unloaded &&
			(status != http.StatusServiceUnavailable || !strings.Contains(text, wire.CodeModelChanged)) {
			t.Errorf("the server's health is %d: %s", status, text)
		}
		s.engine.Swap("first", c)
		for began := time.Now(); !works(); time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("with the old model back, unloaded %v, requests fail", unloaded)
			}
		}
	}
}

// TestRefusedSettingsAreNamed asks for settings for which the engine has no equal. The error names the field of the
// request.
func TestRefusedSettingsAreNamed(t *testing.T) {
	s := before(t, standin.Config{Kind: "vllm", Model: fake.Config{Script: talk(fake.Harmony())}})
	for _, c := range []struct{ path, body, param string }{
		{"/v1/chat/completions", `{"repetition_penalty":1.2,"messages":[{"role":"user","content":"q"}]}`,
			"repetition_penalty"},
		{"/v1/chat/completions", `{"typical_p":0.5,"messages":[{"role":"user","content":"q"}]}`, "typical_p"},
		{"/v1/completions", `{"repetition_penalty":1.2,"prompt":"q"}`, "repetition_penalty"},
		{"/v1/completions", `{"typical_p":0.5,"prompt":"q"}`, "typical_p"},
		{"/api/chat", `{"model":"big","options":{"repeat_penalty":1.2},"messages":[{"role":"user","content":"q"}],` +
			`"stream":false}`, "options.repeat_penalty"},
		{"/api/generate", `{"model":"big","options":{"typical_p":0.5},"prompt":"q","stream":false}`, "options.typical_p"},
	} {
		status, _, text := s.ask(t, http.MethodPost, c.path, c.body)
		if status != http.StatusBadRequest || !strings.Contains(text, `"param":"`+c.param+`"`) {
			t.Errorf("%s %s: status %d, want the field %s: %s", c.path, c.body, status, c.param, text)
		}
	}
}
