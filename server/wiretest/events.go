package wiretest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"runner/reasoning"
)

// Usage is the usage of a run.
var Usage = reasoning.Usage{Prompt: 30, Cached: 20, Completion: 12, Reasoning: 5, Answer: 4}

// Segment returns the events of a segment, with a delta for each text.
func Segment(s reasoning.Segment, texts ...string) []reasoning.Event {
	events := []reasoning.Event{{Kind: reasoning.SegmentStart, Segment: s}}
	for _, text := range texts {
		events = append(events, reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: text})
	}
	return append(events, reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s})
}

// Carried returns the events of reasoning with its sealed value before the end. Hidden reasoning has no other events.
func Carried(value string, thoughts []reasoning.Event) []reasoning.Event {
	n := max(0, len(thoughts)-1)
	return slices.Insert(slices.Clone(thoughts), n, reasoning.Event{Kind: reasoning.Sealed, Text: value})
}

// CallSegment returns the events of a call, with a delta for each part of its arguments. Its id is call_ and its index.
func CallSegment(index int, name string, arguments ...string) []reasoning.Event {
	events := Segment(reasoning.ToolCall, arguments...)
	for i := range events {
		events[i].Call = reasoning.Call{Index: index, ID: fmt.Sprintf("call_%d", index), Name: name}
	}
	return events
}

// Run returns the events of a run of the model demo: its start, parts, and its end with a result.
func Run(result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
	events := []reasoning.Event{{Kind: reasoning.Started, Info: &reasoning.Info{
		Model: "demo", Visibility: reasoning.VisibilityFull, Effort: "low", Strategy: reasoning.StrategyNative, Seed: 7,
	}}}
	for _, p := range parts {
		events = append(events, p...)
	}
	return append(events, reasoning.Event{Kind: reasoning.Done, Result: &result})
}

// SummaryBeside returns the answer "It is 4." with a summary that begins before it and ends within it.
func SummaryBeside() []reasoning.Event {
	events := append(Segment(reasoning.Summary, "It was ")[:2:2], Segment(reasoning.Answer, "It ")[:2:2]...)
	return append(events, reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Summary, Text: "added."},
		reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Summary},
		reasoning.Event{Kind: reasoning.SummarySettled},
		reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "is 4."},
		reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer})
}

// RandomRun returns a possible run with a visibility. A summary may be mixed with anything. Its texts are hard to
// encode and may be invalid UTF-8. extra are further parts that it may have.
func RandomRun(rnd *rand.Rand, v reasoning.Visibility, extra ...[]reasoning.Event) []reasoning.Event {
	var parts [][]reasoning.Event
	calls := 0
	for range rnd.IntN(6) {
		switch kind := rnd.IntN(5 + len(extra)); kind {
		case 0:
			var thoughts []reasoning.Event
			if v == reasoning.VisibilityFull {
				thoughts = Segment(reasoning.Reasoning, randomTexts(rnd)...)
			}
			if rnd.IntN(2) == 0 {
				thoughts = Carried(fmt.Sprint("sealed", len(parts)), thoughts)
			}
			parts = append(parts, thoughts)
		case 1:
			parts = append(parts, Segment(reasoning.Preamble, randomTexts(rnd)...))
		case 2:
			parts = append(parts, Segment(reasoning.Answer, randomTexts(rnd)...))
		case 3:
			arguments := [][]string{{`{"a":`, `"` + "é" + `"}`}, {"{}"}, {}, {`{"broken`}, {"[1]"}, {`{"x": {"y": [1, 2.50]}}`}}
			parts = append(parts, CallSegment(calls, "f", arguments[rnd.IntN(len(arguments))]...))
			calls++
		case 4:
			parts = append(parts, []reasoning.Event{{Kind: reasoning.Warning, Code: "c", Text: "w"}})
		default:
			parts = append(parts, extra[kind-5])
		}
	}
	r := reasoning.Result{Finish: reasoning.FinishStop, Usage: Usage,
		Timing: reasoning.Timing{Prefill: 40 * time.Nanosecond, Decode: 60 * time.Nanosecond}}
	events := Run(r, parts...)
	events[0].Info.Visibility = v
	if v != reasoning.VisibilitySummary || rnd.IntN(4) == 0 {
		return events
	}
	at := 1
	summary := append(Segment(reasoning.Summary, randomTexts(rnd)...), reasoning.Event{Kind: reasoning.SummarySettled})
	for _, e := range summary { // anywhere, but in order
		at += rnd.IntN(len(events) - at)
		events = append(events[:at:at], append([]reasoning.Event{e}, events[at:]...)...)
		at++
	}
	return events
}

func randomTexts(rnd *rand.Rand) []string {
	list := make([]string, 1+rnd.IntN(3))
	for i := range list {
		list[i] = []string{"a", "é\n", `"\`, "<b>\u2028", " 🙂 ", "\x00\x7f", "{}", "\r\n", "\xff"}[rnd.IntN(9)]
	}
	return list
}
