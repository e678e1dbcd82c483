package openai

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

var testHead = Head{ID: "chatcmpl-1", Model: "m", SystemFingerprint: "fp_1", Created: 1}

// testOrder returns an order of a chat completion with a number of choices.
func testOrder(choices int) *chatOrder { return &chatOrder{order: order{choices: choices}} }

// framed returns a function that keeps what it gets as lines of JSON.
func framed(t testing.TB, frames *[]string) func(any) error {
	return func(v any) error {
		var b strings.Builder
		if err := wire.NewJSON(&b).Encode(v); err != nil {
			t.Fatal(err)
		}
		*frames = append(*frames, strings.TrimSuffix(b.String(), "\n"))
		return nil
	}
}

// encode makes the chunks of several choices. order says which choice is next.
func encode(t testing.TB, c *chatOrder, streams [][]reasoning.Event, order func(alive []int) int) []string {
	t.Helper()
	var frames []string
	send := framed(t, &frames)
	reply := c.reply(testHead, send)
	left := slices.Clone(streams)
	var alive []int
	for i := range streams {
		alive = append(alive, i)
	}
	for len(alive) > 0 {
		at := order(alive)
		i := alive[at]
		if err := reply.push(i, &left[i][0]); err != nil {
			t.Fatal(err)
		}
		if left[i] = left[i][1:]; len(left[i]) == 0 {
			alive = append(alive[:at:at], alive[at+1:]...)
		}
	}
	if c.usage {
		_ = send(reply.last())
	}
	return frames
}

// inTurn takes all events of the first choice, then those of the next.
func inTurn([]int) int { return 0 }

// whole returns the answer in one piece.
func whole(c *chatOrder, streams [][]reasoning.Event) *ChatCompletion {
	reply := c.reply(testHead, nil)
	for i, s := range streams {
		for j := range s {
			_ = reply.push(i, &s[j]) // without a sender there is no error
		}
	}
	return reply.complete().(*ChatCompletion)
}

// The frames of recorded runs must not change.
func TestRecordedStreams(t *testing.T) {
	if *wiretest.Update {
		record(t)
	}
	files, err := filepath.Glob("testdata/streams/*.jsonl")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d recorded streams, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg := testOrder(1)
			cfg.usage, cfg.legacy = true, strings.HasPrefix(name, "legacy")
			if strings.HasPrefix(name, "formed") {
				cfg.form = "response_format"
			}
			streams := [][]reasoning.Event{events(t, recorded)}
			frames := encode(t, cfg, streams, inTurn)
			got := strings.Join(frames, "\n") + "\n\n" + pretty(t, whole(cfg, streams)) + "\n"
			wiretest.Golden(t, strings.TrimSuffix(file, ".jsonl")+".golden", got)
			if a, b := pretty(t, assemble(t, frames)), pretty(t, whole(cfg, streams)); a != b {
				t.Errorf("the stream adds up to\n%s\nand the answer is\n%s", a, b)
			}
		})
	}
}

// generator makes streams of events that follow the rules of package reasoning.
type generator struct{ *rand.Rand }

var pieces = []string{
	"a", "word ", "\n", "\"", "\\", "é", "中文", "🙂", "\u2028", "\u2029", "\x00", "\x1b[0m", "</script>", "{\"k\":",
	"data: x\n\n", "\ufffd", "\t", "null", "\x7f",
}

func (g generator) text() string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(pieces[g.IntN(len(pieces))])
	}
	return b.String()
}

// bytes returns text that may be invalid UTF-8.
func (g generator) bytes() string { return g.text() + string([]byte{byte(g.IntN(256))}) }

func (g generator) logprob() float32 {
	switch g.IntN(8) {
	case 0:
		return float32(math.Inf(-1))
	case 1:
		return 0
	case 2:
		return -1e-9
	}
	return -g.Float32() * 30
}

func (g generator) logprobs() []reasoning.TokenLogprobs {
	list := make([]reasoning.TokenLogprobs, 1+g.IntN(2))
	for i := range list {
		list[i].Text, list[i].Logprob = g.bytes(), g.logprob()
		for range g.IntN(3) {
			var a reasoning.Alternative
			a.Text, a.Logprob = g.bytes(), g.logprob()
			list[i].Top = append(list[i].Top, a)
		}
	}
	return list
}

