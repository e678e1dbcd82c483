package decision_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/reasoning"
	"runner/reasoning/decision"
	"runner/reasoning/filter"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// run is a run with two calls, one of them without a reason, in the form of a model's text.
func run(t *testing.T, visibility reasoning.Visibility) []reasoning.Event {
	t.Helper()
	var events []reasoning.Event
	show := func(e reasoning.Event) {
		if visibility.Shows(&e) {
			events = append(events, e)
		}
	}
	info := &reasoning.Info{Model: "m", Visibility: visibility, Effort: "medium", Strategy: reasoning.StrategyNative,
		Seed: 7, Iteration: 2}
	show(reasoning.Event{Kind: reasoning.Started, Info: info})
	show(reasoning.Event{Kind: reasoning.Curated, Code: "history-analysis-dropped",
		Text: "the reasoning of 1 earlier turn was left out of the prompt"})
	f := filter.NewRationaleFilter(filter.RationaleConfig{Iteration: 2}, show)
	segment := func(s reasoning.Segment, text string, call reasoning.Call) {
		f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: s, Call: call})
		f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Call: call, Text: text})
		f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s, Call: call})
	}
	segment(reasoning.Reasoning, "I assume the sum is wanted because it says plus.\n"+
		`<rationale call="1">{"why":"The numbers are *long*.","refs":["17","25"],"alternatives":[{"option":"the head",`+
		`"rejectedBecause":"it errs"}],"confidence":0.9}</rationale>`,
		reasoning.Call{})
	segment(reasoning.ToolCall, `{"a":17}`, reasoning.Call{ID: "c1", Name: "add"})
	segment(reasoning.ToolCall, `{}`, reasoning.Call{Index: 1, ID: "c2", Name: "look_up"})
	segment(reasoning.Answer, `<rationale call="3">{"why":"`+strings.Repeat("long ", 50)+`"}</rationale>1. Adding.`,
		reasoning.Call{})
	segment(reasoning.ToolCall, `{}`, reasoning.Call{Index: 2, ID: "c3", Name: "mul"})
	f.Finish()
	switched := *info
	switched.Strategy = reasoning.StrategyMarkers
	show(reasoning.Event{Kind: reasoning.StrategySwitched, Info: &switched, Text: "the reasoning came between markers"})
	count := f.Count()
	show(reasoning.Event{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishToolCalls,
		Rationale: &count,
		Usage:     reasoning.Usage{Prompt: 20, Completion: 50},
		Timing:    reasoning.Timing{FirstToken: 100 * time.Millisecond, Decode: 1134 * time.Millisecond}}})
	return events
}

func clock() time.Time { return time.UnixMilli(1_700_000_000_123) }

func trace(events []reasoning.Event) []decision.Event {
	var out []decision.Event
	tracer := decision.NewTracer(decision.Config{RunID: "run_1", Goal: "What is\n17 + 25?", Clock: clock},
		func(e decision.Event) { out = append(out, e) })
	for _, e := range events {
		tracer.Push(e)
	}
	tracer.End(false)
	return out
}

