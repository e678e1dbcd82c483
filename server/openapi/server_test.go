package openapi_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning/prompts"
	"runner/reasoning/seal"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner"
	"runner/runner/delegate"
	"runner/runner/tracing"
	"runner/server"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/keys"
	"runner/server/mew"
	"runner/server/mew/envelope"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/pool"
	"runner/server/traces"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// The questions that the tests' models can answer.
const (
	question = "What is 17 + 25?"
	lookUp   = "Look it up."
	cut      = "Say it at length."
	handOver = "Hand it over."
	explain  = "Say why."
	patchIt  = "Patch it."
)

// site is a server with all formats. The model demo answers, the model broken fails while it answers, and idle is
// never loaded.
type site struct {
	*server.Server
	url string
	doc *document
	// open are the schemas of the document. closed are the same, but allow no undescribed fields.
	open, closed *schemas
	// seen are the properties and contents that answers had so far.
	seen map[string]bool
	key  string
	// tokens are the tokens of the space's participants: alice may chat, and flood may send anything.
	tokens map[string]string
}

func script() fake.Config {
	summary := "<|end|><|start|>assistant<|channel|>final<|message|>"
	said := "Adding gives 42.<|return|>"
	return fake.Config{Script: fake.Replies(fake.Harmony(),
		fake.Reply{After: wiretest.Ask(question), Say: wiretest.Think("Seventeen and 25 make 42.", "It is 42.")},
		fake.Reply{After: wiretest.Ask(lookUp), Say: wiretest.Call("I look.", "One moment.", "look", `{"q":"a"}`)},
		fake.Reply{After: wiretest.Ask(explain),
			Say: wiretest.Call(
				`<rationale call="1">{"why":"It knows.","refs":["r"],"alternatives":[{"option":"o","rejectedBecause":"b"}],`+
					`"confidence":0.5}</rationale>`,
				"", "look", `{"q":"a"}`)},
		fake.Reply{After: wiretest.Ask(patchIt), Say: wiretest.Call("I patch.", "", "patch", `{"input":"+a\n-\"b\""}`)},
		fake.Reply{After: wiretest.Ask("Look in n."), Say: wiretest.Call("", "", "n__look", `{}`)},
		fake.Reply{After: wiretest.Ask("Patch in n."), Say: wiretest.Call("", "", "n__patch", `{"input":"+a"}`)},
		fake.Reply{After: wiretest.Ask(handOver), Say: wiretest.Call("", "", "delegate_internal_reasoning",
			`{"agent_prompt":"Look it up."}`)},
		fake.Reply{After: "</delegate-reasoning><|end|><|start|>assistant", Say: wiretest.Call("I look.", "", "look",
			`{"q":"a"}`)},
		fake.Reply{After: wiretest.Ask(cut), Say: wiretest.Call("", "", "look", `{"q":"`+strings.Repeat("a", 200)+`"}`)},
		fake.Reply{After: "Once upon a time", Say: " there was.<|return|>"},
		fake.Reply{After: prompts.SummaryConciseV1 + summary, Say: said},
		fake.Reply{After: prompts.SummaryDetailedV1 + summary, Say: said},
	)}
}

// options are the special settings of a server. The zero value has none.
type options struct {
	keys    *keys.Set
	maxBody int64
	// events is how many bytes of a response's events are kept.
	events int
	// damaged says that the first model computes no valid numbers.
	damaged bool
}

