//go:build unix

package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/decision"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner"
	"runner/runner/tracing"
)

const (
	canary  = "marmalade-4711"
	system  = "You are told of " + canary + "."
	asks    = "What of " + canary + "?"
	thought = "It is " + canary + " that they mean. I assume that it is a cat because of its name."
	answer  = "A cat."
)

var lookTool = chattemplate.Tool{Name: "look", Description: "looks", Parameters: []byte(`{"type":"object"}`)}

// bench is a runner with a store and the key that opens it.
type bench struct {
	*runner.Runner
	*tracing.Traces
	store    *store.Store
	dir      string
	identity *trace.Identity
	reports  []error
}

func newBench(t *testing.T, cfg store.Config) *bench {
	t.Helper()
	return newSlowBench(t, cfg, 0, nil)
}

// newSlowBench returns a bench whose model needs the given time for a step.
func newSlowBench(t *testing.T, cfg store.Config, step time.Duration,
	weights runner.Weights) *bench {
	t.Helper()
	b := &bench{dir: filepath.Join(t.TempDir(), "traces"), identity: trace.NewIdentity()}
	cfg.Recipients = []trace.Recipient{b.identity.Recipient()}
	var err error
	if b.store, err = store.Open(b.dir, cfg); err != nil {
		t.Fatal(err)
	}
	rationale := `<rationale call="1">{"why":"It knows ` + canary +
		`.","alternatives":[{"option":"to guess","rejectedBecause":"it is rude"}],"confidence":0.5}</rationale>`
	after := func(text string) string { return text + "<|end|><|start|>assistant" }
	vocab := fake.Harmony()
	delay := func(int) time.Duration { return step }
	b.Runner, err = runner.New(fake.New(fake.Config{Vocab: vocab, Delay: delay, Script: fake.Replies(vocab,
		fake.Reply{After: after(asks), Say: "<|channel|>analysis<|message|>" + thought +
			"<|end|><|start|>assistant<|channel|>final<|message|>" + answer + "<|return|>"},
		fake.Reply{After: after("Look."), Say: "<|channel|>analysis<|message|>" + thought + rationale +
			"<|end|><|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>"},
	)}), runner.Config{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	b.Traces = tracing.New(b.store, tracing.Config{Report: func(err error) { b.reports = append(b.reports, err) }})
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), b.store.Close()); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
	return b
}

func request(text string) generation.Request {
	return generation.Request{
		Messages: []chattemplate.Message{{Role: chattemplate.System, Content: system},
			{Role: chattemplate.User, Content: text}},
		Rationale: true, Tools: []chattemplate.Tool{lookTool},
	}
}

