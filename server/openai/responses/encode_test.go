package responses

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// newTestEncoder returns an encoder whose ids count up.
func newTestEncoder(carries, background bool) *encoder {
	n := 0
	e := &encoder{
		resp: &Response{ID: "resp_1", Object: "response", Status: statusInProgress, Output: []Item{}, Background: background,
			ToolChoice: json.RawMessage(`"auto"`), Text: TextEcho{Format: json.RawMessage(`{"type":"text"}`)}},
		newID:  func(prefix string) string { n++; return fmt.Sprintf("%s%d", prefix, n) },
		homeID: "rs_home", carries: carries, clock: func() int64 { return 7 },
	}
	e.To = e.take
	return e
}

var texts = []string{"a", " the", "\n\n", `"quoted"`, "<b>&", "é", "\u2028", "日本", "🙂", "\\", "\x00", "\x7f",
	strings.Repeat("long ", 40)}

func someText(r *rand.Rand) string { return texts[r.IntN(len(texts))] }

// someRun returns random events of a run: segments of the main sequence in any order, a summary at any time, and
// warnings and a switch of strategy anywhere. It follows the rules of package reasoning.
func someRun(r *rand.Rand) []reasoning.Event {
	info := &reasoning.Info{
		Visibility: reasoning.Visibility(r.IntN(3)), Effort: []reasoning.Effort{"", "none", "low"}[r.IntN(3)],
		Strategy: []reasoning.Strategy{reasoning.StrategyNative, reasoning.StrategyPosthoc}[r.IntN(2)], Seed: r.Uint64(),
	}
	events := []reasoning.Event{{Kind: reasoning.Started, Info: info}}
	logged := r.IntN(3) == 0
	var main, side []reasoning.Event
	segment := func(to *[]reasoning.Event, s reasoning.Segment, call reasoning.Call, least int) {
		*to = append(*to, reasoning.Event{Kind: reasoning.SegmentStart, Segment: s, Call: call})
		for range least + r.IntN(4) {
			e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Call: call, Text: someText(r)}
			if s == reasoning.Answer && logged {
				e.Logprobs = someLogprobs(r, e.Text)
			}
			*to = append(*to, e)
		}
		*to = append(*to, reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s, Call: call})
	}
	calls := 0
	for range r.IntN(6) {
		s := []reasoning.Segment{reasoning.Reasoning, reasoning.Preamble, reasoning.Answer, reasoning.ToolCall}[r.IntN(4)]
		var call reasoning.Call
		if s == reasoning.ToolCall {
			call = reasoning.Call{Index: calls, ID: fmt.Sprintf("call_%d", calls), Name: "f"}
			calls++
			segment(&main, s, call, 0)
			continue
		}
		segment(&main, s, call, 1)
		if s == reasoning.Reasoning && r.IntN(2) == 0 {
			value := reasoning.Event{Kind: reasoning.Sealed, Text: fmt.Sprint("sealed", len(main))}
			main = slices.Insert(main, len(main)-1, value)
		}
	}
	if info.Visibility == reasoning.VisibilitySummary && r.IntN(2) == 0 {
		segment(&side, reasoning.Summary, reasoning.Call{}, 1)
		side = append(side, reasoning.Event{Kind: reasoning.SummarySettled})
	}
	for len(main)+len(side) > 0 {
		switch from := r.IntN(8); {
		case from == 0:
			events = append(events, reasoning.Event{Kind: reasoning.Warning, Code: "w", Text: "a warning"})
		case from == 1 && r.IntN(4) == 0:
			switched := *info
			switched.Strategy = reasoning.StrategyMarkers
			events = append(events, reasoning.Event{Kind: reasoning.StrategySwitched, Info: &switched})
		case len(side) > 0 && (from < 5 || len(main) == 0):
			events, side = append(events, side[0]), side[1:]
		case len(main) > 0:
			events, main = append(events, main[0]), main[1:]
		}
	}
	result := &reasoning.Result{
		Finish: []reasoning.FinishReason{reasoning.FinishStop, reasoning.FinishLength, reasoning.FinishToolCalls}[r.IntN(3)],
		Usage: reasoning.Usage{Prompt: 3, Cached: 1, Completion: 9,
			Reasoning: 2, Summary: 4},
	}
	events = append(events, reasoning.Event{Kind: reasoning.Done, Result: result})
	seen := events[:0:0]
	for i := range events {
		if info.Visibility.Shows(&events[i]) {
			seen = append(seen, events[i])
		}
	}
	return seen
}

func someLogprobs(r *rand.Rand, text string) []reasoning.TokenLogprobs {
	token := func(text string) backend.TokenLogprob {
		p := float32(-r.Float64() * 10)
		if text == "" {
			p = float32(math.Inf(-1))
		}
		return backend.TokenLogprob{Logprob: p}
	}
	l := reasoning.TokenLogprobs{TokenLogprob: token(text), Text: text}
	for range r.IntN(3) {
		other := []string{"", "\xff", "x"}[r.IntN(3)]
		l.Top = append(l.Top, reasoning.Alternative{TokenLogprob: token(other), Text: other})
	}
	return []reasoning.TokenLogprobs{l}[:r.IntN(2)]
}

