//go:build unix

package traces_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner/tracing"
	"runner/server/agui"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/traces"
	"runner/server/wire"
	"runner/server/wiretest"
)

const (
	question = "What is 17 + 25?"
	thought  = "Seventeen and 25 make 42."
)

// site is a store that servers share, with the key that opens what is in it.
type site struct {
	*store.Store
	identity *trace.Identity
	traces   *tracing.Traces
	models   *wiretest.Models
}

func newSite(t *testing.T, cfg store.Config) *site {
	t.Helper()
	s := &site{identity: trace.NewIdentity()}
	cfg.Recipients = []trace.Recipient{s.identity.Recipient()}
	var err error
	if s.Store, err = store.Open(filepath.Join(t.TempDir(), "traces"), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.traces = tracing.New(s.Store, tracing.Config{})
	s.models = wiretest.New(t, fake.Config{Sequences: 4}, fake.Reply{After: wiretest.Ask(question),
		Say: wiretest.Think(thought, "It is 42.")})
	return s
}

// key is a principal with scopes.
func key(id string, scopes ...wire.Scope) *wire.Principal {
	return &wire.Principal{ID: id, Scopes: append(scopes, wire.ScopeGenerate)}
}

// runs stores a trace for each of the principals, in that order, and returns their ids.
func (s *site) runs(t *testing.T, principals ...string) (ids []string) {
	t.Helper()
	for _, p := range principals {
		w, err := s.Create(t.Context(), store.Info{Principal: p, Model: "00ff"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append([]byte(p)); err != nil {
			t.Fatal(err)
		}
		id, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id.String())
	}
	return ids
}

func (s *site) serve(t *testing.T, p *wire.Principal) string {
	t.Helper()
	return wiretest.Serve(t, traces.New(traces.Config{Store: s.Store}), p).URL
}

// get reads a JSON answer of a status.
func get(t *testing.T, method, url string, status int, to any) {
	t.Helper()
	got, _, body := wiretest.Send(t, method, url, "", nil)
	if got != status {
		t.Fatalf("%s %s: %d and not %d: %s", method, url, got, status, body)
	}
	if err := json.Unmarshal([]byte(body), to); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// refused asks for what is answered with an error in OpenAI's shape.
func refused(t *testing.T, method, url string, status int, code string) {
	t.Helper()
	var body struct {
		Error *struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if get(t, method, url, status, &body); body.Error == nil || body.Error.Code != code || body.Error.Message == "" ||
		body.Error.Type == "" {
		t.Errorf("%s %s: %+v, want %s", method, url, body.Error, code)
	}
}

func idsOf(list []traces.Trace) (ids []string) {
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids
}

// A key sees only its own traces, unless it may see all.
func TestKeysAreIsolated(t *testing.T) {
	s := newSite(t, store.Config{})
	ids := s.runs(t, "a", "b", "a")
	a, b := s.serve(t, key("a", traces.ScopeRead, traces.ScopeErase)),
		s.serve(t, key("b", traces.ScopeRead, traces.ScopeErase))
	all := s.serve(t, key("c", traces.ScopeRead, traces.ScopeErase, traces.ScopeAll))
	for _, c := range []struct {
		url  string
		want []string
	}{{a, []string{ids[0], ids[2]}}, {b, []string{ids[1]}}, {all, ids}, {s.serve(t, key("c", traces.ScopeRead)), nil}} {
		var list traces.List
		get(t, "GET", c.url+"/v1/traces?order=asc", 200, &list)
		got := idsOf(list.Data)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(c.want))
		if !slices.Equal(got, want) {
			t.Errorf("%q and not %q", got, want)
		}
	}
	for _, path := range []string{"/v1/traces/" + ids[0], "/v1/traces/" + ids[0] + "/content"} {
		refused(t, "GET", b+path, 404, "trace_not_found")
	}
	refused(t, "DELETE", b+"/v1/traces/"+ids[0], 404, "trace_not_found")
	refused(t, "GET", b+"/v1/traces?after="+ids[0], 400, "invalid_value")
	var one traces.Trace
	if get(t, "GET", a+"/v1/traces/"+ids[0], 200, &one); one.State != "complete" || one.Principal != "a" ||
		one.ModelDigest != "00ff" || one.EndedAt == nil || one.ErasedAt != nil {
		t.Errorf("%+v", one)
	}
	var gone traces.Erased
	if get(t, "DELETE", all+"/v1/traces/"+ids[1], 200, &gone); !gone.Deleted || gone.ID != ids[1] {
		t.Errorf("%+v", gone)
	}
	if get(t, "GET", b+"/v1/traces/"+ids[1], 200, &one); one.State != "erased" || one.ErasedAt == nil {
		t.Errorf("%+v", one)
	}
}

func TestScopesAreNeeded(t *testing.T) {
	s := newSite(t, store.Config{})
	id := s.runs(t, "a")[0]
	nothing, reader := s.serve(t, key("a")), s.serve(t, key("a", traces.ScopeRead))
	refused(t, "GET", nothing+"/v1/traces", 403, wire.CodeForbidden)
	refused(t, "GET", nothing+"/v1/traces/"+id+"/content", 403, wire.CodeForbidden)
	refused(t, "DELETE", reader+"/v1/traces/"+id, 403, wire.CodeForbidden)
	if e, err := s.Get(t.Context(), parse(t, id)); err != nil || e.State != store.StateComplete {
		t.Errorf("%+v, %v", e, err)
	}
}

func parse(t *testing.T, id string) trace.ID {
	t.Helper()
	parsed, err := trace.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The pages show every trace once, in order, even while new ones arrive.
func TestPages(t *testing.T) {
	s := newSite(t, store.Config{})
	s.runs(t, "a", "b", "a", "b", "a", "a", "b", "a", "a")
	url := s.serve(t, key("a", traces.ScopeRead))
	for _, order := range []string{"asc", "desc"} {
		var whole traces.List
		get(t, "GET", url+"/v1/traces?order="+order, 200, &whole)
		var seen []string
		for after := ""; ; {
			var page traces.List
			get(t, "GET", url+"/v1/traces?limit=2&order="+order+after, 200, &page)
			seen = append(seen, idsOf(page.Data)...)
			if !page.HasMore {
				break
			}
			if len(page.Data) != 2 || *page.FirstID != page.Data[0].ID || *page.LastID != page.Data[1].ID {
				t.Fatalf("%+v", page)
			}
			after = "&after=" + *page.LastID
		}
		if len(seen) != len(whole.Data) || !slices.Equal(seen, idsOf(whole.Data)) {
			t.Errorf("%s: %q and not %q", order, seen, idsOf(whole.Data))
		}
	}
	var none traces.List
	if get(t, "GET", s.serve(t, key("c", traces.ScopeRead))+"/v1/traces", 200, &none); none.Data == nil ||
		none.FirstID != nil || none.HasMore {
		t.Errorf("%+v", none)
	}
}

func TestContentIsTheBlob(t *testing.T) {
	s := newSite(t, store.Config{})
	id := s.runs(t, "a")[0]
	url := s.serve(t, key("a", traces.ScopeRead, traces.ScopeErase)) + "/v1/traces/" + id
	status, header, body := wiretest.Send(t, "GET", url+"/content", "", nil)
	if status != 200 || header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%d, %v", status, header)
	}
	r, err := trace.NewReader(strings.NewReader(body), s.identity)
	if err != nil {
		t.Fatal(err)
	}
	if record, err := r.Next(); err != nil || string(record) != "a" {
		t.Errorf("%q, %v", record, err)
	}
	var gone traces.Erased
	get(t, "DELETE", url, 200, &gone)
	get(t, "DELETE", url, 200, &gone)
	refused(t, "GET", url+"/content", 410, "trace_erased")

	w, err := s.Create(t.Context(), store.Info{Principal: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abandon()
	var list traces.List
	get(t, "GET", strings.TrimSuffix(url, "/"+id), 200, &list)
	open := list.Data[slices.IndexFunc(list.Data, func(t traces.Trace) bool { return t.State == "open" })]
	if open.EndedAt != nil {
		t.Errorf("%+v", open)
	}
	url = strings.Replace(url, id, open.ID, 1)
	refused(t, "GET", url+"/content", 409, "trace_open")
	refused(t, "DELETE", url, 409, "trace_open")
}

// broken is a store that fails.
type broken struct{ traces.Store }

func (broken) Get(context.Context, trace.ID) (store.Entry, error) {
	return store.Entry{State: store.StateComplete, Size: 100, Principal: "a"}, nil
}
func (broken) Page(context.Context, store.Query) ([]store.Entry, bool, error) {
	return nil, false, errors.New("/secret/path: input/output error")
}
func (broken) Erase(context.Context, ...trace.ID) error { return store.ErrInLog }
func (broken) Blob(context.Context, trace.ID) (io.Reader, error) {
	return io.MultiReader(strings.NewReader("half"), failing{}), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestFailures(t *testing.T) {
	who := key("a", traces.ScopeRead, traces.ScopeErase)
	url := wiretest.Serve(t, traces.New(traces.Config{Store: broken{}}), who).URL + "/v1/traces"
	id := "/" + strings.Repeat("0", 32)
	_, _, body := wiretest.Send(t, "GET", url, "", nil)
	if refused(t, "GET", url, 500, "internal_error"); strings.Contains(body, "secret") {
		t.Errorf("%s", body)
	}
	refused(t, "DELETE", url+id, 503, "trace_in_log")
	if res, err := http.Get(url + id + "/content"); err == nil {
		defer res.Body.Close()
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("half a blob passes for a whole one")
		}
	}
	url = wiretest.Serve(t, traces.New(traces.Config{}), who).URL + "/v1/traces"
	refused(t, "GET", url, 404, "traces_disabled")
	refused(t, "GET", url+id, 404, "traces_disabled")
	refused(t, "DELETE", url+id, 404, "traces_disabled")
}

// asking is a request for a trace in each format, and the place of the id in its answer.
var asking = []struct {
	name, path, body string
	ids              func(body string) []string
}{
	{"chat", "/v1/chat/completions",
		`{"reasoning_encrypt":true,"n":2,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, told},
	{"chat stream", "/v1/chat/completions",
		`{"reasoning_encrypt":true,"n":2,"stream":true,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, told},
	{"responses", "/v1/responses", `{"reasoning_encrypt":true,"input":"What is 17 + 25?"}`, told},
	{"responses stream", "/v1/responses", `{"reasoning_encrypt":true,"stream":true,"input":"What is 17 + 25?"}`, told},
	{"agui", "/agui",
		`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"What is 17 + 25?"}],` +
			`"forwardedProps":{"reasoning_encrypt":true}}`, told},
}

// told returns the ids of traces in an answer.
func told(body string) (ids []string) {
	for {
		_, rest, ok := strings.Cut(body, `"trace_id":"`)
		if !ok {
			return ids
		}
		ids = append(ids, rest[:32])
		body = rest
	}
}

// formats serves all formats that take reasoning_encrypt.
func (s *site) formats(t *testing.T, kept wire.Traces, p *wire.Principal) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, f := range map[string]wire.Format{
		"/v1/chat/completions": openai.New(s.models, openai.Config{Traces: kept}), "/v1/responses": responses.New(s.models,
			responses.Config{Config: wire.Config{Traces: kept}}),
		"/agui": agui.New(s.models, agui.Config{Traces: kept}),
	} {
		mux.Handle(path, wiretest.Handler(f, p))
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// The id in an answer names a durable trace with the whole run, even if the answer showed none of the reasoning.
func TestAnswersTellTheirTraces(t *testing.T) {
	s := newSite(t, store.Config{})
	url := s.formats(t, s.traces, key("k"))
	known := 0
	for _, c := range asking {
		status, _, body := wiretest.Send(t, "POST", url+c.path, c.body, nil)
		ids := c.ids(body)
		want := 1 + strings.Count(c.body, `"n":2`)
		if status != 200 || len(ids) != want || strings.Contains(body, thought) ||
			strings.Contains(body, "trace_not_stored") {
			t.Errorf("%s: %d, %q: %.2000s", c.name, status, ids, body)
			continue
		}
		known += want
		for _, id := range ids {
			text, begin := s.read(t, id)
			if !strings.Contains(text, thought) || begin.Principal != "k" || begin.Consent.By != "k" ||
				begin.Consent.How != "reasoning_encrypt" || begin.Run == "" {
				t.Errorf("%s: %+v: %s", c.name, begin, text)
			}
			if c.name != "agui" && !strings.Contains(body, begin.Run) {
				t.Errorf("%s: the answer is not %s: %s", c.name, begin.Run, body)
			}
		}
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != known {
		t.Errorf("%d traces and not %d, %v", len(list), known, err)
	}
}

// read returns the records of a trace as text, and its begin.
func (s *site) read(t *testing.T, id string) (string, *trace.Begin) {
	t.Helper()
	blob, err := s.Blob(t.Context(), parse(t, id))
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(blob, s.identity)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	var begin *trace.Begin
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all.String(), begin
		}
		if err != nil {
			t.Fatal(err)
		}
		var rec trace.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		if rec.Begin != nil {
			begin = rec.Begin
		}
		if rec.Event != nil && rec.Event.Kind == reasoning.SegmentDelta {
			all.WriteString(rec.Event.Text)
		}
	}
}

// If the store fails, the run is complete and the answer says that there is no trace.
func TestAnswersWithoutTheirTraces(t *testing.T) {
	s := newSite(t, store.Config{MaxTotal: 1})
	s.runs(t, "someone")
	url := s.formats(t, s.traces, key("k"))
	for _, c := range asking {
		status, _, body := wiretest.Send(t, "POST", url+c.path, c.body, nil)
		if status != 200 || len(c.ids(body)) > 0 || !strings.Contains(body, "trace_not_stored") ||
			!strings.Contains(body, "size limit") || !strings.Contains(body, `"stop"`) &&
			!strings.Contains(body, `"completed"`) {
			t.Errorf("%s: %d: %.2000s", c.name, status, body)
		}
	}
}

// A server without a store refuses, naming the field and what the operator can do.
func TestNoStoreIsSaid(t *testing.T) {
	s := newSite(t, store.Config{})
	url := s.formats(t, nil, key("k"))
	for _, c := range asking {
		status, _, body := wiretest.Send(t, "POST", url+c.path, c.body, nil)
		if status != 400 || !strings.Contains(body, "reasoning_encrypt") || !strings.Contains(body, "runner serve --traces") {
			t.Errorf("%s: %d: %.2000s", c.name, status, body)
		}
	}
}

// A client that goes away leaves a trace that has ended.
func TestClientThatLeaves(t *testing.T) {
	s := newSite(t, store.Config{})
	url := s.formats(t, s.traces, key("k"))
	for _, c := range asking {
		if !strings.Contains(c.name, "stream") && c.name != "agui" {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 16))
		cancel()
		res.Body.Close()
	}
	for range 500 {
		list, err := s.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) >= 3 && !slices.ContainsFunc(list, func(e store.Entry) bool { return e.State == store.StateOpen }) &&
			s.models.Idle() {
			for _, e := range list {
				if e.State != store.StateComplete {
					t.Errorf("%s is %s", e.ID, e.State)
				}
				s.read(t, e.ID.String())
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the traces do not end")
}
