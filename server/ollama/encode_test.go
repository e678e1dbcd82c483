package ollama

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"runner/reasoning"
	"runner/server/wiretest"
)

var update = flag.Bool("update", false, "write the golden files")

// lines keeps what a stream sends.
type lines [][]byte

func (l *lines) Send(_ string, data []byte) error {
	*l = append(*l, bytes.Clone(data))
	return nil
}

// ticking is a clock that goes on by a second each time.
func ticking() func() time.Time {
	now := wiretest.Today
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func testHead(chat bool) head {
	return head{chat: chat, model: "demo", clock: func() time.Time { return wiretest.Today }, began: wiretest.Today.Add(-time.Second), load: 5,
		warnings: []Warning{{"num_ctx", "too much"}}}
}

// bothWays encodes events as a stream and as one answer.
func bothWays(t *testing.T, events []reasoning.Event, h head) (lines, []byte) {
	t.Helper()
	var l lines
	c := &collector{head: h}
	stream, whole := turn{out: newEncoder(&l, h)}, turn{out: c}
	for i := range events {
		stream.push(&events[i])
		whole.push(&events[i])
	}
	b, err := json.Marshal(c.response())
	if err != nil {
		t.Fatal(err)
	}
	return l, b
}

// reassemble does what a client does with a stream.
func reassemble(l [][]byte) (map[string]any, error) {
	texts := map[string]string{}
	var calls, logprobs []any
	var m map[string]any
	for i, line := range l {
		m = nil
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("line %d: %w", i, err)
		}
		if m["done"] != (i == len(l)-1) {
			return nil, fmt.Errorf("line %d of %d is done: %v", i, len(l), m["done"])
		}
		part := m
		if message, ok := m["message"].(map[string]any); ok {
			part = message
		}
		for _, key := range []string{"content", "response", "thinking"} {
			if text, ok := part[key].(string); ok {
				texts[key] += text
			}
		}
		if list, ok := part["tool_calls"].([]any); ok {
			calls = append(calls, list...)
		}
		if list, ok := m["logprobs"].([]any); ok {
			logprobs = append(logprobs, list...)
		}
	}
	part := m
	if message, ok := m["message"].(map[string]any); ok {
		part = message
	}
	for key, text := range texts {
		if part[key] = text; text == "" && key == "thinking" {
			delete(part, key)
		}
	}
	if calls != nil {
		part["tool_calls"] = calls
	}
	if logprobs != nil {
		m["logprobs"] = logprobs
	}
	return m, nil
}

func segment(s reasoning.Segment, texts ...string) []reasoning.Event {
	events := []reasoning.Event{{Kind: reasoning.SegmentStart, Segment: s}}
	for _, text := range texts {
		events = append(events, reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: text})
	}
	return append(events, reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s})
}

func call(index int, name string, texts ...string) []reasoning.Event {
	events := segment(reasoning.ToolCall, texts...)
	for i := range events {
		events[i].Call = reasoning.Call{Index: index, ID: fmt.Sprintf("call_%d", index), Name: name}
	}
	return events
}

func run(result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
	events := []reasoning.Event{{Kind: reasoning.Started, Info: &reasoning.Info{Model: "demo"}}}
	for _, p := range parts {
		events = append(events, p...)
	}
	return append(events, reasoning.Event{Kind: reasoning.Done, Result: &result})
}

var stopped = reasoning.Result{
	Finish: reasoning.FinishStop, Usage: reasoning.Usage{Prompt: 30, Cached: 20, Completion: 12, Reasoning: 5, Answer: 4},
	Timing: reasoning.Timing{Prefill: 40, Decode: 60},
}

func withLogprobs() []reasoning.Event {
	events := segment(reasoning.Answer, "é", ".")
	for i, text := range []string{"\xc3", "\xa9", "."} {
		l := reasoning.TokenLogprobs{Text: text}
		l.Logprob = -0.5
		top := reasoning.Alternative{Text: "!"}
		top.Logprob = float32(math.Inf(-1))
		if l.Top = []reasoning.Alternative{{Text: text, TokenLogprob: l.TokenLogprob}, top}; i == 2 {
			l.Top = nil
		}
		events[1+i/2].Logprobs = append(events[1+i/2].Logprobs, l)
	}
	return events
}