// A stream, folded by the official client's rules, equals the response without streaming. Both contain what the run's
// events say.
func TestStreamsFoldToTheResponse(t *testing.T) {
	testenv.SkipRaced(t)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		run := someRun(r)
		carries, background, breaks := r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(5) == 0
		if breaks {
			run = run[:1+r.IntN(len(run)-1)]
		}
		failure := []*wire.Error{wire.Errorf(wire.CodeInternal, "m"), wire.Errorf(wire.CodeClientCancelled,
			"c")}[r.IntN(2)]
		var events []object
		streamed, whole := newTestEncoder(carries, background), newTestEncoder(carries, background)
		streamed.emit = func(_ string, event any) error {
			events = append(events, decode(t, encode(t, event)))
			return nil
		}
		var collected generation.Collector
		for _, e := range [](*encoder){streamed, whole} {
			for i := range run {
				_ = e.push(&run[i])
			}
			if breaks {
				e.fail(failure)
			}
		}
		for _, e := range run {
			collected.Push(e)
		}
		output, last := fold(t, events)
		if got, want := encode(t, last), encode(t, clone(t, whole.resp)); got != want {
			t.Fatalf("seed %d: streamed\n%s\nat once\n%s", seed, got, want)
		}
		if got, want := encode(t, output), encode(t, last["output"]); len(output) > 0 && got != want {
			t.Fatalf("seed %d: folded\n%s\nfinal\n%s", seed, got, want)
		}
		checkTexts(t, seed, last, collected.Reply())
		checkOrder(t, seed, events)
		if carries && !breaks {
			checkSealed(t, seed, last, run)
		}
	}
}

// checkTexts compares the texts of a response with the collected texts of the events.
func checkTexts(t *testing.T, seed uint64, response object, want generation.Reply) {
	t.Helper()
	var answer, preamble, thoughts, summary strings.Builder
	calls := 0
	for _, x := range response["output"].([]any) {
		item := x.(object)
		switch item["type"] {
		case typeMessage:
			to := &answer
			if item["phase"] == phaseCommentary {
				to = &preamble
			}
			to.WriteString(partText(item, "content", 0))
		case typeReasoning:
			if _, ok := item["content"]; ok {
				thoughts.WriteString(partText(item, "content", 0))
			}
			for i := range item["summary"].([]any) {
				summary.WriteString(partText(item, "summary", i))
			}
		case typeCall:
			if c := want.Calls[calls]; item["arguments"] != clean(c.Arguments) || item["call_id"] != c.ID ||
				item["name"] != c.Name {
				t.Fatalf("seed %d: call %v, want %v", seed, item, c)
			}
			calls++
		}
	}
	got := [...]string{answer.String(), preamble.String(), thoughts.String(), summary.String()}
	all := [...]string{clean(want.Answer), clean(want.Preamble), clean(want.Reasoning), clean(want.Summary)}
	if got != all || calls != len(want.Calls) {
		t.Fatalf("seed %d: texts %q, want %q", seed, got, all)
	}
}

// clean returns a text as it is after JSON encoding.
func clean(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// checkOrder checks that each item finishes before the next begins, and that events of an item stand within it.
func checkOrder(t *testing.T, seed uint64, events []object) {
	t.Helper()
	open, next := -1.0, 0.0
	for _, e := range events {
		at, ofItem := e["output_index"].(float64)
		switch {
		case !ofItem:
		case e["type"] == "response.output_item.added":
			if open >= 0 || at != next {
				t.Fatalf("seed %d: item %v begins while %v is open, after %v", seed, at, open, next)
			}
			open, next = at, next+1
		case at != open:
			t.Fatalf("seed %d: %v is about item %v, and %v is open", seed, e["type"], at, open)
		case e["type"] == "response.output_item.done":
			open = -1
		}
	}
}

// checkSealed checks that reasoning items have the sealed values in their order.
func checkSealed(t *testing.T, seed uint64, response object, run []reasoning.Event) {
	t.Helper()
	var found, want string
	for _, e := range run {
		if e.Kind == reasoning.Sealed {
			want = seal.Join(want, e.Text)
		}
	}
	for _, x := range response["output"].([]any) {
		value, _ := x.(object)["encrypted_content"].(string)
		found = seal.Join(found, value)
	}
	if found != want {
		t.Fatalf("seed %d: sealed values %q, want %q", seed, found, want)
	}
}

func BenchmarkDelta(b *testing.B) {
	e := newTestEncoder(false, false)
	e.emit = toNobody()
	_ = e.push(&reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}})
	_ = e.push(&reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
	delta := &reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " word"}
	b.ReportAllocs()
	for b.Loop() {
		_ = e.push(delta)
		if p := e.last.text; len(p.text) > 1<<20 {
			p.text = p.text[:0]
		}
	}
}