// stream makes the events of one run. Segments of different kinds interleave.
func (g generator) stream(logprobs bool) []reasoning.Event {
	info := func() *reasoning.Info {
		return &reasoning.Info{
			Model: "m", Visibility: reasoning.Visibility(g.IntN(3)), Effort: "low", Strategy: reasoning.StrategyNative,
			Seed: g.Uint64(), Budget: g.IntN(2) * 7,
		}
	}
	list := []reasoning.Event{{Kind: reasoning.Started, Info: info()}}
	open := map[reasoning.Segment]reasoning.Call{}
	calls := 0
	segments := []reasoning.Segment{reasoning.Reasoning, reasoning.Summary, reasoning.Preamble, reasoning.ToolCall,
		reasoning.Answer}
	end := func(s reasoning.Segment) {
		list = append(list, reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s, Call: open[s]})
		delete(open, s)
	}
	for range g.IntN(40) {
		s := segments[g.IntN(len(segments))]
		call, isOpen := open[s]
		switch {
		case !isOpen:
			if s == reasoning.ToolCall {
				call = reasoning.Call{Index: calls, ID: fmt.Sprintf("call_%d", calls), Name: g.text()}
				calls++
			}
			open[s] = call
			list = append(list, reasoning.Event{Kind: reasoning.SegmentStart, Segment: s, Call: call})
		case g.IntN(4) == 0:
			end(s)
		default:
			e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Call: call, Text: g.text()}
			if s == reasoning.Answer && logprobs {
				e.Logprobs = g.logprobs()
			}
			list = append(list, e)
		}
		switch g.IntN(20) {
		case 0:
			list = append(list, reasoning.Event{Kind: reasoning.Warning, Code: "stray_control", Text: g.text()})
		case 2:
			list = append(list, reasoning.Event{Kind: reasoning.Sealed, Text: "c2Vh"})
		case 1:
			list = append(list, reasoning.Event{Kind: reasoning.StrategySwitched, Info: info(), Text: "why"})
		}
	}
	for _, s := range segments {
		if _, isOpen := open[s]; isOpen {
			end(s)
		}
	}
	r := &reasoning.Result{
		Finish: []reasoning.FinishReason{reasoning.FinishStop, reasoning.FinishLength,
			reasoning.FinishToolCalls, ""}[g.IntN(4)],
		Detail:               []string{"", reasoning.DetailReasoningBudget, reasoning.DetailContextFull}[g.IntN(3)],
		ReasoningUnavailable: g.IntN(2) == 0, SummarySource: []string{"", "posthoc"}[g.IntN(2)],
		Usage: reasoning.Usage{Prompt: 9, Cached: g.IntN(9), Completion: g.IntN(99), Reasoning: g.IntN(9),
			Summary: g.IntN(9), Answer: 3},
	}
	if score := []float64{0, 0.25, math.NaN(), math.Inf(1)}[g.IntN(4)]; g.IntN(2) == 0 {
		r.Score = &score
	}
	return append(list, reasoning.Event{Kind: reasoning.Done, Result: r})
}

// A stream and a whole answer are two encodings of the same events, for any events.
func TestStreamsAddUpToTheAnswer(t *testing.T) {
	for seed := range uint64(1500) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		form, warnings := []string{"", "response_format"}[g.IntN(2)], []wire.Warning{{Code: "w", Message: "m"}}[:g.IntN(2)]
		streams := make([][]reasoning.Event, 1+g.IntN(3))
		cfg := testOrder(len(streams))
		cfg.usage, cfg.form, cfg.warnings = true, form, warnings
		logprobs := g.IntN(2) == 0
		for i := range streams {
			streams[i] = g.stream(logprobs)
		}
		frames := encode(t, cfg, streams, func(alive []int) int { return g.IntN(len(alive)) })
		got, want := assemble(t, frames), whole(cfg, streams)
		if a, b := pretty(t, got), pretty(t, want); a != b {
			t.Fatalf("seed %d: the stream adds up to\n%s\nand the answer is\n%s", seed, a, b)
		}
		for _, f := range frames {
			if strings.ContainsAny(f, "\n\r\u2028\u2029") {
				t.Fatalf("seed %d: a frame of more than one line: %q", seed, f)
			}
		}
	}
}