func TestGolden(t *testing.T) {
	tools := stopped
	tools.Finish = reasoning.FinishToolCalls
	long := stopped
	long.Finish = reasoning.FinishLength
	answer := segment(reasoning.Answer, "It is ", "\"4\".\n")
	for name, events := range map[string][]reasoning.Event{
		"answer":   run(stopped, answer),
		"empty":    run(long),
		"thinking": run(stopped, segment(reasoning.Reasoning, "two and ", "two"), answer),
		"calls":    run(tools, segment(reasoning.Preamble, "I look."), call(0, "get", `{"b": 1`, `, "a": 2}`), call(1, "now"), call(2, "bad", `{"a": <`)),
		"preamble": run(stopped, segment(reasoning.Preamble, "First."), answer),
		"logprobs": run(stopped, withLogprobs()),
		"warning":  run(stopped, []reasoning.Event{{Kind: reasoning.Warning, Code: "c", Text: "w"}}, answer),
	} {
		for kind, h := range map[string]head{"chat": testHead(true), "generate": testHead(false)} {
			t.Run(name+"_"+kind, func(t *testing.T) {
				l, whole := bothWays(t, events, h)
				for ext, got := range map[string]string{".jsonl": string(bytes.Join(l, []byte("\n"))) + "\n", ".json": string(whole) + "\n"} {
					path := filepath.Join("testdata", name+"_"+kind+ext)
					if *update {
						if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					want, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					if got != string(want) {
						t.Errorf("%s differs:\n%s", path, got)
					}
				}
			})
		}
	}
}

// A stream and a whole answer say the same.
func TestStreamIsTheAnswer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	texts := func() []string {
		list := make([]string, 1+rnd.IntN(3))
		for i := range list {
			list[i] = []string{"a", "é\n", `"\`, "<b>\u2028", " 🙂 ", "\x00\x7f", "{}", "\xff"}[rnd.IntN(8)]
		}
		return list
	}
	for i := range 3000 {
		var parts [][]reasoning.Event
		for n := range rnd.IntN(6) {
			switch rnd.IntN(6) {
			case 0:
				parts = append(parts, segment(reasoning.Reasoning, texts()...))
			case 1:
				parts = append(parts, segment(reasoning.Preamble, texts()...))
			case 2:
				parts = append(parts, segment(reasoning.Answer, texts()...))
			case 3:
				arguments := [][]string{{`{"a":`, `"` + "é" + `"}`}, {"{}"}, {}, {`{"broken`}, {"[1]"}, {`{"x": {"y": [1, 2.50]}}`}}
				parts = append(parts, call(n, "f", arguments[rnd.IntN(len(arguments))]...))
			case 4:
				parts = append(parts, []reasoning.Event{{Kind: reasoning.Warning, Code: "c", Text: "w"}})
			case 5:
				parts = append(parts, withLogprobs())
			}
		}
		events := run(stopped, parts...)
		l, whole := bothWays(t, events, testHead(rnd.IntN(2) == 0))
		got, err := reassemble(l)
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		var want map[string]any
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("run %d: stream gives\n%v\nand the answer is\n%v", i, got, want)
		}
		checkTexts(t, events, want)
	}
}

// checkTexts holds an answer against what the events add up to.
func checkTexts(t *testing.T, events []reasoning.Event, answer map[string]any) {
	t.Helper()
	var all reasoning.Collector
	for _, e := range events {
		all.Push(e)
	}
	reply := all.Reply()
	part := answer
	if message, ok := answer["message"].(map[string]any); ok {
		part = message
		calls, _ := part["tool_calls"].([]any)
		if len(calls) != len(reply.Calls) {
			t.Fatalf("%d calls of %d", len(calls), len(reply.Calls))
		}
	}
	thinking, _ := part["thinking"].(string)
	content, _ := part["content"].(string)
	response, _ := part["response"].(string)
	valid := func(s string) string { return strings.ReplaceAll(s, "\xff", "\ufffd") }
	spoken := strings.ReplaceAll(content+response, "\n\n", "")
	if thinking != valid(reply.Reasoning) || len(spoken) != len(valid(reply.Answer+reply.Preamble)) {
		t.Fatalf("the answer holds %q and %q of %+v", thinking, spoken, reply)
	}
}

type nowhere struct{}

func (nowhere) Send(string, []byte) error { return nil }

func TestDeltasTakeNoMemory(t *testing.T) {
	for _, e := range []reasoning.Event{
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " a token\n"},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: " a token\n"},
		withLogprobs()[1],
	} {
		tn := turn{out: newEncoder(nowhere{}, head{chat: true, model: "demo", clock: ticking()})}
		tn.push(&e)
		if n := testing.AllocsPerRun(1000, func() { tn.push(&e) }); n != 0 {
			t.Errorf("%v: %v allocations for a delta", e.Segment, n)
		}
	}
}

func BenchmarkDelta(b *testing.B) {
	t := turn{out: newEncoder(nowhere{}, head{chat: true, model: "demo", clock: time.Now})}
	e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		t.push(&e)
	}
}
