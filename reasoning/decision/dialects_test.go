package decision_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/reasoning"
	"runner/reasoning/decision"
)

func readOne(t *testing.T, text []byte) *decision.Debrief {
	t.Helper()
	list, err := decision.Read(bytes.NewReader(text), sound(t))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d debriefs, %v", len(list), err)
	}
	return list[0]
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTraceOfTheSource reads a trace in the form of Reactive Agents. Its debrief is the example in their
// documentation.
func TestTraceOfTheSource(t *testing.T) {
	d := readOne(t, file(t, "source.jsonl"))
	var tree bytes.Buffer
	if err := d.WriteText(&tree); err != nil {
		t.Fatal(err)
	}
	object, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "source.txt", tree.Bytes())
	golden(t, "source.json", append(object, '\n'))
}

// required lists the members that events of each kind have in Reactive Agents' types, without the optional ones. A
// member is a path, a colon and its JSON type.
var required = map[decision.Kind][]string{
	decision.RunStarted:             {"task:string", "model:string", "provider:string", "config:object"},
	decision.ToolCallStart:          {"toolName:string"},
	decision.ToolCallEnd:            {"toolName:string", "ok:boolean"},
	decision.PhaseEnter:             {"phase:string", "parentRunId:string", "rootRunId:string", "depth:number"},
	decision.PhaseExit:              {"phase:string", "parentRunId:string", "rootRunId:string", "depth:number"},
	decision.DecisionEvaluated:      {"decisionType:string", "confidence:number", "reason:string", "rationale.why:string"},
	decision.AlternativesConsidered: {"chosen:string", "alternatives:array"},
	decision.AssumptionRecorded:     {"assumption:string", "rationale.why:string"},
	decision.CuratorDecision:        {"action:string", "targetRef:string", "rationale.why:string"},
	decision.StrategySwitched:       {"from:string", "to:string", "reason:string", "rationale.why:string"},
	decision.KernelStateSnapshot: {
		"status:string", "toolsUsed:array", "scratchpadKeys:array", "stepsCount:number", "stepsByType:object",
		"outputPreview:string", "outputLen:number", "tokens:number", "cost:number", "llmCalls:number", "terminatedBy:string",
		"terminationRationale.why:string",
	},
	decision.RunCompleted: {"status:string", "totalTokens:number", "totalCostUsd:number", "durationMs:number"},
}

// words are the values that the types allow.
var words = map[decision.Kind]map[string][]string{
	decision.CuratorDecision: {"action": {"kept", "dropped", "compressed", "marked-untrusted"}},
	decision.KernelStateSnapshot: {"status": {
		"thinking", "acting", "observing", "done", "failed", "evaluating", "paused",
	}},
	decision.RunCompleted: {"status": {"success", "failure", "cancelled"}},
}

// TestShapesOfTheSource compares the events of a trace with every kind with the members of the source's types.
func TestShapesOfTheSource(t *testing.T) {
	seen := map[decision.Kind]bool{}
	events := run(t, reasoning.VisibilityFull)
	late := []reasoning.Event{ // a specialist, and a reason after its call, without a confidence
		{Kind: reasoning.DelegationStart, Delegation: &reasoning.Delegation{ID: "d1"}},
		{Kind: reasoning.Decided, Call: reasoning.Call{Index: 1, ID: "c2", Name: "look_up"}, Decision: &reasoning.Decision{
			Decision: reasoning.DecisionToolSelection, Rationale: reasoning.Rationale{Why: "It is unknown."}}},
		{Kind: reasoning.DelegationEnd, Delegation: &reasoning.Delegation{ID: "d1"}},
	}
	for line := range bytes.Lines(lines(t, trace(slices.Insert(events, len(events)-1, late...)))) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		kind, _ := e["kind"].(string)
		seen[decision.Kind(kind)] = true
		base := []string{"kind:string", "runId:string", "timestamp:number", "iter:number", "seq:number"}
		for _, member := range slices.Concat(base, required[decision.Kind(kind)]) {
			path, want, _ := strings.Cut(member, ":")
			if got := jsonType(lookUp(e, path)); got != want {
				t.Errorf("%s: %s is of type %q, want %q", line, path, got, want)
			}
		}
		for name, allowed := range words[decision.Kind(kind)] {
			if word, _ := e[name].(string); !slices.Contains(allowed, word) {
				t.Errorf("%s: %s is %q, not one of %q", line, name, word, allowed)
			}
		}
	}
	for kind := range required {
		if !seen[kind] {
			t.Errorf("the trace has no %s", kind)
		}
	}
}