// Each of several choices says what is odd about itself. What is odd about the request stands in the answer. A single
// choice says it in the answer.
func TestRemarksBelongToTheirChoice(t *testing.T) {
	const code = "reasoning_unavailable"
	begin, end := reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}}, reasoning.Event{Kind: reasoning.Done}
	thinks, misses := end, end
	thinks.Result = &reasoning.Result{Finish: reasoning.FinishStop}
	misses.Result = &reasoning.Result{Finish: reasoning.FinishStop, ReasoningUnavailable: true}
	first := []reasoning.Event{begin, thinks}
	second := []reasoning.Event{begin, {Kind: reasoning.Warning, Code: code, Text: "m"}, misses}
	cfg := testOrder(0)
	cfg.warnings = []wire.Warning{{Code: "field_ignored", Message: "f"}}
	for _, c := range []struct {
		streams [][]reasoning.Event
		body    []string
		choices [][]string
	}{
		{[][]reasoning.Event{first, second}, []string{"field_ignored"}, [][]string{nil, {code}}},
		{[][]reasoning.Event{second, first}, []string{"field_ignored"}, [][]string{{code}, nil}},
		{[][]reasoning.Event{second}, []string{"field_ignored", code}, [][]string{nil}},
	} {
		cfg.choices = len(c.streams)
		for _, got := range []*ChatCompletion{whole(cfg, c.streams), assemble(t, encode(t, cfg, c.streams, inTurn))} {
			says := func(where string, r Remarks, want []string) {
				var codes []string
				for _, w := range r.Warnings {
					codes = append(codes, w.Code)
				}
				if !slices.Equal(codes, want) || r.ReasoningUnavailable != slices.Contains(want, code) {
					t.Errorf("%s: %+v, want %q", where, r, want)
				}
			}
			says("the answer", got.Remarks, c.body)
			for i, choice := range got.Choices {
				says(fmt.Sprint("choice ", i), choice.Remarks, c.choices[i])
			}
		}
	}
}

// Calls in the older form are sent in that form, and add up too.
func TestOlderCallsAddUp(t *testing.T) {
	call := reasoning.Call{ID: "call_1", Name: "f"}
	info := &reasoning.Info{}
	streams := [][]reasoning.Event{{
		{Kind: reasoning.Started, Info: info}, {Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: call},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Call: call, Text: `{"a":`},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Call: call, Text: `1}`},
		{Kind: reasoning.SegmentEnd, Segment: reasoning.ToolCall, Call: call},
		{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishToolCalls}},
	}}
	cfg := testOrder(1)
	cfg.legacy = true
	got := assemble(t, encode(t, cfg, streams, inTurn))
	if a, b := pretty(t, got), pretty(t, whole(cfg, streams)); a != b {
		t.Errorf("the stream adds up to\n%s\nand the answer is\n%s", a, b)
	}
	if f := got.Choices[0].Message.FunctionCall; f == nil || f.Name != "f" || f.Arguments != `{"a":1}` ||
		got.Choices[0].FinishReason != "function_call" {
		t.Errorf("the call is %+v", got.Choices[0])
	}
}

// deltas are the events that are frequent in a run.
func deltas() map[string]reasoning.Event {
	g := generator{rand.New(rand.NewPCG(1, 1))}
	call := reasoning.Call{ID: "call_1", Name: "f"}
	return map[string]reasoning.Event{
		"answer":    {Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "word \"é"},
		"logprobs":  {Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "word", Logprobs: g.logprobs()},
		"reasoning": {Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: "word\n"},
		"summary":   {Kind: reasoning.SegmentDelta, Segment: reasoning.Summary, Text: "word"},
		"preamble":  {Kind: reasoning.SegmentDelta, Segment: reasoning.Preamble, Text: "word"},
		"call":      {Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Call: call, Text: `{"a":`},
	}
}

