// Package wiretest helps to test wire formats. It has models with scripted replies and fake models, and serves a
// format's routes on loopback for one principal. For encoders it has the events of invented runs, recordings that
// replace the runs of a model, and golden files.
//
// It needs no engine and no files. It replaces package server with the minimum that formats need: names of models, the
// limit on visibility, and the principal of a request. It has no keys, rate limits or metrics.
package wiretest

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
	"runner/runner/delegate"
	"runner/server/wire"
)

// Today is the date in prompts, and the time at which models were added.
var Today = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// Name is the name of the model.
const Name = "test/model:Q4"

// Models is a [wire.Models] with one model. Its methods may be called by several goroutines at once.
type Models struct {
	// Engine is the model. If it is a runner, Fake is the engine that it uses.
	Engine wire.Loaded
	Fake   *fake.Model
	// Replay, if not nil, replaces the run of every request. It must be set before the first request.
	Replay *Recording
	// Unloads counts the calls of Unload.
	Unloads atomic.Int64
	held    atomic.Int64
	mu      sync.Mutex
	last    generation.Request
}

// New makes a harmony model that gives these replies, unless cfg says otherwise. The test fails if a request still
// holds it at the end.
func New(t testing.TB, cfg fake.Config, replies ...fake.Reply) *Models {
	t.Helper()
	return NewRunner(t, cfg, runner.Config{}, replies...)
}

// NewRunner is New with a configuration for the runner. Its default clock shows [Today].
func NewRunner(t testing.TB, cfg fake.Config, engine runner.Config, replies ...fake.Reply) *Models {
	t.Helper()
	if cfg.Vocab == nil {
		cfg.Vocab = fake.Harmony()
	}
	if cfg.Script == nil && len(replies) > 0 {
		cfg.Script = fake.Replies(cfg.Vocab, replies...)
	}
	if engine.Clock == nil {
		engine.Clock = func() time.Time { return Today }
	}
	engine.Loops = []generation.Loop{delegate.Loop{}}
	f := fake.New(cfg)
	r, err := runner.New(f, engine)
	if err != nil {
		t.Fatal(err)
	}
	m := Of(t, r)
	m.Fake = f
	return m
}