func lines(t *testing.T, events []decision.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range events {
		if err := e.Encode(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// sound returns a function for Read that fails the test.
func sound(t testing.TB) func(error, int) {
	return func(first error, n int) { t.Errorf("%d damaged lines: %v", n, first) }
}

// Damaged lines are skipped and counted.
func TestDamagedLines(t *testing.T) {
	var first error
	var skipped int
	debriefs, err := decision.Read(strings.NewReader(`{"kind":"run-started","runId":"a","task":"x"}
{"kind":"tool-call-start","runId":"a","toolNa
{"kind":7}
{"kind":"run-completed","runId":"a","status":"success"}
{"kind":"tool-ca`), func(err error, n int) { first, skipped = err, n })
	if err != nil || len(debriefs) != 1 || debriefs[0].Verdict == nil || len(debriefs[0].Path) != 0 {
		t.Fatalf("%+v %v", debriefs, err)
	}
	if skipped != 2 || first == nil || !strings.Contains(first.Error(), "line 2 of the trace") {
		t.Errorf("%d skipped, first %v", skipped, first)
	}
}

func TestGolden(t *testing.T) {
	for _, v := range []reasoning.Visibility{reasoning.VisibilityFull, reasoning.VisibilityNone} {
		text := lines(t, trace(run(t, v)))
		golden(t, v.String()+".jsonl", text)
		debriefs, err := decision.Read(bytes.NewReader(text), sound(t))
		if err != nil || len(debriefs) != 1 {
			t.Fatal(err)
		}
		var tree, markdown bytes.Buffer
		if err := debriefs[0].WriteText(&tree); err != nil {
			t.Fatal(err)
		}
		if err := debriefs[0].WriteMarkdown(&markdown); err != nil {
			t.Fatal(err)
		}
		object, err := json.MarshalIndent(debriefs[0], "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, v.String()+".txt", tree.Bytes())
		golden(t, v.String()+".md", markdown.Bytes())
		golden(t, v.String()+".json", append(object, '\n'))
	}
}

// TestReplay: a run that was stored as events gives the same debrief as when it ran.
func TestReplay(t *testing.T) {
	live := run(t, reasoning.VisibilityFull)
	var replayed []reasoning.Event
	for _, e := range live {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back reasoning.Event
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		replayed = append(replayed, back)
	}
	if a, b := decision.New(trace(live)), decision.New(trace(replayed)); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestHiddenReasons: if the visibility hides reasoning, the trace only counts the model's reasons.
func TestHiddenReasons(t *testing.T) {
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary} {
		events := trace(run(t, v))
		text := string(lines(t, events))
		for _, secret := range []string{"long", "errs", "wanted", "head"} {
			if strings.Contains(text, secret) {
				t.Errorf("%v shows %q:\n%s", v, secret, text)
			}
		}
		for _, e := range events {
			switch e.Kind {
			case decision.DecisionEvaluated, decision.AlternativesConsidered, decision.AssumptionRecorded:
				t.Errorf("%v shows %+v", v, e)
			case decision.ToolCallStart:
				if e.Rationale != nil {
					t.Errorf("%v shows %+v", v, e.Rationale)
				}
			}
		}
		if !strings.Contains(text, `"rationaleMissing":1`) || !strings.Contains(text, `"toolName":"look_up"`) {
			t.Errorf("%v:\n%s", v, text)
		}
	}
}

func TestOrderAndBase(t *testing.T) {
	events := trace(run(t, reasoning.VisibilityFull))
	last := events[len(events)-1]
	if events[0].Kind != decision.RunStarted || last.Kind != decision.RunCompleted ||
		events[len(events)-2].Kind != decision.KernelStateSnapshot {
		t.Errorf("%+v", events)
	}
	for i, e := range events {
		if e.Seq != i || e.RunID != "run_1" || e.Iter != 2 || e.Timestamp != 1_700_000_000_123 {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// TestReasonAmongArguments: a reason among the arguments of a call is shown at the call, like a reason before the
// call.
func TestReasonAmongArguments(t *testing.T) {
	var events []decision.Event
	keep := func(e decision.Event) { events = append(events, e) }
	tracer := decision.NewTracer(decision.Config{RunID: "r", Clock: clock}, keep)
	push := func(kind reasoning.Kind, index int, d *reasoning.Decision) {
		call := reasoning.Call{Index: index, ID: string(rune('a' + index)), Name: "f"}
		tracer.Push(reasoning.Event{Kind: kind, Segment: reasoning.ToolCall, Call: call, Decision: d})
	}
	tracer.Push(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{Iteration: 1}})
	for i, d := range []*reasoning.Decision{
		{Decision: reasoning.DecisionToolSelection, Rationale: reasoning.Rationale{Why: "first"}}, nil,
		{Decision: reasoning.DecisionToolSelection, Rationale: reasoning.Rationale{Why: "third"}},
	} {
		push(reasoning.SegmentStart, i, nil)
		push(reasoning.SegmentDelta, i, nil)
		if d != nil {
			push(reasoning.Decided, i, d)
		}
		push(reasoning.SegmentDelta, i, nil)
		push(reasoning.SegmentEnd, i, nil)
	}
	tracer.End(false)
	var said []string
	for i, e := range events {
		if e.Seq != i {
			t.Errorf("event %d has the number %d", i, e.Seq)
		}
		if e.Kind != decision.ToolCallStart {
			continue
		}
		if e.Rationale == nil {
			said = append(said, e.ToolCallID)
		} else {
			said = append(said, e.ToolCallID+" "+e.Rationale.Why)
		}
	}
	if want := []string{"a first", "b", "c third"}; !reflect.DeepEqual(said, want) {
		t.Errorf("the calls say %q, want %q", said, want)
	}
}

// A call's reason stands once: at the call, or in an event of its own if it comes too late or its call never comes.
// Such an event has a confidence even if the model stated none.
func TestReasonsStandOnce(t *testing.T) {
	stated := 0.25
	for name, c := range map[string]struct {
		before, after []reasoning.Decision
		at, own       []string
		confidence    float64
	}{
		"before the call": {before: []reasoning.Decision{{Rationale: reasoning.Rationale{Why: "early"}}},
			at: []string{"early"}},
		"after the call": {after: []reasoning.Decision{{Rationale: reasoning.Rationale{Why: "late"}}},
			at: []string{""}, own: []string{"late"}},
		"with confidence": {after: []reasoning.Decision{{Rationale: reasoning.Rationale{Why: "late", Confidence: &stated}}},
			at: []string{""}, own: []string{"late"}, confidence: stated},
		"without a call": {before: []reasoning.Decision{{Rationale: reasoning.Rationale{Why: "stray"}, Iteration: 7}},
			at: []string{""}, own: []string{"stray"}},
	} {
		var at, own []string
		tracer := decision.NewTracer(decision.Config{RunID: "r", Clock: clock}, func(e decision.Event) {
			switch e.Kind {
			case decision.ToolCallStart:
				why := ""
				if e.Rationale != nil {
					why = e.Rationale.Why
				}
				at = append(at, why)
			case decision.DecisionEvaluated:
				if own = append(own, e.Reason); *e.Confidence != c.confidence {
					t.Errorf("%s: confidence %v", name, *e.Confidence)
				}
			}
		})
		call := reasoning.Call{ID: "a", Name: "f"}
		decide := func(list []reasoning.Decision) {
			for i := range list {
				of := call
				of.Index = list[i].Iteration
				tracer.Push(reasoning.Event{Kind: reasoning.Decided, Call: of, Decision: &list[i]})
			}
		}
		tracer.Push(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{Iteration: 1}})
		decide(c.before)
		tracer.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: call})
		tracer.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.ToolCall, Call: call})
		tracer.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
		decide(c.after)
		tracer.End(false)
		if !reflect.DeepEqual(at, c.at) || !reflect.DeepEqual(own, c.own) {
			t.Errorf("%s: at the call %q, elsewhere %q", name, at, own)
		}
	}
}

// What a specialist does is a run of its own within the run, and belongs to the run's debrief.
func TestSpecialistsAreRuns(t *testing.T) {
	for name, c := range map[string]struct {
		by      string
		outcome reasoning.DelegationOutcome
		turns   int
	}{
		"by the model": {"model", reasoning.DelegationReturned, 5},
		"by the user":  {"user", reasoning.DelegationReturned, 4},
		"pending":      {"user", reasoning.DelegationPending, 3},
	} {
		var events []decision.Event
		tracer := decision.NewTracer(decision.Config{RunID: "r", Clock: clock},
			func(e decision.Event) { events = append(events, e) })
		call := reasoning.Call{ID: "a", Name: "f"}
		for _, e := range []reasoning.Event{
			{Kind: reasoning.Started, Info: &reasoning.Info{}},
			{Kind: reasoning.DelegationStart, Delegation: &reasoning.Delegation{ID: "d1", By: c.by}},
			{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: call},
			{Kind: reasoning.SegmentEnd, Segment: reasoning.ToolCall, Call: call},
			{Kind: reasoning.DelegationEnd, Delegation: &reasoning.Delegation{ID: "d1", By: c.by, Steps: 3, Outcome: c.outcome}},
			{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: strings.Repeat("\u00e9", 300)},
			{Kind: reasoning.Done, Result: &reasoning.Result{}},
		} {
			tracer.Push(e)
		}
		theirs := map[decision.Kind]bool{decision.PhaseEnter: true, decision.ToolCallStart: true, decision.ToolCallEnd: true,
			decision.PhaseExit: true}
		for _, e := range events {
			ours := e.RunID == "r/d1" && e.ParentRunID == "r" && e.RootRunID == "r" && e.Depth == 1
			if want := theirs[e.Kind]; want != ours ||
				!want && (e.RunID != "r" || e.ParentRunID != "" || e.Depth != 0) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		s := events[len(events)-2].State
		if s.LLMCalls != c.turns || s.OutputLen != 300 || *s.OutputPreview != strings.Repeat("\u00e9", 240) {
			t.Errorf("%s: %+v", name, s)
		}
		debriefs, err := decision.Read(bytes.NewReader(lines(t, events)), sound(t))
		if err != nil || len(debriefs) != 1 || debriefs[0].RunID != "r" || len(debriefs[0].Path) != 1 {
			t.Errorf("%s: %+v %v", name, debriefs, err)
		}
	}
}

func TestBrokenOffRuns(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		var events []decision.Event
		tracer := decision.NewTracer(decision.Config{RunID: "r"}, func(e decision.Event) { events = append(events, e) })
		if tracer.End(cancelled); events != nil {
			t.Errorf("%+v for a run that did not begin", events)
		}
		tracer.Push(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}})
		tracer.End(cancelled)
		tracer.End(!cancelled)
		last := events[len(events)-1]
		want, by := decision.StatusFailure, "error"
		if cancelled {
			want, by = decision.StatusCancelled, "cancelled"
		}
		if len(events) != 3 || last.Totals == nil || last.Status != want || events[1].TerminatedBy != by {
			t.Errorf("%+v", events)
		}
	}
}