// Only log probabilities take memory, because few requests ask for them.
func TestDeltasTakeNoMemory(t *testing.T) {
	for name, e := range deltas() {
		for kind, begin := range map[string]func(Head, func(any) error) reply{
			"chat": testOrder(1).reply, "completion": oneCompletion().reply,
		} {
			to := wire.NewJSON(io.Discard)
			reply := begin(testHead, to.Encode)
			_ = reply.push(0, &e) // package json learns the types once
			if n := testenv.Allocs(func() { _ = reply.push(0, &e) }); n != 0 && name != "logprobs" {
				t.Errorf("%s: a delta of %s takes memory %v times", kind, name, n)
			}
		}
	}
}

func oneCompletion() *completionOrder {
	return &completionOrder{order: order{choices: 1}, prompts: make([]input, 1), promptTop: -1}
}

func BenchmarkDelta(b *testing.B) {
	for name, e := range deltas() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c := testOrder(1).reply(testHead, wire.NewJSON(io.Discard).Encode)
			for b.Loop() {
				_ = c.push(0, &e)
			}
		})
	}
}

// record makes the recorded streams.
func record(t *testing.T) {
	for name, r := range recordings {
		f := start(t, Config{}, nil, r.replies...)
		var body ChatRequest
		decode(t, r.body, &body)
		c, err := f.api.readChat(wiretest.Anyone(), &body)
		if err != nil {
			t.Fatal(err)
		}
		c.req.Messages = c.talk.messages
		var out bytes.Buffer
		for e, err := range f.models.Engine.Generate(t.Context(), c.order.runs()[0].Request, generation.Unobserved{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == reasoning.Started {
				e.Info.Seed = 7
			}
			if e.Result != nil {
				e.Result.Timing = reasoning.Timing{}
			}
			line, err := e.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
		if err := os.WriteFile("testdata/streams/"+name+".jsonl", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const addTool = `"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object",` +
	`"properties":{"a":{"type":"integer"}}}}}]`

var recordings = map[string]struct {
	body    string
	replies []fake.Reply
}{
	"none": {body("hi", `"reasoning":"none"`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think("a secret thought", "Hello you.")}}},
	"full": {body("hi", `"reasoning":"full"`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think("greet \"them\"\nin \u4e2d\u6587",
			"\u4f60\u597d \U0001F642")}}},
	"summary": {body("hi", `"reasoning":"summary"`), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Think("a secret thought", "Hello you.")}, summaryReply("It greets."),
	}},
	"call": {body("hi", `"reasoning":"full",`+addTool), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Call("add it", "Let me add.", "add", `{"a": 1}`)},
	}},
	"formed_call": {body("hi", `"response_format":{"type":"json_object"},`+addTool), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Call("add it", "Let me add.", "add", `{"a": 1}`)},
	}},
	"formed": {body("hi", `"response_format":{"type":"json_object"}`), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Think("an object", `{"a": 1}`)},
	}},
	"legacy_call": {body("hi", `"functions":[{"name":"add"}]`), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Call("add it", "", "add", `{}`)},
	}},
	"logprobs": {body("hi", `"logprobs":true,"top_logprobs":2`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think("hm", "so \u00e9\u4e2d")}}},
	"length": {body("hi", `"max_tokens":12`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think("hm", strings.Repeat("on ", 50))}}},
	"nothing": {body("hi", `"max_tokens":2`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think(strings.Repeat("hm ", 50), "")}}},
	"stop": {body("hi", `"stop":"END"`), []fake.Reply{{After: wiretest.Ask("hi"),
		Say: wiretest.Think("hm END", "so END more")}}},
	"malformed": {body("hi", `"reasoning":"full"`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: "<|channel|>thoughts<|message|>hm<|end|><|start|>assistant" +
			"<|channel|>final<|message|>so<|return|>"}}},
	"unavailable": {body("hi", `"reasoning":"full"`),
		[]fake.Reply{{After: wiretest.Ask("hi"), Say: wiretest.Think("", "so")}}},
	"budget": {body("hi", `"reasoning":"full","reasoning_budget":4`), []fake.Reply{
		{After: wiretest.Ask("hi"), Say: wiretest.Think(strings.Repeat("hm ", 50), "so")},
		{Prompt: "hi", After: "<|end|><|start|>assistant", Say: "<|channel|>final<|message|>so<|return|>"},
	}},
}
