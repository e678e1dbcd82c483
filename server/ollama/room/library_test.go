package room

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/models/cache"
	"runner/models/hub"
	"runner/models/hub/hubtest"
	"runner/models/library"
	"runner/reasoning"
	"runner/server/ollama"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// pullServer is Ollama's API over a stand-in hub with the repository Org/Tiny-GGUF, for one principal after the other.
type pullServer struct {
	hub   *hubtest.Hub
	cache string
	log   *testenv.Buffer
	lib   *servedLibrary
	api   *ollama.API
}

const hubToken = "hf_secret0123456789"

var tinyWeights = bytes.Repeat([]byte("GGUF weights "), 100_000)

func startPulls(t *testing.T) *pullServer {
	t.Helper()
	s := &pullServer{hub: hubtest.Start(t), cache: t.TempDir(), log: &testenv.Buffer{}}
	s.hub.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", Files: []hubtest.File{
		{Path: "tiny-Q4_K_M.gguf", Content: tinyWeights, LFS: true}, {Path: "README.md", Content: []byte("# Tiny")}}})
	log := slog.New(slog.NewTextHandler(s.log, nil))
	token, err := hub.NewToken(hubToken)
	if err != nil {
		t.Fatal(err)
	}
	s.lib = &servedLibrary{models: library.New(library.Config{
		Cache: cache.At(s.cache), Names: filepath.Join(t.TempDir(), namesFile), Log: log,
		Client: func() (*hub.Client, error) {
			return hub.New(hub.Config{Endpoint: s.hub.URL, Token: token, Offline: os.Getenv("TEST_OFFLINE") != "",
				Retry: hub.Retry{Tries: 2, First: time.Millisecond}})
		}}), log: log}
	t.Cleanup(s.lib.Close)
	s.api = ollama.New(wiretest.New(t, fake.Config{}), ollama.Config{Library: s.lib})
	return s
}

// as returns the address of the server for a principal.
func (s *pullServer) as(t *testing.T, p *wire.Principal) string {
	return wiretest.Serve(t, s.api, p).URL
}

// unnamed are the scopes of a key whose entry names none.
func unnamed() []wire.Scope {
	return wire.Scopes(func(p *wire.Permission) bool { return !p.Named })
}

// reader may see models and not change them.
func reader() *wire.Principal {
	return &wire.Principal{ID: "reader", Scopes: unnamed(), Reasoning: reasoning.VisibilityNone}
}

func TestPullOverHTTP(t *testing.T) {
	s := startPulls(t)
	url := s.as(t, wiretest.Anyone())
	status, header, answer := wiretest.Send(t, "POST", url+"/api/pull", `{"model":"org/tiny"}`, nil)
	if status != 200 || header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v %s", status, header, answer)
	}
	digest := regexp.MustCompile(`^\{"status":"pulling [0-9a-f]{12}","digest":"sha256:[0-9a-f]{64}","total":1300000` +
		`(,"completed":\d+)?\}$`)
	var others []string
	whole := false
	for line := range strings.Lines(answer) {
		if line = strings.TrimSpace(line); digest.MatchString(line) {
			whole = strings.Contains(line, `"completed":1300000}`)
		} else {
			others = append(others, line)
		}
	}
	want := []string{`{"status":"pulling manifest"}`, `{"status":"verifying sha256 digest"}`,
		`{"status":"writing manifest"}`, `{"status":"success","warnings":[{"code":"restart_needed","message":"to use it, ` +
			`start the server again with --model Org/Tiny-GGUF:Q4_K_M"}]}`}
	if strings.Join(others, "\n") != strings.Join(want, "\n") || !whole {
		t.Errorf("%s", answer)
	}
	if _, _, answer = wiretest.Send(t, "POST", url+"/api/pull", `{"model":"hf.co/Org/Tiny-GGUF:Q4_K_M","insecure":true,`+
		`"stream":false}`, nil); !strings.HasPrefix(answer, `{"status":"success","warnings":[`) {
		t.Errorf("%s", answer)
	}
}