func TestReadManyRuns(t *testing.T) {
	debriefs, err := decision.Read(strings.NewReader(`{"kind":"run-started","runId":"a","task":"x"}

{"kind":"run-started","runId":"b","task":"y"}
{"kind":"something-new","runId":"b","more":1}
{"kind":"tool-call-start","runId":"a","iter":1,"callIndex":0,"toolName":"f","rationale":{"why":""}}
{"kind":"alternatives-considered","runId":"a","iter":1,"callIndex":3,`+
		`"alternatives":[{"option":"o","rejectedBecause":"r"}]}
{"kind":"run-completed","runId":"a","status":"success","totalTokens":1,"rationaleMissing":1}
{"kind":"run-completed","runId":"a","status":"failure","totalTokens":2,"rationaleMissing":1}
`), sound(t))
	if err != nil || len(debriefs) != 2 || debriefs[0].RunID != "a" || debriefs[1].Goal != "y" ||
		debriefs[1].Verdict != nil {
		t.Fatalf("%+v %v", debriefs, err)
	}
	a := debriefs[0]
	if len(a.Path) != 1 || a.Path[0].Rationale != nil || len(a.Alternatives) != 1 || a.Verdict.Tokens != 3 ||
		*a.RationaleMissing != 2 {
		t.Errorf("%+v %+v", a, a.Verdict)
	}
	if a.Verdict.Status != decision.StatusFailure {
		t.Errorf("status %q", a.Verdict.Status)
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "line 1",
		"{}":                           "line 1",
		"\n{\"kind\":1}":               "line 2",
		`{"kind":"run-started"}`:       "runId",
		strings.Repeat("x", 1<<20+1):   "bytes",
		`{"kind":"started","info":{}}`: "runId",
	} {
		if _, err := decision.Read(strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

var treeLine = regexp.MustCompile(`^(├─ |│   • |│     ✗ |└─ Verdict: )`)

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"tool-call-start","runId":"a","callIndex":0,"toolName":"f","rationale":{"why":"x"}}`))
	f.Add(
		[]byte(
			"{\"kind\":\"run-completed\",\"runId\":\"a\",\"status\":\"x\"}\n{\"kind\":\"strategy-switched\",\"runId\":\"a\"," +
				"\"from\":\"a\",\"reason\":\"b\"}"))
	f.Add([]byte(`{"kind":"alternatives-considered","runId":"a","alternatives":[{}],"callIndex":-1}`))
	f.Add([]byte(`{"kind":"alternatives-considered","runId":"a","chosen":"f",` +
		`"alternatives":[{"option":"g","rejectedBecause":"h"}]}`))
	f.Add([]byte(`{"kind":"run-completed","runId":"a","status":7,"totalTokens":1e300,"durationMs":-1.5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		debriefs, err := decision.Read(bytes.NewReader(text), func(error, int) {})
		if err != nil {
			return
		}
		for _, d := range debriefs {
			var tree, markdown bytes.Buffer
			if err := d.WriteText(&tree); err != nil {
				t.Fatal(err)
			}
			if err := d.WriteMarkdown(&markdown); err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(strings.TrimSuffix(tree.String(), "\n"), "\n") {
				if i > 0 && !treeLine.MatchString(line) {
					t.Fatalf("line %q", line)
				}
			}
		}
	})
}

// TestALongTraceTakesNoLongTime: the time grows with the length of the trace, not with its square.
func TestALongTraceTakesNoLongTime(t *testing.T) {
	const n = 50_000
	line := `{"kind":"strategy-switched","runId":"r","from":"json","to":"posthoc","reason":"x"}` + "\n"
	began := time.Now()
	list, err := decision.Read(strings.NewReader(strings.Repeat(line, n)), sound(t))
	if err != nil || len(list) != 1 || len(list[0].Path) != n || list[0].Path[n-1].Rationale == nil {
		t.Fatalf("%d runs, %v", len(list), err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d lines take %v", n, took)
	}
}
