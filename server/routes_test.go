package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/server/pool"
	"runner/server/wire"
)

func TestUnknownPaths(t *testing.T) {
	s := host(t, Config{MaxBody: 64}, fake.Config{})
	if r := s.do(t, http.MethodGet, "/nothing", ""); r.StatusCode != http.StatusNotFound ||
		!strings.Contains(r.body, wire.CodeNotFound) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	r := s.do(t, http.MethodGet, "/say", "")
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	r = s.do(t, http.MethodPost, "/health", "")
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("%d, Allow %q", r.StatusCode, r.Header.Get("Allow"))
	}
	if r := s.do(t, http.MethodPost, "/say", "{}",
		"Content-Encoding", "gzip"); r.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(r.body, "gzip") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/say",
		`{"text":"`+strings.Repeat("x", 100)+`"}`); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// half is a format that accepts a path only with its header.
type half struct{ echo }

func (*half) Routes() []wire.Route {
	answer := func(text string) wire.Handler {
		return wire.HandlerOf(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		}))
	}
	own := func(r *http.Request) bool { return r.Header.Get("X-Half") != "" }
	return []wire.Route{
		{Method: http.MethodGet, Path: "/shared", Handle: answer("half"), When: own},
		{Method: http.MethodGet, Path: "/shared", Handle: answer("rest")},
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
	for _, c := range [][3]string{{"/shared", "X-Half", "half"}, {"/shared", "", "rest"}, {"/only", "X-Half", "half"},
		{"/only", "", "not_found"}} {
		if got := get(c[0], c[1]); !strings.Contains(got, c[2]) {
			t.Errorf("%s with %q: %s", c[0], c[1], got)
		}
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

// OPTIONS reports which methods a path accepts, to any client and to browsers that ask what a page may do. The report
// must be true.
func TestOptionsListMethods(t *testing.T) {
	s := host(t, Config{Origins: []string{"https://good.example"}}, fake.Config{})
	s.Mount(&half{})
	for _, c := range []struct{ path, header, allow string }{
		{"/say", "", "POST, OPTIONS"}, {"/health", "", "GET, HEAD, OPTIONS"}, {"/nothing", "", ""},
		{"/shared", "", "GET, HEAD, OPTIONS"}, {"/only", "", ""}, {"/only", "X-Half", "GET, HEAD, OPTIONS"},
	} {
		header := []string{c.header, "1"}
		if c.header == "" {
			header = nil
		}
		status := http.StatusNoContent
		if c.allow == "" {
			status = http.StatusNotFound
		}
		plain := s.do(t, http.MethodOptions, c.path, "", header...)
		if plain.StatusCode != status || plain.Header.Get("Allow") != c.allow ||
			plain.Header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s %s: %d, %v", c.path, c.header, plain.StatusCode, plain.Header)
		}
		asking := append(header, "Origin", "https://good.example", "Access-Control-Request-Method", "PUT")
		page := s.do(t, http.MethodOptions, c.path, "", asking...)
		if page.StatusCode != status || page.Header.Get("Access-Control-Allow-Methods") != c.allow ||
			page.Header.Get("Access-Control-Allow-Origin") != "https://good.example" {
			t.Errorf("preflight of %s %s: %d, %v", c.path, c.header, page.StatusCode, page.Header)
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			r := s.do(t, method, c.path, "{}", header...)
			told := strings.Contains(c.allow, method)
			if there := r.StatusCode != http.StatusMethodNotAllowed && r.StatusCode != http.StatusNotFound; there != told {
				t.Errorf("%s %s %s: %d, and OPTIONS tells %q", method, c.path, c.header, r.StatusCode, c.allow)
			}
		}
	}
}

// Paths that do not exist are answered in the shape of the format whose clients ask for them.
func TestUnknownPathsHaveTheirFormat(t *testing.T) {
	p := pool.New(pool.Config{})
	defer p.Close()
	s := New(Config{Pool: p})
	s.Mount(&shaped{shape: "many", paths: []string{"/v1/chat/completions", "/v1/models", "/v1/files/{id}"}})
	s.Mount(&shaped{shape: "few", paths: []string{"/v1/messages", "/v1/messages/count", "/api/hello"}})
	s.Mount(&shaped{shape: "other", paths: []string{"/api/chat", "/api/tags"}})
	for path, want := range map[string]string{
		"/v1/messages/batches": "few", "/v1/nothing": "many", "/api/nothing": "other", "/v1/files/a/b": "many",
		"/v1/v1/chat/completions": "many: /v1/chat/completions", "/chat/completions": ": /v1/chat/completions",
		"/v1/api/tags": "many: /api/tags", "/nothing": "",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.Host = "localhost"
		s.ServeHTTP(w, r)
		shape, meant, _ := strings.Cut(want, ": ")
		got := w.Body.String()
		if w.Code != http.StatusNotFound || !strings.HasPrefix(got, shape) || shape == "" && !strings.HasPrefix(got, "{") ||
			strings.Contains(got, "did you mean") != (meant != "") || !strings.Contains(got, meant) {
			t.Errorf("%s: %d %s", path, w.Code, got)
		}
	}
}

// shaped is a format with these paths, whose errors begin with its shape.
type shaped struct {
	shape string
	paths []string
}

func (f *shaped) Routes() (list []wire.Route) {
	for _, path := range f.paths {
		list = append(list, wire.Route{Method: http.MethodPost, Path: path,
			Handle: func(http.ResponseWriter, *http.Request) error { return nil }})
	}
	return list
}

func (f *shaped) WriteError(w http.ResponseWriter, err error) {
	w.WriteHeader(wire.FromError(err, nil).Status)
	_, _ = io.WriteString(w, f.shape+" "+err.Error())
}

// TestWebSocketIsAnsweredOverHTTP: clients that try a WebSocket first are told at once to go on with HTTP.
func TestWebSocketIsAnsweredOverHTTP(t *testing.T) {
	s := host(t, Config{}, scripted(said("q", "four")))
	r := s.do(t, http.MethodGet, "/say", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version",
		"13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	if r.StatusCode != http.StatusUpgradeRequired || !strings.Contains(r.body, "over HTTP") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