// Everybody may pull what is here. Only who may change models pulls more, sees what is not served, and names and
// deletes models.
func TestChangingModelsNeedsItsPermission(t *testing.T) {
	s := startPulls(t)
	limited := wiretest.Anyone()
	limited.ID, limited.Models = "limited", []string{wiretest.Name}
	local := wiretest.Anyone()
	local.Scopes = unnamed()
	urls := map[string]string{"all": s.as(t, wiretest.Anyone()), "reader": s.as(t, reader()),
		"limited": s.as(t, limited), "local": s.as(t, local)}
	ask := func(who, method, path, body string, status int, contains string) {
		t.Helper()
		got, _, answer := wiretest.Send(t, method, urls[who]+"/api/"+path, body, nil)
		if got != status || !strings.Contains(answer, contains) || status >= 400 && !strings.HasPrefix(answer, `{"error":"`) {
			t.Errorf("%s: %s %s %s: %d %s", who, method, path, body, got, answer)
		}
	}
	const tiny = `{"model":"org/tiny","stream":false}`
	asked := len(s.hub.Asked())
	ask("reader", "POST", "pull", tiny, 403, "models:write")
	ask("local", "POST", "pull", tiny, 403, "--models-write")
	ask("limited", "POST", "pull", tiny, 403, "limited to some models")
	ask("reader", "POST", "pull", `{"model":"`+wiretest.Name+`","stream":false}`, 200, "success")
	if len(s.hub.Asked()) != asked {
		t.Error("the hub was asked")
	}
	ask("all", "POST", "pull", tiny, 200, "success")
	asked = len(s.hub.Asked())
	ask("reader", "POST", "pull", tiny, 200, "restart_needed")
	ask("limited", "POST", "pull", tiny, 403, "limited to some models")
	ask("reader", "POST", "pull", `{"model":"/etc/passwd"}`, 403, "models:write")
	for _, who := range []string{"reader", "limited", "local"} {
		for _, c := range [][3]string{{"POST", "copy", `{"source":"org/tiny","destination":"mine"}`},
			{"DELETE", "delete", `{"model":"org/tiny"}`}} {
			ask(who, c[0], c[1], c[2], 403, "permission")
		}
		ask(who, "POST", "show", `{"model":"org/tiny"}`, 404, "not found")
		if _, _, list := wiretest.Send(t, "GET", urls[who]+"/api/tags", "", nil); strings.Contains(list, "Tiny") {
			t.Errorf("%s sees %s", who, list)
		}
	}
	if len(s.hub.Asked()) != asked {
		t.Error("the hub was asked")
	}
	ask("all", "GET", "tags", "", 200, `"name":"Org/Tiny-GGUF"`)
	ask("all", "POST", "show", `{"model":"org/tiny"}`, 200, `"quantization_level":"Q4_K_M"`)
	ask("all", "POST", "chat", `{"model":"org/tiny","messages":[]}`, 404, "--model Org/Tiny-GGUF:Q4_K_M")
	ask("all", "POST", "copy", `{"source":"org/tiny","destination":"mine"}`, 200, "")
	ask("all", "GET", "tags", "", 200, `"name":"mine"`)
	ask("all", "POST", "copy", `{"source":"nothing","destination":"mine"}`, 404, "not found")
	ask("all", "POST", "copy", `{"source":"mine","destination":"`+wiretest.Name+`"}`, 409, "serves")
	ask("all", "POST", "copy", `{"source":"mine","destination":"../up"}`, 400, "path")
	ask("all", "DELETE", "delete", `{"model":"org/tiny"}`, 409, "mine")
	ask("all", "DELETE", "delete", `{"name":"mine"}`, 200, "")
	ask("all", "DELETE", "delete", `{"name":"mine"}`, 404, "not found")
	ask("all", "DELETE", "delete", `{"model":"`+wiretest.Name+`"}`, 409, "serves")
	ask("all", "DELETE", "delete", `{"model":"/etc/passwd"}`, 400, "path")
	ask("all", "DELETE", "delete", `{"model":"org/tiny"}`, 200, "")
	ask("all", "DELETE", "delete", `{"model":"org/tiny"}`, 404, "not found")
	ask("reader", "POST", "pull", tiny, 403, "models:write")
}

