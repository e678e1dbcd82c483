package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// lines records what a stream sends.
type lines [][]byte

func (l *lines) send(_ string, v any) error {
	var b bytes.Buffer
	err := wire.NewJSON(&b).Encode(v)
	*l = append(*l, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// ticking is a clock that advances by a second at each call.
func ticking() func() time.Time {
	now := wiretest.Today
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func testHead(chat bool) head {
	return head{chat: chat, model: "demo", clock: func() time.Time { return wiretest.Today },
		began: wiretest.Today.Add(-time.Second), load: 5,
		warnings: []wire.Warning{{Code: "num_ctx", Message: "too much"}}}
}

// bothWays encodes events as a stream and as one answer.
func bothWays(t *testing.T, events []reasoning.Event, h head) (lines, []byte) {
	t.Helper()
	var l lines
	stream, whole := reply{prompt: &prompt{head: h}, send: l.send}, reply{prompt: &prompt{head: h}}
	for i := range events {
		_, _ = stream.Push(0, &events[i]), whole.Push(0, &events[i])
	}
	b, err := json.Marshal(whole.answer())
	if err != nil {
		t.Fatal(err)
	}
	return l, b
}

// reassemble handles a stream as a client does.
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

var stopped = reasoning.Result{
	Finish: reasoning.FinishStop, Usage: wiretest.Usage,
	Timing: reasoning.Timing{Prefill: 40, Decode: 60},
}

func withLogprobs() []reasoning.Event {
	events := wiretest.Segment(reasoning.Answer, "é", ".")
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
	answer := wiretest.Segment(reasoning.Answer, "It is ", "\"4\".\n")
	for name, events := range map[string][]reasoning.Event{
		"answer":   wiretest.Run(stopped, answer),
		"empty":    wiretest.Run(long),
		"thinking": wiretest.Run(stopped, wiretest.Segment(reasoning.Reasoning, "two and ", "two"), answer),
		"calls": wiretest.Run(tools, wiretest.Segment(reasoning.Preamble, "I look."),
			wiretest.CallSegment(0, "get", `{"b": 1`, `, "a": 2}`), wiretest.CallSegment(1, "now"),
			wiretest.CallSegment(2, "bad", `{"a": <`)),
		"preamble": wiretest.Run(stopped, wiretest.Segment(reasoning.Preamble, "First."), answer),
		"logprobs": wiretest.Run(stopped, withLogprobs()),
		"warning":  wiretest.Run(stopped, []reasoning.Event{{Kind: reasoning.Warning, Code: "c", Text: "w"}}, answer),
	} {
		for kind, h := range map[string]head{"chat": testHead(true), "generate": testHead(false)} {
			t.Run(name+"_"+kind, func(t *testing.T) {
				l, whole := bothWays(t, events, h)
				for ext, got := range map[string]string{".jsonl": string(bytes.Join(l, []byte("\n"))) + "\n",
					".json": string(whole) + "\n"} {
					wiretest.Golden(t, filepath.Join("testdata", name+"_"+kind+ext), got)
				}
			})
		}
	}
}

// A stream and a whole answer have the same content.
func TestStreamIsTheAnswer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		events := wiretest.RandomRun(rnd, reasoning.VisibilityFull, withLogprobs())
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

// checkTexts compares an answer with the collected texts of the events.
func checkTexts(t *testing.T, events []reasoning.Event, answer map[string]any) {
	t.Helper()
	var all generation.Collector
	for _, e := range events {
		all.Push(e)
	}
	reply := all.Reply()
	part, shown := answer, reply.Answer+reply.Preamble
	calls := 0
	for _, c := range reply.Calls {
		if _, ok := contract.Object(c.Arguments); ok {
			calls++
		} else {
			shown += c.Name + " " + c.Arguments
		}
	}
	if message, ok := answer["message"].(map[string]any); ok {
		part = message
		if list, _ := part["tool_calls"].([]any); len(list) != calls {
			t.Fatalf("%d calls of %d", len(list), calls)
		}
	}
	thinking, _ := part["thinking"].(string)
	content, _ := part["content"].(string)
	response, _ := part["response"].(string)
	valid := func(s string) string { return strings.ReplaceAll(s, "\xff", "\ufffd") }
	spoken := strings.ReplaceAll(content+response, "\n\n", "")
	if thinking != valid(reply.Reasoning) || len(spoken) != len(strings.ReplaceAll(valid(shown), "\n\n", "")) {
		t.Fatalf("the answer holds %q and %q of %+v", thinking, spoken, reply)
	}
}

// toNobody returns an answer that is streamed to nobody.
func toNobody(clock func() time.Time) *reply {
	enc := wire.NewJSON(io.Discard)
	return &reply{prompt: &prompt{head: head{chat: true, model: "demo", clock: clock}},
		send: func(_ string, v any) error { return enc.Encode(v) }}
}

// A line takes memory only for its time, which package json formats, and for log probabilities.
func TestDeltasTakeLittleMemory(t *testing.T) {
	for _, s := range []reasoning.Segment{reasoning.Answer, reasoning.Reasoning} {
		e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: " a token\n"}
		r := toNobody(ticking())
		_ = r.Push(0, &e)
		if n := testenv.Allocs(func() { _ = r.Push(0, &e) }); n > 2 {
			t.Errorf("%v: %v allocations for a delta", e.Segment, n)
		}
	}
}

func BenchmarkDelta(b *testing.B) {
	r := toNobody(time.Now)
	e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Push(0, &e)
	}
}
