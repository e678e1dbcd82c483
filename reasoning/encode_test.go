package reasoning_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/reasoning"
)

func TestEventJSON(t *testing.T) {
	score := 0.0
	result := &reasoning.Result{
		Finish: reasoning.FinishStop, Detail: reasoning.DetailStopString, StopString: "END", ReasoningUnavailable: true,
		Score: &score, Trace: "00ff", Rationale: &reasoning.RationaleCount{Stated: 1, Missing: 2},
		SummarySource: "posthoc",
		Usage:         reasoning.Usage{Prompt: 1, Cached: 2, Completion: 3, Reasoning: 4, Summary: 5, Answer: 6},
		Timing: reasoning.Timing{Queue: 1, Prefill: 2 * time.Second, FirstToken: 1234567, FirstAnswer: time.Hour,
			Decode: math.MaxInt32},
	}
	lp := func(tok backend.Token, p float32) backend.TokenLogprob {
		return backend.TokenLogprob{Token: tok, Logprob: p}
	}
	for _, c := range []struct {
		event reasoning.Event
		want  string
	}{
		{reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{Model: "m", Visibility: reasoning.VisibilitySummary,
			Effort:   reasoning.EffortLow,
			Strategy: reasoning.StrategyNative, Seed: math.MaxUint64, Budget: 7, Prompt: 9}},
			`{"type":"started","info":{"model":"m","visibility":"summary","effort":"low","strategy":"native",` +
				`"seed":18446744073709551615,"budget":7,"prompt_tokens":9}}`},
		{reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: reasoning.Call{Name: "f"}},
			`{"type":"segment_start","segment":"tool_call","call":{"index":0,"name":"f"}}`},
		{reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "hi\n",
			Logprobs: []reasoning.TokenLogprobs{{
				TokenLogprob: lp(3, -0.5), Text: "\xe4",
				Top: []reasoning.Alternative{{TokenLogprob: lp(4, float32(math.Inf(-1))), Text: "x"}}}}},
			`{"type":"segment_delta","segment":"answer","text":"hi\n","logprobs":[{"token":3,"text":"\ufffd","bytes":[228],` +
				`"logprob":-0.5,"top":[{"token":4,"text":"x","logprob":null}]}]}`},
		{reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Reasoning},
			`{"type":"segment_end","segment":"reasoning"}`},
		{reasoning.Event{Kind: reasoning.Warning, Code: "c", Text: "t"}, `{"type":"warning","text":"t","code":"c"}`},
		{reasoning.Event{Kind: reasoning.StrategySwitched, Text: "t", Info: &reasoning.Info{}},
			`{"type":"strategy_switched","text":"t","info":{"visibility":"none","seed":0}}`},
		{reasoning.Event{Kind: reasoning.Decided, Call: reasoning.Call{Index: 1, ID: "c", Name: "f"},
			Decision: &reasoning.Decision{Iteration: 2, Decision: "tool-selection",
				ToolName: "f", Rationale: reasoning.Rationale{Why: "w", Refs: []string{"r"},
					Alternatives: []reasoning.Rejected{{Option: "o", Because: "b"}}, Confidence: &score}}},
			`{"type":"decision","call":{"index":1,"id":"c","name":"f"},"decision":{"iteration":2,"decision":"tool-selection",` +
				`"toolName":"f",` +
				`"rationale":{"why":"w","refs":["r"],"alternatives":[{"option":"o","rejectedBecause":"b"}],"confidence":0}}}`},
		{reasoning.Event{Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{Text: "x", Because: "y"}},
			`{"type":"assumption","assumption":{"assumption":"x","because":"y"}}`},
		{reasoning.Event{Kind: reasoning.Curated, Code: "dropped", Text: "t"},
			`{"type":"curated","text":"t","code":"dropped"}`},
		{reasoning.Event{Kind: reasoning.Done, Result: result},
			`{"type":"done","result":{"finish":"stop","detail":"stop_string","stop_string":"END","reasoning_unavailable":true,` +
				`"score":0,"trace":"00ff","rationale":{"stated":1,"missing":2},"summary_source":"posthoc",` +
				`"usage":{"prompt_tokens":1,"cached_tokens":2,"completion_tokens":3,"reasoning_tokens":4,"summary_tokens":5,` +
				`"answer_tokens":6},` +
				`"timing":{"queue_ms":0.000001,"prefill_ms":2000,"first_token_ms":1.234567,"first_answer_ms":3600000,` +
				`"decode_ms":2147.483647}}}`},
	} {
		b, err := json.Marshal(c.event)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(string(b), "1e-06", "0.000001"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		var back reasoning.Event
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		want := c.event
		if want.Info != nil && want.Info.Strategy == "" {
			back.Info.Strategy = ""
		}
		if !reflect.DeepEqual(back, want) {
			t.Errorf("%s reads as %+v", b, back)
		}
	}
	for _, bad := range []string{`{"type":"x"}`, `{"type":"done","segment":"x"}`, `{"type":1}`, `[]`,
		`{"type":"started","info":{"visibility":"all"}}`} {
		if err := json.Unmarshal([]byte(bad), new(reasoning.Event)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestParseValues(t *testing.T) {
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull} {
		if got, err := reasoning.ParseVisibility(v.String()); got != v || err != nil {
			t.Errorf("%v: %v %v", v, got, err)
		}
	}
	if _, err := reasoning.ParseVisibility("all"); err == nil || !strings.Contains(err.Error(), "none, summary, full") {
		t.Errorf("got %v", err)
	}
	if _, err := reasoning.ParseEffort("most"); err == nil ||
		!strings.Contains(err.Error(), "none, minimal, low, medium, high") {
		t.Errorf("got %v", err)
	}
	for name, want := range map[string]reasoning.Effort{
		"": reasoning.EffortDefault, "minimal": reasoning.EffortMinimal, "high": reasoning.EffortHigh,
		"xhigh": reasoning.EffortHigh, "max": reasoning.EffortHigh,
	} {
		if e, err := reasoning.ParseEffort(name); e != want || err != nil {
			t.Errorf("%q: got %v %v", name, e, err)
		}
	}
	if _, err := reasoning.ParseStrategy(strings.Repeat("é", 100)); err == nil || len(err.Error()) > 200 {
		t.Errorf("got %v", err)
	}
	if s, err := reasoning.ParseStrategy(""); s != reasoning.StrategyAuto || err != nil {
		t.Errorf("got %v %v", s, err)
	}
}