// No name over HTTP is a path or an address: the hub is not asked, and nothing is written.
func TestPulledNamesAreNoPathsAndAddresses(t *testing.T) {
	s := startPulls(t)
	url := s.as(t, wiretest.Anyone())
	for _, name := range []string{"/etc/passwd", "../x/y", "a/../../b", `C:\a`, "~/a", "http://127.0.0.1/a/b",
		"https://huggingface.co/Org/Tiny-GGUF", "evil.example/org/repo", "localhost:1/a/b", "hf.co/evil.example/a/b",
		"org/tiny@main", "file:///etc/passwd", "ollama.com/library/llama3.2", "a/b:../../c"} {
		body, err := json.Marshal(map[string]string{"model": name})
		if err != nil {
			t.Fatal(err)
		}
		if status, _, answer := wiretest.Send(t, "POST", url+"/api/pull", string(body), nil); status != 400 ||
			!strings.HasPrefix(answer, `{"error":"model: it `) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if asked := s.hub.Asked(); len(asked) > 0 {
		t.Errorf("the hub was asked for %v", asked)
	}
	if left, err := os.ReadDir(s.cache); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// Each failure has its own text, before the stream and in it. The token is in no answer and not in the log.
func TestPullFailures(t *testing.T) {
	s := startPulls(t)
	url := s.as(t, wiretest.Anyone())
	s.hub.Add(hubtest.Repo{ID: "Org/Gated", Gated: true, Token: "hf_another", Files: []hubtest.File{
		{Path: "a-Q4_K_M.gguf", Content: tinyWeights, LFS: true}}})
	var all strings.Builder
	begun := false // whether the stream has begun when the error comes
	ask := func(name string, status int, code, contains string) {
		t.Helper()
		for _, stream := range []bool{true, false} {
			body, err := json.Marshal(map[string]any{"model": name, "stream": stream})
			if err != nil {
				t.Fatal(err)
			}
			got, _, answer := wiretest.Send(t, "POST", url+"/api/pull", string(body), nil)
			all.WriteString(answer)
			lines := strings.Split(strings.TrimSpace(answer), "\n")
			last := lines[len(lines)-1]
			want := status
			if stream && begun {
				want = 200
			}
			if got != want || stream && begun != (len(lines) > 1) {
				t.Errorf("%s: %d, want %d: %s", name, got, want, answer)
			}
			if !strings.HasPrefix(last, `{"error":"`) || !strings.Contains(last, contains) ||
				!strings.Contains(last, `"code":"`+code+`"`) {
				t.Errorf("%s: %s", name, answer)
			}
		}
	}
	ask("org/nothing", 404, wire.CodeModel, "org/nothing")
	ask("gpt-os-20b", 404, wire.CodeModel, "gpt-oss")
	ask("org/tiny-gguf:Q2_K", 404, wire.CodeNotFound, "Q4_K_M")
	begun = true // the hub lists the files of a gated repository, and refuses their bytes
	ask("org/gated", 403, wire.CodeGated, "Org/Gated")
	begun = false
	s.hub.Fail(func(hubtest.Request) hubtest.Fault { return hubtest.Fault{Abort: true} })
	ask("org/tiny", 503, wire.CodeHub, "rg/")
	s.hub.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Storage {
			return hubtest.Fault{Flip: 7}
		}
		return hubtest.Fault{}
	})
	begun = true
	ask("org/tiny", 503, wire.CodeHub, "hash")
	begun = false
	s.hub.Fail(nil)
	t.Setenv("TEST_OFFLINE", "1")
	ask("org/tiny", 503, wire.CodeHub, "HF_HUB_OFFLINE")
	t.Setenv("TEST_OFFLINE", "")
	if err := os.RemoveAll(s.cache); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begun = true
	ask("org/tiny", 500, wire.CodeInternal, "log says why")
	if text := all.String(); strings.Contains(text, hubToken) || strings.Contains(text, s.cache) {
		t.Errorf("an answer has a secret: %s", text)
	}
	if log := s.log.String(); strings.Contains(log, hubToken) || !strings.Contains(log, "could not be pulled") {
		t.Errorf("the log: %s", log)
	}
	if leaks := s.hub.Leaks(); len(leaks) > 0 {
		t.Errorf("the storage host got %v", leaks)
	}
}

// A client that goes away ends its pull. The next goes on with it.
func TestClientLeavesItsPull(t *testing.T) {
	s := startPulls(t)
	url := s.as(t, wiretest.Anyone())
	s.hub.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Storage {
			return hubtest.Fault{Slow: 5 * time.Millisecond}
		}
		return hubtest.Fault{}
	})
	res, err := http.Post(url+"/api/pull", "application/json", strings.NewReader(`{"model":"org/tiny"}`))
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for buf := make([]byte, 512); !strings.Contains(seen.String(), "completed"); {
		n, err := res.Body.Read(buf)
		if seen.Write(buf[:n]); err != nil {
			t.Fatalf("%v: %s", err, &seen)
		}
	}
	_ = res.Body.Close()
	sent := int64(-1)
	for range 500 { // nothing more is sent once the transfer has ended
		now := s.hub.Sent()
		if now == sent {
			break
		}
		sent = now
		time.Sleep(100 * time.Millisecond)
	}
	if sent >= int64(len(tinyWeights)) {
		t.Fatalf("all %d bytes were sent", sent)
	}
	s.hub.Fail(nil)
	res, err = http.Post(url+"/api/pull", "application/json", strings.NewReader(`{"model":"org/tiny","stream":false}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(answer), "success") {
		t.Errorf("%s, %v", answer, err)
	}
	if again := s.hub.Sent() - sent; again >= int64(len(tinyWeights)) {
		t.Errorf("%d bytes were sent again", again)
	}
}