// generate runs a traced request and returns its events.
func (b *bench) generate(t *testing.T, req generation.Request) (events []reasoning.Event) {
	t.Helper()
	for e, err := range b.Generate(t.Context(), req, b.Tracer("key-1", "a test", "run_1")) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func (b *bench) open(t *testing.T, id string, with ...*trace.Identity) *trace.Reader {
	t.Helper()
	parsed, err := trace.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.store.Blob(t.Context(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(blob, with...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) records(t *testing.T, id string) (records []trace.Record) {
	t.Helper()
	for r := b.open(t, id, b.identity); ; {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		var rec trace.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
}

func traceOf(t *testing.T, events []reasoning.Event) string {
	t.Helper()
	last := events[len(events)-1]
	if last.Kind != reasoning.Done || last.Result.Trace == "" {
		t.Fatalf("it ends with %+v", last)
	}
	return last.Result.Trace
}

func TestTraceHasTheWholeRun(t *testing.T) {
	b := newBench(t, store.Config{})
	req := request(asks)
	req.Sampling.Temperature, req.Stop, req.MaxTokens = 0.5, []string{"never"}, 200
	id := traceOf(t, b.generate(t, req))
	records := b.records(t, id)
	begin, last := records[0].Begin, records[len(records)-1].End
	if begin == nil || last == nil || last.Status != trace.StatusDone {
		t.Fatalf("from %+v to %+v", records[0], records[len(records)-1])
	}
	if c := begin.Consent; c.By != "key-1" || c.How != "a test" || c.At.IsZero() || c.At.After(begin.Time) ||
		begin.Run != "run_1" || begin.Principal != "key-1" {
		t.Errorf("%+v", begin)
	}
	if begin.ModelDigest != b.Info().Digest || begin.Model != b.Info().Name {
		t.Errorf("model %q, digest %q", begin.Model, begin.ModelDigest)
	}
	for _, text := range []string{system, asks} {
		if !bytes.Contains(begin.Prompt, []byte(text)) {
			t.Errorf("the prompt is %s", begin.Prompt)
		}
	}
	for _, text := range []string{`"seed":`, `"temperature":0.5`, `"max_tokens":200`, `"stop":["never"]`} {
		if !bytes.Contains(begin.Sampling, []byte(text)) {
			t.Errorf("no %s in the sampling: %s", text, begin.Sampling)
		}
	}
	if !bytes.Contains(begin.Tools, []byte(`"name":"look"`)) {
		t.Errorf("the tools are %s", begin.Tools)
	}
	text := map[reasoning.Segment]string{}
	assumed, done := false, false
	for _, rec := range records[1 : len(records)-1] {
		switch e := rec.Event; e.Kind {
		case reasoning.SegmentDelta:
			text[e.Segment] += e.Text
		case reasoning.Assumed:
			assumed = true
		case reasoning.Done:
			done = e.Result.Usage.Completion > 0 && e.Result.Finish == reasoning.FinishStop
		}
	}
	if text[reasoning.Reasoning] != thought || text[reasoning.Answer] != answer || !assumed || !done {
		t.Errorf("%q, assumed %v, done %v", text, assumed, done)
	}
}

// TestReplay checks that a stored run replays as the decision trace of the same run with full visibility.
func TestReplay(t *testing.T) {
	b := newBench(t, store.Config{})
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
		for _, question := range []string{asks, "Look."} {
			seed := uint64(7)
			req := request(question)
			req.Seed, req.Visibility = &seed, v
			id := traceOf(t, b.generate(t, req))
			req.Visibility = reasoning.VisibilityFull
			var live, again []decision.Event
			tracer := decision.NewTracer(decision.Config{RunID: "run_1", Goal: question},
				func(e decision.Event) { live = append(live, e) })
			for e, err := range b.Generate(t.Context(), req, generation.Unobserved{}) {
				if err != nil {
					t.Fatal(err)
				}
				tracer.Push(e)
			}
			if err := tracing.Replay(b.open(t, id, b.identity),
				func(e decision.Event) { again = append(again, e) }); err != nil {
				t.Fatal(err)
			}
			if len(live) < 3 || len(live) != len(again) {
				t.Fatalf("%d events live, %d replayed", len(live), len(again))
			}
			want, got := plain(t, live), plain(t, again)
			if !bytes.Equal(want, got) {
				t.Errorf("live\n%s\nreplayed\n%s", want, got)
			}
		}
	}
}

// plain returns a debrief without its duration, which differs between two runs.
func plain(t *testing.T, events []decision.Event) []byte {
	t.Helper()
	d := decision.New(events)
	d.Verdict.DurationMS = 0
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReplayOfARunThatBrokeOff(t *testing.T) {
	b := newSlowBench(t, store.Config{}, 20*time.Millisecond, nil) // so that it does not end before it breaks off
	req := request(asks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e := range b.Generate(ctx, req, b.Tracer("local", "a test", "")) {
		if e.Kind == reasoning.Started {
			cancel()
		}
	}
	list, err := b.store.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != store.StateComplete {
		t.Fatalf("%+v, %v", list, err)
	}
	var events []decision.Event
	if err := tracing.Replay(b.open(t, list[0].ID.String(), b.identity),
		func(e decision.Event) { events = append(events, e) }); err != nil {
		t.Fatal(err)
	}
	d := decision.New(events)
	if d.RunID != list[0].ID.String() || d.Goal != asks || d.Verdict == nil ||
		d.Verdict.Status != decision.StatusCancelled {
		t.Errorf("%+v", d)
	}
}

// TestNothingInTheClear checks that no text of a run is readable in any file, while the trace is written or
// afterwards.
func TestNothingInTheClear(t *testing.T) {
	b := newBench(t, store.Config{})
	clear := func() {
		err := filepath.WalkDir(filepath.Dir(b.dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(canary)) {
				t.Errorf("%s holds it", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	req := request("Look.")
	for _, err := range b.Generate(t.Context(), req, b.Tracer("local", "a test", "")) {
		if err != nil {
			t.Fatal(err)
		}
		clear()
	}
	clear()
}

func TestStoreFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   store.Config
		spoil func(b *bench) error
		says  string
		state []store.State
	}{
		{"it is full", store.Config{MaxTotal: 1}, func(b *bench) error {
			w, err := b.store.Create(context.Background(), store.Info{})
			if err != nil {
				return err
			}
			return w.Abandon()
		}, "size limit", []store.State{store.StateCut}},
		{"the trace is too long", store.Config{MaxTrace: 3 << 10}, func(*bench) error { return nil },
			"longer than the limit", []store.State{store.StateCut}},
		{"the store fails", store.Config{}, func(b *bench) error { return b.store.Close() }, "the store failed", nil},
	} {
		b := newBench(t, c.cfg)
		if err := c.spoil(b); err != nil {
			t.Fatal(err)
		}
		req := request(asks)
		events := b.generate(t, req)
		said := slices.IndexFunc(events, func(e reasoning.Event) bool {
			return e.Kind == reasoning.Warning && e.Code == generation.CodeNotTraced && strings.Contains(e.Text, c.says) &&
				!strings.Contains(e.Text, b.dir)
		})
		last := events[len(events)-1]
		if said < 0 || last.Kind != reasoning.Done || last.Result.Trace != "" || len(b.reports) != 1 {
			t.Errorf("%s: %+v, reports %v", c.name, events, b.reports)
		}
		list, err := b.store.List(t.Context())
		if c.state == nil {
			continue
		}
		if err != nil || len(list) != len(c.state) {
			t.Fatalf("%s: %+v, %v", c.name, list, err)
		}
		for i, e := range list {
			if e.State != c.state[i] {
				t.Errorf("%s: trace %d is %s", c.name, i, e.State)
			}
		}
	}
}

// TestGoalIsTheUsers checks that a run that continues with a call's results has the user's request as its goal, not
// the tool's text.
func TestGoalIsTheUsers(t *testing.T) {
	b := newBench(t, store.Config{})
	req := request(asks)
	req.Messages = append(req.Messages,
		chattemplate.Message{Role: chattemplate.Assistant,
			ToolCalls: []chattemplate.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "c", ToolName: "look", Content: "a tool's words"})
	events := b.generate(t, req)
	goal := ""
	err := tracing.Replay(b.open(t, events[len(events)-1].Result.Trace, b.identity), func(e decision.Event) {
		if e.Task != nil {
			goal += *e.Task
		}
	})
	if err != nil || goal != asks {
		t.Errorf("goal %q, %v", goal, err)
	}
}

func TestReplayRefusesOtherRecords(t *testing.T) {
	b := newBench(t, store.Config{})
	for _, records := range [][]string{{}, {`{}`}, {`{"end":{"status":"done"}}`}, {`[]`},
		{`{"begin":{}}`, `{"begin":{}}`}} {
		w, err := b.store.Create(t.Context(), store.Info{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := w.Append([]byte(r)); err != nil {
				t.Fatal(err)
			}
		}
		id, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := tracing.Replay(b.open(t, id.String(), b.identity),
			func(decision.Event) {}); !errors.Is(err, tracing.ErrNoRun) {
			t.Errorf("%q: %v", records, err)
		}
	}
}

// Anybody can seal records for a public key, so a trace may contain anything.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"begin":{"run":"r","time":"2026-01-02T12:00:00Z","consent":{},` +
		`"model":"m","prompt":{"messages":[{"role":"user","content":"goal"}]}}}
{"ms":1,"event":{"type":"started","info":{"visibility":"none","seed":1}}}
{"ms":2,"event":{"type":"decision","call":{"index":0},` +
		`"decision":{"iteration":1,"decision":"tool-selection","rationale":{"why":"w"}}}}
{"ms":3,"event":{"type":"segment_start","segment":"tool_call","call":{"index":0,"id":"c","name":"look"}}}
{"ms":4,"event":{"type":"done","result":{"finish":"stop","usage":{},"timing":{}}}}
{"ms":5,"end":{"status":"done"}}`))
	f.Add([]byte(`{"begin":{"prompt":7}}
{"ms":-9223372036854775808,"end":{"status":"failed"}}`))
	identity := trace.NewIdentity()
	f.Fuzz(func(t *testing.T, text []byte) {
		var blob bytes.Buffer
		w, err := trace.NewWriter(&blob, trace.NewID(), []trace.Recipient{identity.Recipient()})
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSuffix(line, []byte("\n")); len(line) == 0 {
				continue
			}
			if err := w.Append(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(&blob, identity)
		if err != nil {
			t.Fatal(err)
		}
		var events []decision.Event
		if err := tracing.Replay(r, func(e decision.Event) { events = append(events, e) }); err != nil &&
			!errors.Is(err, tracing.ErrNoRun) {
			t.Fatal(err)
		}
		d := decision.New(events)
		if err := errors.Join(d.WriteText(io.Discard), d.WriteMarkdown(io.Discard)); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkRun compares runs that are traced to a disk with the same runs untraced.
func BenchmarkRun(b *testing.B) {
	vocab := fake.Harmony()
	ids := fake.Encode(vocab, "<|start|>assistant<|channel|>analysis<|message|>")
	words := fake.Encode(vocab, " and that was it")
	r, err := runner.New(fake.New(fake.Config{Vocab: vocab, ContextSize: 16384,
		Script: func(tokens []backend.Token) backend.Token {
			if i := slices.Index(ids, tokens[len(tokens)-1]); i >= 0 && i+1 < len(ids) {
				return ids[i+1]
			}
			return words[len(tokens)%len(words)]
		}}), runner.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	s, err := store.Open(filepath.Join(b.TempDir(), "traces"),
		store.Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	traces := tracing.New(s, tracing.Config{})
	const tokens = 2048
	for _, traced := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "traced"}[traced], func(b *testing.B) {
			for b.Loop() {
				req := generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: "go on"}},
					MaxTokens: tokens, AnswerReserve: -1}
				by := generation.Observer(generation.Unobserved{})
				if traced {
					by = traces.Tracer("local", "a benchmark", "")
				}
				for e, err := range r.Generate(b.Context(), req, by) {
					if err != nil {
						b.Fatal(err)
					}
					if e.Kind == reasoning.Done && (e.Result.Usage.Completion != tokens || (e.Result.Trace != "") != traced) {
						b.Fatalf("%+v", e.Result)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tokens), "us/token")
		})
	}
}