// toNobody returns a function for a client that is not there.
func toNobody() func(string, any) error {
	enc := wire.NewJSON(io.Discard)
	return func(_ string, event any) error { return enc.Encode(event) }
}

// A delta allocates only what its text needs. Only log probabilities take more, because few requests ask for them.
func TestDeltasTakeNoMemory(t *testing.T) {
	logprobs := []reasoning.TokenLogprobs{{Text: " word", Top: []reasoning.Alternative{{Text: " w"}, {Text: "\xff"}}}}
	for name, delta := range map[string]reasoning.Event{
		"answer":    {Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " word"},
		"logprobs":  {Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " word", Logprobs: logprobs},
		"reasoning": {Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: "\"é\n"},
		"summary":   {Kind: reasoning.SegmentDelta, Segment: reasoning.Summary, Text: " word"},
		"call":      {Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Text: `{"`},
	} {
		e := newTestEncoder(false, false)
		e.emit = toNobody()
		_ = e.push(&reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{Visibility: reasoning.VisibilityFull}})
		_ = e.push(&reasoning.Event{Kind: reasoning.SegmentStart, Segment: delta.Segment})
		p := e.text()
		p.text = make([]byte, 0, 1<<20)
		if n := testenv.Allocs(func() { _ = e.push(&delta) }); n != 0 && name != "logprobs" {
			t.Errorf("%s: %v allocations a delta", name, n)
		}
	}
}

// A sealed value comes with the end of its reasoning item, before the answer begins, and the answer waits for the
// summary alone.
func TestItemsAreDoneBeforeTheAnswer(t *testing.T) {
	for visibility, want := range map[reasoning.Visibility]string{
		reasoning.VisibilityNone:    "reasoning done value, message added, delta a",
		reasoning.VisibilitySummary: "delta s, reasoning done value, message added, delta a",
		reasoning.VisibilityFull:    "delta t, reasoning done value, message added, delta a",
	} {
		e := newTestEncoder(true, false)
		var told []string
		e.emit = func(name string, event any) error {
			switch ev := event.(type) {
			case *ItemEvent:
				r, isReasoning := ev.Item.(*Reasoning)
				switch {
				case isReasoning && name == "response.output_item.done":
					told = append(told, "reasoning done "+r.EncryptedContent)
				case !isReasoning && name == "response.output_item.added":
					told = append(told, "message added")
				}
			case *PlaceEvent:
				if ev.Delta != nil {
					told = append(told, "delta "+*ev.Delta)
				}
			}
			return nil
		}
		events := []reasoning.Event{{Kind: reasoning.Started, Info: &reasoning.Info{Visibility: visibility}}}
		if visibility == reasoning.VisibilityFull {
			events = append(events, wiretest.Carried("value", wiretest.Segment(reasoning.Reasoning, "t"))...)
		} else {
			events = append(events, wiretest.Carried("value", nil)...)
		}
		answer, summary := wiretest.Segment(reasoning.Answer, "a"), wiretest.Segment(reasoning.Summary, "s")
		if visibility == reasoning.VisibilitySummary { // the two are written at the same time
			events = slices.Concat(events, answer[:2], summary, []reasoning.Event{{Kind: reasoning.SummarySettled}}, answer[2:])
		} else {
			events = append(events, answer...)
		}
		for i := range events {
			_ = e.push(&events[i])
		}
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("%v: %s, want %s", visibility, got, want)
		}
	}
}

// A summary that comes after the answer is an item after it, and does not say that the answer is complete.
func TestLateSummaries(t *testing.T) {
	for finish, want := range map[reasoning.FinishReason]string{
		reasoning.FinishLength: "message incomplete, reasoning completed",
		reasoning.FinishStop:   "message completed, reasoning completed",
	} {
		e := newTestEncoder(true, false)
		answer := wiretest.Segment(reasoning.Answer, "a")
		events := slices.Concat([]reasoning.Event{{Kind: reasoning.Started,
			Info: &reasoning.Info{Visibility: reasoning.VisibilitySummary}}}, answer[:1],
			[]reasoning.Event{{Kind: reasoning.SummarySettled}}, answer[1:], wiretest.Segment(reasoning.Summary, "s"),
			[]reasoning.Event{{Kind: reasoning.Done, Result: &reasoning.Result{Finish: finish}}})
		for i := range events {
			_ = e.push(&events[i])
		}
		var got []string
		for _, item := range e.resp.Output {
			switch item := item.(type) {
			case *Message:
				got = append(got, "message "+item.Status)
			case *Reasoning:
				if got = append(got, "reasoning "+item.Status); item.ID == "rs_home" || textOf(item.Summary) != "s" {
					t.Errorf("the summary is %+v", item)
				}
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", finish, got, want)
		}
	}
}