// lookUp returns the member of an object at a path.
func lookUp(in any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, _ := in.(map[string]any)
		in = object[name]
	}
	return in
}

func jsonType(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case bool:
		return "boolean"
	}
	return "nothing"
}

// TestCutTrace: a trace that ends within a line is read up to there. Other broken lines are refused.
func TestCutTrace(t *testing.T) {
	whole := file(t, "full.jsonl")
	first, _, _ := bytes.Cut(whole, []byte("\n"))
	for _, n := range []int{len(first) + 2, len(whole) / 2, len(whole) - 2} {
		if d := readOne(t, whole[:n]); d.RunID != "run_1" || d.Verdict != nil {
			t.Errorf("%d bytes: %+v", n, d)
		}
	}
	if _, err := decision.Read(bytes.NewReader(first[:20]), sound(t)); err == nil {
		t.Error("a part of a line is read")
	}
	for _, text := range []string{string(whole) + "oops\n", "oops\n" + string(whole)} {
		skipped := 0
		list, err := decision.Read(strings.NewReader(text), func(_ error, n int) { skipped = n })
		if err != nil || len(list) != 1 || list[0].Verdict == nil || skipped != 1 {
			t.Errorf("%.40q: %d lines skipped, %v", text, skipped, err)
		}
	}
}

// TestDialects compares how single events of the dialects are read.
func TestDialects(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"termination without a reason",
			`{"kind":"kernel-state-snapshot","runId":"r","iter":1,"terminatedBy":"stop",` +
				`"terminationRationale":null}`,
			`"termination":{"by":"stop"}`},
		{"no termination",
			`{"kind":"kernel-state-snapshot","runId":"r","iter":1,"status":"thinking"}`,
			`"termination":{"by":"unknown"}`},
		{"assumption without a reason",
			`{"kind":"assumption-recorded","runId":"r","iter":1,"assumption":"a","rationale":{"why":""}}`,
			`"assumptions":[{"iter":1,"assumption":"a","rationale":{"why":""}}]`},
		{"curator with a target",
			`{"kind":"curator-decision","runId":"r","iter":1,"action":"kept","targetRef":"obs:1",` +
				`"rationale":{"why":"b"}}`,
			`"curatorActions":[{"iter":1,"action":"kept","targetRef":"obs:1",` +
				`"rationale":{"why":"b"}}]`},
		{"strategy in words",
			`{"kind":"strategy-switched","runId":"r","iter":-1,"from":"a","to":"b","reason":"c"}`,
			`"path":[{"iter":-1,"action":"strategy:a→b","rationale":{"why":"c"}}]`},
		{"strategy with a rationale",
			`{"kind":"strategy-switched","runId":"r","iter":1,"from":"a","to":"b","reason":"c",` +
				`"rationale":{"why":"d"}}`,
			`"path":[{"iter":1,"action":"strategy:a→b","rationale":{"why":"d"}}]`},
		{"a reason before its call",
			`{"kind":"decision-evaluated","runId":"r","iter":1,"callIndex":0,"rationale":{"why":"w"}}` + "\n" +
				`{"kind":"tool-call-start","runId":"r","iter":1,"callIndex":0,"toolName":"f"}`,
			`"path":[{"iter":1,"action":"tool:f","rationale":{"why":"w"}}]`},
		{"a call by its documented name",
			`{"kind":"ToolCallStarted","runId":"r","iter":1,"toolName":"f","rationale":{"why":"w"}}`,
			`"path":[{"iter":1,"action":"tool:f","rationale":{"why":"w"}}]`},
		{"a reason of the wrong type",
			`{"kind":"tool-call-start","runId":"r","iter":1,"toolName":"f","rationale":["why"]}`,
			`"path":[{"iter":1,"action":"tool:f"}]`},
		{"a reason that is too long",
			`{"kind":"tool-call-start","runId":"r","iter":1,"toolName":"f","rationale":{"why":"` +
				strings.Repeat("é", 300) + `"}}`, `"rationale":{"why":"` + strings.Repeat("é", 280) + `"}`},
		{"members of other types",
			`{"kind":"tool-call-start","runId":"r","iter":1.0,"toolName":"f","callIndex":"x","status":[]}`,
			`"path":[{"iter":1,"action":"tool:f"}]`},
	} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(readOne(t, []byte(c.text))); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %s lacks %s", c.name, b.String(), c.want)
		}
	}
}
