package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// frames records what a stream sends.
type frames struct {
	events []string
	data   [][]byte
}

func (f *frames) send(event string, v any) error {
	var b bytes.Buffer
	err := wire.NewJSON(&b).Encode(v)
	f.events = append(f.events, event)
	f.data = append(f.data, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

func (f *frames) String() string {
	var b strings.Builder
	for i := range f.events {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", f.events[i], f.data[i])
	}
	return b.String()
}

// fakeSeal replaces a keyring, so that files can be compared.
func fakeSeal(thoughts string) (string, error) {
	return fmt.Sprintf("sealed(%q)", thoughts), nil
}

// testReply returns a reply whose values can be compared.
func testReply(p *prompt) *reply {
	r := newReply(p, "msg_1", "demo")
	r.seal = fakeSeal
	return r
}

// bothWays encodes events as a stream and as one message.
func bothWays(events []reasoning.Event, p *prompt) (*frames, Message) {
	f := &frames{}
	streamed, whole := testReply(p), testReply(p)
	streamed.send = f.send
	for i := range events {
		_, _ = streamed.Push(0, &events[i]), whole.Push(0, &events[i])
	}
	return f, whole.message
}

// reassemble handles a stream as a client does.
func reassemble(f *frames) (map[string]any, error) {
	var m map[string]any
	var blocks []map[string]any
	open := -1
	for i, data := range f.data {
		var e map[string]any
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		if e["type"] != f.events[i] {
			return nil, fmt.Errorf("frame %d is %v and is called %s", i, e["type"], f.events[i])
		}
		switch f.events[i] {
		case "message_start":
			m = e["message"].(map[string]any)
		case "content_block_start":
			if open >= 0 || int(e["index"].(float64)) != len(blocks) {
				return nil, fmt.Errorf("frame %d opens a block out of turn", i)
			}
			open = len(blocks)
			blocks = append(blocks, e["content_block"].(map[string]any))
		case "content_block_delta":
			if int(e["index"].(float64)) != open {
				return nil, fmt.Errorf("frame %d is a delta of a block that is not open", i)
			}
			delta := e["delta"].(map[string]any)
			for key, v := range delta {
				switch key {
				case "type":
				case "partial_json":
					input, _ := blocks[open]["partial"].(string)
					blocks[open]["partial"] = input + v.(string)
				default:
					blocks[open][key] = blocks[open][key].(string) + v.(string)
				}
			}
		case "content_block_stop":
			if input, ok := blocks[open]["partial"].(string); ok {
				var v any
				if err := json.Unmarshal([]byte(input), &v); err != nil {
					return nil, fmt.Errorf("input of block %d: %w", open, err)
				}
				blocks[open]["input"] = v
				delete(blocks[open], "partial")
			}
			open = -1
		case "message_delta":
			for key, v := range e["delta"].(map[string]any) {
				m[key] = v
			}
			m["usage"] = e["usage"]
			for _, field := range []string{"reasoning_info", "warnings"} {
				if v, ok := e[field]; ok {
					m[field] = v
				}
			}
		}
	}
	if n := len(f.events); n == 0 || f.events[n-1] != "message_stop" || open >= 0 {
		return nil, errors.New("the stream does not end as it should")
	}
	content := []any{}
	for _, b := range blocks {
		content = append(content, b)
	}
	m["content"] = content
	return m, nil
}

func generic(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGolden(t *testing.T) {
	stop := reasoning.Result{Finish: reasoning.FinishStop, Usage: wiretest.Usage}
	tools := reasoning.Result{Finish: reasoning.FinishToolCalls, Usage: wiretest.Usage}
	answer := wiretest.Segment(reasoning.Answer, "It is ", "\"4\".\n")
	thoughts := wiretest.Carried("value-1", wiretest.Segment(reasoning.Reasoning, "two and ", "two"))
	again := wiretest.Carried("value-2", wiretest.Segment(reasoning.Reasoning, "four"))
	hidden := wiretest.Carried("value-1", nil)
	as := func(v reasoning.Visibility, events []reasoning.Event) []reasoning.Event {
		events[0].Info.Visibility = v
		return events
	}
	summary := func(r reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
		return as(reasoning.VisibilitySummary, wiretest.Run(r, parts...))
	}
	settled := []reasoning.Event{{Kind: reasoning.SummarySettled}}
	beside := wiretest.SummaryBeside()
	for name, g := range map[string]struct {
		p      prompt
		events []reasoning.Event
	}{
		"answer":   {prompt{}, wiretest.Run(stop, answer)},
		"empty":    {prompt{}, wiretest.Run(reasoning.Result{Finish: reasoning.FinishLength, Usage: wiretest.Usage})},
		"thinking": {prompt{}, wiretest.Run(stop, thoughts, answer)},
		"interleave": {prompt{},
			wiretest.Run(tools, thoughts, wiretest.Segment(reasoning.Preamble, "I look."), again,
				wiretest.CallSegment(0, "get", `{"a"`, `:1}`), wiretest.CallSegment(1, "now"))},
		"two_thoughts": {prompt{}, wiretest.Run(stop, thoughts, again, answer)},
		"summary":      {prompt{}, summary(stop, hidden, beside)},
		"summary_call": {prompt{}, summary(tools, hidden, wiretest.CallSegment(0, "get", "{}"),
			wiretest.Segment(reasoning.Summary, "Why."), settled)},
		"posthoc": {prompt{}, summary(stop, answer[:1], settled, answer[1:],
			wiretest.Segment(reasoning.Summary, "Explained."))},
		"no_summary": {prompt{}, summary(stop, hidden, answer, settled)},
		"omitted": {prompt{}, as(reasoning.VisibilityNone,
			wiretest.Run(tools, hidden, wiretest.Segment(reasoning.Preamble, "I look."), wiretest.Carried("value-2", nil),
				wiretest.CallSegment(0, "get", `{"a":1}`)))},
		"stop": {prompt{}, wiretest.Run(reasoning.Result{Finish: reasoning.FinishStop,
			Detail: reasoning.DetailStopString, StopString: "END"}, answer)},
		"context": {prompt{}, wiretest.Run(reasoning.Result{Finish: reasoning.FinishLength,
			Detail: reasoning.DetailContextFull}, answer)},
		"broken_call": {prompt{}, wiretest.Run(tools, wiretest.CallSegment(0, "get", `{"a": <b>`))},
		"eager_call": {prompt{eager: map[string]bool{"get": true}},
			wiretest.Run(tools, wiretest.CallSegment(0, "get", `{"a"`, `:1}`))},
		"warnings": {prompt{warnings: []wire.Warning{{Code: "unknown_tool_type", Message: "left out"}}},
			wiretest.Run(stop, answer,
				[]reasoning.Event{{Kind: reasoning.Warning, Code: "malformed_header", Text: "a header is in an unusual form"}})},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := bothWays(g.events, &g.p)
			whole, err := json.MarshalIndent(m, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			for ext, got := range map[string]string{".sse": f.String(), ".json": string(whole) + "\n"} {
				wiretest.Golden(t, filepath.Join("testdata", name+ext), got)
			}
		})
	}
}

// A stream and a whole message have the same blocks.
func TestStreamIsTheMessage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		events := wiretest.RandomRun(rnd, reasoning.Visibility(rnd.IntN(3)))
		f, m := bothWays(events, &prompt{})
		got, err := reassemble(f)
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, f)
		}
		if want := generic(t, m); !reflect.DeepEqual(got, want) {
			t.Fatalf("run %d: stream gives\n%v\nand the message is\n%v", i, got, want)
		}
		checkTexts(t, events, m)
	}
}