func start(t testing.TB, o options) *site {
	t.Helper()
	names := []string{"demo", "broken", "idle", "code"}
	cfg := server.Config{Keys: o.keys, Granted: []wire.Scope{ollama.ScopeModelsWrite}, MaxBody: o.maxBody,
		Version: "1.2.3"}
	var entries []pool.Entry
	for _, name := range names {
		entries = append(entries, pool.Entry{Name: name})
		cfg.Cards = append(cfg.Cards, wire.Card{Name: name, Added: wiretest.Today})
	}
	cfg.Cards[0].Size, cfg.Cards[0].Modified = 1<<20, wiretest.Today
	cfg.Cards[2].Parameters = 1000
	cfg.Pool = pool.New(pool.Config{Models: entries, Open: func(_ context.Context, name string) (wire.Loaded, error) {
		c := script()
		c.Name = name
		if name == "code" {
			c.Vocab = fake.Code()
			c.ChatTemplate = fake.ThinkTemplate
			c.Script = fake.Replies(c.Vocab, fake.Reply{After: "<|fim_middle|>", Say: "x<|endoftext|>"})
		}
		if name == "broken" {
			c.Fail = func(step int, _ []backend.Input) error {
				if step > 2 {
					return errors.New("it broke")
				}
				return nil
			}
		}
		if o.damaged {
			c.Fail = func(int, []backend.Input) error { return &backend.InputError{Err: backend.ErrBadLogits} }
		}
		return runner.New(fake.New(c), runner.Config{Loops: []generation.Loop{delegate.Loop{}}})
	}})
	s := &site{Server: server.New(cfg), doc: load(t), seen: map[string]bool{}}
	stored := store.Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}}
	kept, err := store.Open(alteredStore(t, stored), stored)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	recorded := tracing.New(kept, tracing.Config{})
	keyring := seal.NewKeyring()
	for _, f := range []wire.Format{
		openai.New(s, openai.Config{Seal: keyring, Traces: recorded}),
		responses.New(s, responses.Config{Config: wire.Config{Seal: keyring, Traces: recorded},
			Store: responses.StoreLimits{Events: o.events}}),
		anthropic.New(s, anthropic.Config{Seal: keyring}), ollama.New(s, ollama.Config{Library: &shelf{map[string]string{}}}),
		web.New(s, web.Config{Config: wire.Config{Seal: keyring, Traces: recorded}, Figures: s.Figures}),
		agui.New(s, agui.Config{Seal: keyring, Traces: recorded}), traces.New(traces.Config{Store: kept}), s.space(t),
	} {
		s.Mount(f)
	}
	s.open, s.closed = newSchemas(t, s.doc.root), newSchemas(t, shut(load(t).root))
	s.url = testenv.Listen(t, s)
	return s
}

// space creates a space and the tokens of its participants.
func (s *site) space(t testing.TB) wire.Format {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	s.tokens = map[string]string{}
	for id, kind := range map[string]string{"alice": envelope.Chat, "flood": "*"} {
		token, err := mew.AddToken(path, id, envelope.Capabilities{{Kind: kind}})
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[id] = token
	}
	tokens, err := mew.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return mew.New(s, mew.Config{Tokens: tokens})
}

// shut makes the schemas of a document refuse undescribed fields.
func shut(v any) any {
	walk(v, "#", func(_ string, v any) {
		if o, ok := v.(object); ok && asObject(o["properties"]) != nil && o["additionalProperties"] == nil &&
			o["type"] == "object" {
			o["additionalProperties"] = false
		}
	})
	return v
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	op     operation
	// kind is the media type.
	kind string
}

// ask sends a request. header is the lines of its header.
func (s *site) ask(t *testing.T, method, path, body string, header ...string) *answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		if line == "" {
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	if s.key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header, op: s.operation(t, method, path)}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	a.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	return a
}

// operation finds the operation of a request.
func (s *site) operation(t *testing.T, method, path string) operation {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	var found operation
	for _, o := range s.doc.operations() {
		if o.method != method || !fits(strings.Split(o.path, "/"), strings.Split(path, "/")) {
			continue
		}
		if found.object == nil || o.path == path {
			found = o
		}
	}
	if found.object == nil {
		t.Fatalf("%s %s is not described", method, path)
	}
	return found
}

func fits(pattern, path []string) bool {
	return len(pattern) == len(path) && !slices.ContainsFunc(pattern, func(string) bool {
		for i := range pattern {
			if pattern[i] != path[i] && !strings.HasPrefix(pattern[i], "{") {
				return true
			}
		}
		return false
	})
}

