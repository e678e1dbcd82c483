package runner

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/readertest"
	"runner/generation"
	"runner/reasoning"
	"runner/runner/delegate"
)

const (
	thought  = "two and two are four"
	finalTag = "<|channel|>final<|message|>"
	again    = "<|start|>assistant"
)

// ask returns the marker after which a scripted reply to a user's text starts.
func ask(text string) string { return text + "<|end|><|start|>assistant" }

// think returns a reply with reasoning and an answer.
func think(reasoning, answer string) string {
	return "<|channel|>analysis<|message|>" + reasoning + "<|end|>" + again + finalTag + answer + "<|return|>"
}

// summaryReply answers the summary pass.
func summaryReply(prompt, say string) fake.Reply {
	return fake.Reply{After: prompt + "<|end|>" + again + finalTag, Say: say + "<|return|>"}
}

var began = time.Now()

// clock starts at the same date in every run. Models are told the date, and the fake model's noise depends on
// everything that it is told.
func clock() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).Add(time.Since(began)) }

// loops are the loops of runners under test.
var loops = []generation.Loop{delegate.Loop{}}

type fixture struct {
	*Runner
	model *fake.Model
}

func start(t *testing.T, cfg fake.Config, rc Config, replies ...fake.Reply) fixture {
	t.Helper()
	if cfg.Vocab == nil {
		cfg.Vocab = fake.Harmony()
	}
	if cfg.Script == nil {
		cfg.Script = fake.Replies(cfg.Vocab, replies...)
	}
	if rc.Clock == nil {
		rc.Clock = clock
	}
	rc.Loops = loops
	cfg.Record = true
	m := fake.New(cfg)
	r, err := New(m, rc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := m.OpenSequences(); n != 0 {
			t.Errorf("%d sequences leaked", n)
		}
	})
	return fixture{r, m}
}

// got is the collected outcome of a run.
type got struct {
	sealed   []string
	events   []reasoning.Event
	text     map[reasoning.Segment]string
	order    []reasoning.Kind
	calls    []reasoning.Call
	codes    []string
	warnings []string
	switched []reasoning.Strategy
	info     *reasoning.Info
	result   reasoning.Result
	err      error
}

// observes is an observer that passes what it is told to functions. Those that are nil do nothing.
type observes struct {
	generation.Unobserved
	traced  generation.Observer
	seal    func(thoughts string) (string, error)
	account func(reasoning.Usage)
	paused  func(bool)
	idle    func()
	tokens  atomic.Int64 // how many were generated
}

func (o *observes) Trace(ctx context.Context, run *generation.TracedRun) (generation.Recorder, error) {
	if o.traced == nil {
		return nil, nil
	}
	return o.traced.Trace(ctx, run)
}

func (o *observes) Seal(thoughts string) (string, error) { return o.seal(thoughts) }

func (o *observes) Account(u reasoning.Usage) {
	if o.account != nil {
		o.account(u)
	}
}

func (o *observes) Paused(now bool) {
	if o.paused != nil {
		o.paused(now)
	}
}

func (o *observes) Idle() {
	if o.idle != nil {
		o.idle()
	}
}

func (o *observes) Generated() { o.tokens.Add(1) }

// observer returns the only one of a list, or one that does nothing.
func observer(list []generation.Observer) generation.Observer {
	if len(list) == 0 {
		return generation.Unobserved{}
	}
	return list[0]
}

func collect(ctx context.Context, r *Runner, req generation.Request, by ...generation.Observer) got {
	g := got{text: map[reasoning.Segment]string{}}
	open := map[reasoning.Segment]bool{}
	for e, err := range r.Generate(ctx, req, observer(by)) {
		if err != nil {
			g.err = err
			return g
		}
		g.order, g.events = append(g.order, e.Kind), append(g.events, e)
		switch e.Kind {
		case reasoning.Started:
			g.info = e.Info
		case reasoning.SegmentStart:
			if open[e.Segment] {
				g.err = fmt.Errorf("segment %v opened twice", e.Segment)
			}
			open[e.Segment] = true
			if e.Segment == reasoning.ToolCall {
				g.calls = append(g.calls, e.Call)
			}
		case reasoning.SegmentDelta:
			if !open[e.Segment] {
				g.err = fmt.Errorf("delta outside segment %v", e.Segment)
			}
			g.text[e.Segment] += e.Text
		case reasoning.SegmentEnd:
			open[e.Segment] = false
		case reasoning.Warning:
			g.codes, g.warnings = append(g.codes, e.Code), append(g.warnings, e.Text)
		case reasoning.StrategySwitched:
			g.switched = append(g.switched, e.Info.Strategy)
		case reasoning.Sealed:
			g.sealed = append(g.sealed, e.Text)
		case reasoning.Done:
			g.result = *e.Result
		}
	}
	for s, o := range open {
		if o && g.err == nil {
			g.err = fmt.Errorf("segment %v never closed", s)
		}
	}
	return g
}

func user(text string) generation.Request {
	return generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}}
}

func (f fixture) must(t *testing.T, req generation.Request, by ...generation.Observer) got {
	t.Helper()
	g := collect(t.Context(), f.Runner, req, by...)
	if g.err != nil {
		t.Fatalf("generate: %v", g.err)
	}
	if len(g.order) < 2 || g.order[0] != reasoning.Started || g.order[len(g.order)-1] != reasoning.Done {
		t.Fatalf("events %v do not run from Started to Done", g.order)
	}
	return g
}

func (g got) want(t *testing.T, s reasoning.Segment, text string) {
	t.Helper()
	if g.text[s] != text {
		t.Errorf("%v is %q, want %q", s, g.text[s], text)
	}
}

var addTool = []chattemplate.Tool{{Name: "add",
	Parameters: []byte(`{"type":"object","properties":{"a":{"type":"number"}}}`)}}

func thinkModel() fake.Config {
	return fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}
}

// freeModel is a model whose template has no switch for reasoning, so that the model opens its reasoning itself or does
// not reason.
func freeModel() fake.Config {
	c := thinkModel()
	c.ChatTemplate = regexp.MustCompile(`\{%- if enable_thinking.*endif %\}`).ReplaceAllString(c.ChatTemplate, "")
	return c
}

// isHarmony reports whether a runner's model writes channels.
func isHarmony(r *Runner) bool { return readertest.FormatOf(r.family) == readertest.HarmonyFormat }