// checkTexts compares the texts of a message with the collected texts of the events.
func checkTexts(t *testing.T, events []reasoning.Event, m Message) {
	t.Helper()
	var all generation.Collector
	for _, e := range events {
		all.Push(e)
	}
	reply := all.Reply()
	var text, thinking strings.Builder
	calls := 0
	for _, b := range m.Content {
		switch b := b.(type) {
		case *TextBlock:
			text.WriteString(b.Text)
		case *ThinkingBlock:
			thinking.WriteString(b.Thinking)
		case *ToolUseBlock:
			calls++
		}
	}
	if text.Len() != len(reply.Answer)+len(reply.Preamble) || thinking.String() != reply.Reasoning+reply.Summary ||
		calls != len(reply.Calls) {
		t.Fatalf("the blocks hold %q, %q and %d calls of %+v", text.String(), thinking.String(), calls, reply)
	}
}

func TestDeltasTakeNoMemory(t *testing.T) {
	for _, s := range []reasoning.Segment{reasoning.Answer, reasoning.Reasoning, reasoning.ToolCall} {
		r := toNobody(&prompt{eager: map[string]bool{"f": true}})
		r.text = make([]byte, 0, 1<<20)
		e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: " a token\n", Call: reasoning.Call{Name: "f"}}
		_ = r.Push(0, &e)
		if n := testenv.Allocs(func() { _ = r.Push(0, &e) }); n != 0 {
			t.Errorf("%v: %v allocations for a delta", s, n)
		}
	}
}

// toNobody returns a reply that is streamed to nobody.
func toNobody(p *prompt) *reply {
	r, enc := testReply(p), wire.NewJSON(io.Discard)
	r.send = func(_ string, v any) error { return enc.Encode(v) }
	return r
}

func BenchmarkDelta(b *testing.B) {
	r := toNobody(&prompt{})
	e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Push(0, &e)
	}
}