// check validates an answer; a stream is validated frame by frame.
func (s *site) check(t *testing.T, a *answer) {
	t.Helper()
	what := fmt.Sprintf("%s: %d %s", a.op, a.status, a.kind)
	pointer := fmt.Sprintf("#/paths/%s/%s/responses/%d", strings.ReplaceAll(a.op.path, "/", "~1"),
		strings.ToLower(a.op.method), a.status)
	response := asObject(s.doc.at(pointer))
	if ref, ok := response["$ref"].(string); ok {
		pointer, response = ref, s.doc.resolve(response)
	}
	if response == nil {
		t.Errorf("%s is not described: %s", what, a.body)
		return
	}
	for name := range asObject(response["headers"]) {
		if a.header.Get(name) == "" && name != "Retry-After" {
			t.Errorf("%s has no %s", what, name)
		}
	}
	if asObject(asObject(response["content"])[a.kind]) == nil {
		if len(a.body) > 0 {
			t.Errorf("%s is not described: %s", what, a.body)
		}
		return
	}
	if asObject(asObject(response["content"])[a.kind])["schema"] == nil {
		return // bytes
	}
	pointer += "/content/" + strings.ReplaceAll(a.kind, "/", "~1") + "/schema"
	for _, text := range frames(t, a) {
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if a.kind == "text/plain" {
			v = string(text)
		} else if err := d.Decode(&v); err != nil {
			t.Errorf("%s: %v: %s", what, err, text)
			continue
		}
		if err := s.closed.at(t, pointer).Validate(v); err != nil {
			t.Errorf("%s: %s\n%s", what, deepest(err), text)
			continue
		}
		s.note(t, pointer, v)
	}
}

// deepest returns the error that is deepest inside a value. If the value could be of several kinds, that is the
// error about the kind that it has.
func deepest(err error) string {
	var told string
	depth := -1
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if n := strings.Count(e.InstanceLocation, "/"); len(e.Causes) == 0 && n > depth {
			depth, told = n, e.InstanceLocation+": "+e.Message+" ("+
				e.AbsoluteKeywordLocation[strings.IndexByte(e.AbsoluteKeywordLocation, '#'):]+")"
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	var e *jsonschema.ValidationError
	if errors.As(err, &e) {
		visit(e)
	}
	return told
}

// frames returns the parts of an answer: the data of its events, its lines, or the whole.
func frames(t *testing.T, a *answer) [][]byte {
	t.Helper()
	switch a.kind {
	case "text/event-stream":
		var list [][]byte
		name := ""
		for lines := bufio.NewScanner(bytes.NewReader(a.body)); lines.Scan(); {
			line := slices.Clone(lines.Bytes())
			if event, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
				name = string(event)
			}
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok || string(data) == "[DONE]" {
				continue
			}
			list = append(list, data)
			var typed struct{ Type string }
			if err := json.Unmarshal(data, &typed); err != nil || name != "" && typed.Type != name {
				t.Errorf("%s: the event %s has the data %s", a.op, name, data)
			}
		}
		return list
	case "application/x-ndjson":
		return bytes.Split(bytes.TrimSpace(a.body), []byte("\n"))
	}
	return [][]byte{a.body}
}

// note records which properties of its schema a valid value has.
func (s *site) note(t *testing.T, pointer string, v any) {
	t.Helper()
	schema := asObject(s.doc.at(pointer))
	if s.seen[pointer] = true; schema["$ref"] != nil {
		s.note(t, schema["$ref"].(string), v)
	}
	for i := range asList(schema["oneOf"]) {
		if part := fmt.Sprint(pointer, "/oneOf/", i); s.closed.at(t, part).Validate(v) == nil {
			s.note(t, part, v)
		}
	}
	for _, item := range asList(v) {
		if schema["items"] != nil {
			s.note(t, pointer+"/items", item)
		}
	}
	for name, v := range asObject(v) {
		if asObject(schema["properties"])[name] != nil {
			s.note(t, pointer+"/properties/"+name, v)
		}
	}
}