// Of returns a model as a format sees it. The test fails if a request still holds it at the end.
func Of(t testing.TB, loaded wire.Loaded) *Models {
	t.Helper()
	m := &Models{Engine: loaded}
	t.Cleanup(func() {
		if n := m.held.Load(); n != 0 {
			t.Errorf("%d requests did not give the model back", n)
		}
		if err := m.Engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Use implements [wire.Models].
func (m *Models) Use(ctx context.Context, name string) (wire.Model, error) {
	p := wire.PrincipalOf(ctx)
	if name != "" && wire.BareName(name) != Name || !p.MayUse(Name) {
		return nil, wire.Errorf(wire.CodeModel, "there is no such model").At("model")
	}
	m.held.Add(1)
	return &model{Loaded: m.Engine, models: m}, nil
}

// Unload implements [wire.Models]: it counts, and the model stays.
func (m *Models) Unload(ctx context.Context, name string) error {
	model, err := m.Use(ctx, name)
	if err == nil {
		model.Release()
		m.Unloads.Add(1)
	}
	return err
}

// Find implements [wire.Models].
func (m *Models) Find(ctx context.Context, name string) (wire.Card, bool) {
	if cards := m.List(ctx); wire.Named(cards, name) >= 0 {
		return cards[0], true
	}
	return wire.Card{}, false
}

// List implements [wire.Models].
func (m *Models) List(ctx context.Context) []wire.Card {
	if !wire.PrincipalOf(ctx).MayUse(Name) {
		return nil
	}
	return []wire.Card{m.card()}
}

// Last returns the last request of the model.
func (m *Models) Last() generation.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Prompt renders the last request of the model, as for a caller that may see reasoning.
func (m *Models) Prompt(t testing.TB) string {
	t.Helper()
	req := m.Last()
	req.MaySee = reasoning.VisibilityFull
	p, err := m.Engine.Prompt(t.Context(), "", req)
	if err != nil {
		t.Fatal(err)
	}
	return p.Text
}

// Idle reports whether no request holds the model.
func (m *Models) Idle() bool { return m.held.Load() == 0 }

func (m *Models) card() wire.Card {
	info := m.Engine.Info()
	return wire.Card{
		Name: Name, Added: Today, Loaded: true, Size: 1 << 20, Modified: Today, Context: info.ContextSize,
		Digest: info.Digest,
		Family: info.Architecture, Parameters: 1 << 10, Quantization: info.Quantization,
	}
}

// model is the model while a request holds it.
type model struct {
	wire.Loaded
	models   *Models
	released atomic.Bool
}

func (m *model) Card() wire.Card { return m.models.card() }

func (m *model) Embed(ctx context.Context, tokens []generation.Token) ([]float32, error) {
	return m.Loaded.Embed(ctx, wire.PrincipalOf(ctx).ID, tokens)
}

func (m *model) Release() {
	if !m.released.Swap(true) {
		m.models.held.Add(-1)
	}
}

func (m *model) Prompt(ctx context.Context, principal string, req generation.Request) (chattemplate.Prompt, error) {
	req.MaySee = wire.PrincipalOf(ctx).Reasoning
	return m.Loaded.Prompt(ctx, principal, req)
}

func (m *model) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	req.MaySee = wire.PrincipalOf(ctx).Reasoning
	m.models.mu.Lock()
	m.models.last = req
	m.models.mu.Unlock()
	if err := req.Visibility.Cap(wire.PrincipalOf(ctx).Reasoning); err != nil {
		return func(yield func(reasoning.Event, error) bool) { yield(reasoning.Event{}, err) }
	}
	if replay := m.models.Replay; replay != nil {
		return replay.Play(&req, o)
	}
	req.Principal = wire.PrincipalOf(ctx).ID
	return m.Loaded.Generate(ctx, req, o)
}

// Anyone returns a principal that may do everything.
func Anyone() *wire.Principal {
	return &wire.Principal{ID: wire.Local, Scopes: wire.Scopes(nil), Reasoning: reasoning.VisibilityFull}
}

// Handler serves a format's routes to a principal.
func Handler(f wire.Format, p *wire.Principal) http.Handler {
	mux := http.NewServeMux()
	for _, route := range f.Routes() {
		mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) {
			if !p.May(route.Scope) {
				f.WriteError(w, wire.Errorf(wire.CodeForbidden, "permission %s is missing", route.Scope))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, 32<<20)
			if err := route.Handle(w, r.WithContext(wire.WithPrincipal(r.Context(), p))); err != nil {
				f.WriteError(w, err)
			}
		})
	}
	return mux
}

// Serve serves a format on loopback until the test ends.
func Serve(t testing.TB, f wire.Format, p *wire.Principal) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(Handler(f, p))
	t.Cleanup(s.Close)
	return s
}

// Send sends a request and returns status, header and body of the answer.
func Send(t testing.TB, method, url, body string, header http.Header) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(answer)
}

// Ask is the marker after which a scripted reply of a harmony model starts when its prompt ends with a user's message.
func Ask(question string) string {
	return question + "<|end|><|start|>assistant"
}

// Think is a scripted harmony reply with reasoning, which may be empty, and an answer.
func Think(thoughts, answer string) string {
	say := ""
	if thoughts != "" {
		say = "<|channel|>analysis<|message|>" + thoughts + "<|end|><|start|>assistant"
	}
	return say + "<|channel|>final<|message|>" + answer + "<|return|>"
}

// Call is a scripted harmony reply that calls a function, after reasoning and a word to the user, which may both be
// empty.
func Call(thoughts, preamble, name, arguments string) string {
	say := ""
	if thoughts != "" {
		say += "<|channel|>analysis<|message|>" + thoughts + "<|end|><|start|>assistant"
	}
	if preamble != "" {
		say += "<|channel|>commentary<|message|>" + preamble + "<|end|><|start|>assistant"
	}
	return say + "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments + "<|call|>"
}