// answerParts lists the pointers to everything that answers can have.
func (s *site) answerParts() map[string]bool {
	all := map[string]bool{}
	var visit func(pointer string)
	visit = func(pointer string) {
		if all[pointer] {
			return
		}
		all[pointer] = true
		schema := asObject(s.doc.at(pointer))
		if ref, ok := schema["$ref"].(string); ok {
			visit(ref)
		}
		for i := range asList(schema["oneOf"]) {
			visit(fmt.Sprint(pointer, "/oneOf/", i))
		}
		if schema["items"] != nil {
			visit(pointer + "/items")
		}
		for name := range asObject(schema["properties"]) {
			visit(pointer + "/properties/" + name)
		}
	}
	walk(s.doc.root, "#", func(pointer string, _ any) {
		if strings.Contains(pointer, "/responses/2") && strings.HasSuffix(pointer, "/schema") {
			visit(pointer)
		}
	})
	return all
}

// ready waits until the server is ready.
func (s *site) ready(t *testing.T) {
	t.Helper()
	for range 500 {
		a := s.ask(t, "GET", "/health", "")
		if s.check(t, a); a.status == 200 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not get ready")
}

func TestRoutesMatchServer(t *testing.T) {
	s := start(t, options{})
	mounted, limited := map[string]string{}, map[string]bool{}
	for _, r := range s.Routes() {
		path := strings.NewReplacer("...}", "}", "{$}", "").Replace(r.Path)
		mounted[r.Method+" "+path] = string(r.Scope)
		// a space has a limit of its own
		limited[r.Method+" "+path] = r.Scope != wire.ScopeNone && r.Method != http.MethodGet &&
			(!r.Free || r.Scope == wire.ScopeOwn)
	}
	for _, o := range s.doc.operations() {
		scope, ok := mounted[o.String()]
		if delete(mounted, o.String()); !ok {
			t.Errorf("the server has no %s", o)
		} else if scope != o.scope() {
			t.Errorf("%s requires the permission %q, want %q", o, scope, o.scope())
		}
		if described := asObject(o.object["responses"])["429"] != nil; described != limited[o.String()] {
			t.Errorf("%s is limited: %v; the document says so: %v", o, !described, described)
		}
	}
	for route := range mounted {
		t.Errorf("%s is not described", route)
	}
}

// given are the API keys of the test's server.
type given struct {
	set *keys.Set
	// all may do everything, figures and vectors one thing each, and once may send one request a minute.
	all, figures, vectors, once string
}

func makeKeys(t *testing.T) given {
	t.Helper()
	var g given
	var entries []keys.Entry
	add := func(to *string, e keys.Entry) {
		*to, e.SHA256 = keys.New()
		entries = append(entries, e)
	}
	add(&g.all, keys.Entry{ID: "all", Reasoning: "full",
		Scopes: append(wire.Scopes(func(p *wire.Permission) bool { return !p.Named }), ollama.ScopeModelsWrite)})
	add(&g.figures, keys.Entry{ID: "figures", Scopes: []wire.Scope{wire.ScopeMetrics}})
	add(&g.vectors, keys.Entry{ID: "vectors", Scopes: []wire.Scope{wire.ScopeEmbed}})
	add(&g.once, keys.Entry{ID: "once", RequestsPerMinute: 1})
	text, err := json.Marshal(map[string]any{"keys": entries})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if g.set, err = keys.Load(path); err != nil {
		t.Fatal(err)
	}
	return g
}

// alteredStore is a folder with two traces. Somebody altered an entry of the newer one, so it is unattested.
func alteredStore(t testing.TB, cfg store.Config) string {
	t.Helper()
	dir, now := t.TempDir(), time.Unix(1_000_000_000, 0)
	cfg.Clock = func() time.Time { now = now.Add(time.Second); return now }
	kept, err := store.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w, err := kept.Create(context.Background(), store.Info{Principal: wire.Local})
		if err == nil {
			_, err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "traces.db"))
	if err == nil {
		_, err = db.Exec("UPDATE chain SET model = 'another' WHERE number = 3")
		err = errors.Join(kept.Close(), err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
