package encoder

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"runner/reasoning"
	"runner/server/mew/envelope"
	"runner/server/wiretest"
)

func config() Config {
	n := 0
	return Config{
		From: "thinker", Trigger: "q1", Clock: func() time.Time { return wiretest.Today },
		NewID: func() string { n++; return fmt.Sprint("m", n) },
	}
}

func run(v reasoning.Visibility, result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
	events := []reasoning.Event{{Kind: reasoning.Started, Info: &reasoning.Info{Model: "demo", Visibility: v,
		Strategy: reasoning.StrategyNative}}}
	events = append(events, slices.Concat(parts...)...)
	return append(events, reasoning.Event{Kind: reasoning.Done, Result: &result})
}

// specialist is the events of a specialist.
func specialist(outcome reasoning.DelegationOutcome, parts ...[]reasoning.Event) []reasoning.Event {
	events := slices.Concat(parts...)
	for i := range events {
		events[i].Specialist = "d1"
	}
	begin := reasoning.Event{Kind: reasoning.DelegationStart, Delegation: &reasoning.Delegation{ID: "d1", By: "user"}}
	end := reasoning.Event{Kind: reasoning.DelegationEnd, Delegation: &reasoning.Delegation{ID: "d1", By: "user",
		Outcome: outcome}}
	return slices.Concat([]reasoning.Event{begin}, events, []reasoning.Event{end})
}

var (
	stop  = reasoning.Result{Finish: reasoning.FinishStop}
	calls = reasoning.Result{Finish: reasoning.FinishToolCalls}
)

// encode returns the envelopes of runs.
func encode(t *testing.T, cfg Config, runs ...[]reasoning.Event) []*envelope.Envelope {
	t.Helper()
	var out []*envelope.Envelope
	e := New(cfg, func(env *envelope.Envelope) error {
		if err := env.Validate(); err != nil {
			t.Fatalf("%+v: %v", env, err)
		}
		out = append(out, env)
		return nil
	})
	for _, events := range runs {
		for i := range events {
			if err := e.Push(&events[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.End(); err != nil {
		t.Fatal(err)
	}
	return out
}

func lines(t *testing.T, list []*envelope.Envelope) []byte {
	t.Helper()
	var b []byte
	for _, e := range list {
		var err error
		if b, err = e.Append(b); err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
	}
	return b
}

func TestGolden(t *testing.T) {
	thoughts := wiretest.Segment(reasoning.Reasoning, "The task is to add. Ones: 7+5=12, so",
		" I carry 1.\nTens: 1+2+1=4.")
	summary := wiretest.Segment(reasoning.Summary, "Adding the columns ", "gives 42.")
	answer := wiretest.Segment(reasoning.Answer, "17 + 25 ", "= 42.")
	score, confidence := 0.75, 0.5
	why := []reasoning.Event{{Kind: reasoning.Decided, Call: reasoning.Call{ID: "call_0", Name: "add"},
		Decision: &reasoning.Decision{
			Iteration: 1, Decision: "tool-selection", ToolName: "add", Rationale: reasoning.Rationale{Why: "It adds exactly.",
				Refs: []string{"the question"}, Confidence: &confidence},
		}}, {Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{Text: "the numbers are decimal",
		Because: "nothing else is said"}}}
	for name, c := range map[string]struct {
		change func(*Config)
		runs   [][]reasoning.Event
	}{
		"none":    {nil, [][]reasoning.Event{run(reasoning.VisibilityNone, stop, answer)}},
		"summary": {nil, [][]reasoning.Event{run(reasoning.VisibilitySummary, stop, answer[:2], summary, answer[2:])}},
		"full": {nil, [][]reasoning.Event{run(reasoning.VisibilityFull, reasoning.Result{Finish: reasoning.FinishStop,
			Score: &score}, thoughts, answer)}},
		"tools": {func(c *Config) {
			c.Route = func(f string) ([]string, string) { return []string{"calculator"}, strings.TrimPrefix(f, "calculator_") }
		}, [][]reasoning.Event{
			run(reasoning.VisibilityFull, calls, thoughts, wiretest.Segment(reasoning.Preamble, "I ask the calculator."), why,
				wiretest.CallSegment(0, "calculator_add", `{"a":17,`, `"b":25.50}`)),
			run(reasoning.VisibilityFull, stop, wiretest.Segment(reasoning.Reasoning, "It says 42."), answer),
		}},
		"proposal": {func(c *Config) {
			c.May = func(e *envelope.Envelope) bool { return e.Kind != envelope.MCPRequest }
		}, [][]reasoning.Event{run(reasoning.VisibilityNone, calls, wiretest.CallSegment(0, "add"))}},
		"nested": {func(c *Config) {
			c.Outer, c.To, c.Estimate, c.Confidence = "s1/s2", []string{"asker"}, 1500*time.Millisecond, &score
		}, [][]reasoning.Event{run(reasoning.VisibilityFull, stop, thoughts, answer)}},
		"specialist": {nil, [][]reasoning.Event{run(reasoning.VisibilityFull, stop,
			wiretest.Segment(reasoning.Reasoning, "I ask a specialist"), specialist(reasoning.DelegationReturned,
				wiretest.Segment(reasoning.Reasoning, "It is. It was"), wiretest.CallSegment(0, "add", "{}")), thoughts, answer)}},
		"specialist_hidden": {nil, [][]reasoning.Event{run(reasoning.VisibilityNone, stop,
			specialist(reasoning.DelegationLimit), answer)}},
		"cut_off": {nil, [][]reasoning.Event{run(reasoning.VisibilityFull, reasoning.Result{Finish: reasoning.FinishLength,
			ReasoningUnavailable: true})}},
		"no_mention": {func(c *Config) { c.May = func(e *envelope.Envelope) bool { return e.Kind == envelope.Chat } },
			[][]reasoning.Event{run(reasoning.VisibilityFull, stop, thoughts, answer)}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			if c.change != nil {
				c.change(&cfg)
			}
			wiretest.Golden(t, filepath.Join("testdata", name+".jsonl"), string(lines(t, encode(t, cfg, c.runs...))))
		})
	}
}

const canary = "CANARY"

// randomRun makes the unfiltered events of a run, with a canary in all of its reasoning.
func randomRun(rng *rand.Rand, v reasoning.Visibility, result reasoning.Result) []reasoning.Event {
	words := []string{"a ", "b. ", "c.", " d! ", "e\n", "3.14 ", "e.g. ", "ü", "。", "f? g", "\n\n",
		strings.Repeat("x", 500), canary + " ", "\"h.\" "}
	texts := func() (list []string) {
		for range 1 + rng.IntN(30) {
			list = append(list, words[rng.IntN(len(words))])
		}
		return list
	}
	var parts [][]reasoning.Event
	for range rng.IntN(5) {
		switch rng.IntN(6) {
		case 5:
			parts = append(parts, specialist(reasoning.DelegationReturned, wiretest.Segment(reasoning.Reasoning, texts()...),
				wiretest.Segment(reasoning.Preamble, "Wait.")))
		case 0, 1:
			parts = append(parts, wiretest.Segment(reasoning.Reasoning, texts()...))
		case 2:
			parts = append(parts, []reasoning.Event{{Kind: reasoning.Decided,
				Decision: &reasoning.Decision{Rationale: reasoning.Rationale{Why: canary}}},
				{Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{Text: canary}}})
		case 3:
			parts = append(parts, wiretest.Segment(reasoning.Preamble, "Wait."))
		case 4:
			parts = append(parts, []reasoning.Event{{Kind: reasoning.Warning, Code: "odd", Text: "it is odd"}})
		}
	}
	if result.Finish == reasoning.FinishToolCalls {
		for i := range 1 + rng.IntN(3) {
			parts = append(parts, wiretest.CallSegment(i, "f", [...]string{`{}`, ``, `{"a":{"b":1,"b":2}}`, `{"a"`, `[]`,
				strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)}[rng.IntN(6)]))
		}
	} else {
		parts = append(parts, wiretest.Segment(reasoning.Summary, canary), wiretest.Segment(reasoning.Answer, "It ", "is 4."))
	}
	return run(v, result, parts...)
}

func TestProperties(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v := reasoning.Visibility(rng.IntN(3))
		var runs [][]reasoning.Event
		for range rng.IntN(3) {
			runs = append(runs, randomRun(rng, v, calls))
		}
		runs = append(runs, randomRun(rng, v, stop))
		cfg := config()
		barred := ""
		if rng.IntN(3) == 0 {
			barred = []string{envelope.Start, envelope.Thought, envelope.Conclusion, envelope.MCPRequest,
				envelope.Chat}[rng.IntN(5)]
			cfg.May = func(e *envelope.Envelope) bool { return e.Kind != barred }
		}
		out := encode(t, cfg, runs...)
		if v == reasoning.VisibilityNone && bytes.Contains(lines(t, out), []byte(canary)) {
			t.Fatalf("seed %d: reasoning shows under none", seed)
		}
		path, inner, ended, ids, answered := "", "", false, map[string]bool{}, false
		var said strings.Builder
		for i, e := range out {
			if ids[e.ID] || e.From != "thinker" || e.Kind == barred {
				t.Fatalf("seed %d: %+v", seed, e)
			}
			ids[e.ID] = true
			switch e.Kind {
			case envelope.Start:
				if path != "" && e.Context == path && (inner == "" || barred == envelope.Conclusion) {
					inner = e.Within()
					continue
				}
				if i != 0 || e.Context != "" || !slices.Equal(e.Correlation, []string{"q1"}) {
					t.Fatalf("seed %d: start %+v at %d", seed, e, i)
				}
				path = e.ID
				continue
			case envelope.Conclusion:
				if inner != "" && e.Context == inner {
					inner = ""
					continue
				}
				if ended || inner != "" {
					t.Fatalf("seed %d: concluded twice, or before what is inside", seed)
				}
				ended = true
			case envelope.Thought:
				var step envelope.Step
				if v == reasoning.VisibilityNone || ended || path == "" || !e.Read(&step) || step.Message == "" {
					t.Fatalf("seed %d: thought %+v", seed, e)
				}
				if step.Metadata == nil {
					said.WriteString(step.Message)
				}
			case envelope.Chat:
				if e.Context == "" {
					if barred == envelope.Start && bytes.Contains(e.Payload, []byte("Wait.")) {
						continue // what is told before a call has no context then
					}
					if i != len(out)-1 || !slices.Equal(e.Correlation, []string{"q1"}) {
						t.Fatalf("seed %d: the answer is %d of %d, %+v", seed, i, len(out), e)
					}
					answered = true
					continue
				}
			}
			if e.Context != path && (inner == "" || e.Context != inner) {
				t.Fatalf("seed %d: %s is in the context %q, not %q", seed, e.Kind, e.Context, path)
			}
		}
		if answered != (barred != envelope.Chat) || ended != (path != "" && barred != envelope.Conclusion) {
			t.Fatalf("seed %d: answered %v, concluded %v, without %q", seed, answered, ended, barred)
		}
		if v == reasoning.VisibilityFull && barred != envelope.Start && barred != envelope.Thought {
			var want strings.Builder
			for _, ev := range slices.Concat(runs...) {
				if ev.Kind == reasoning.SegmentDelta && (ev.Segment == reasoning.Reasoning || ev.Segment == reasoning.Summary) {
					want.WriteString(ev.Text)
				}
			}
			if got, want := squeeze(said.String()), squeeze(want.String()); got != want {
				t.Fatalf("seed %d: the thoughts are %q, the reasoning is %q", seed, got, want)
			}
		}
	}
}

// squeeze removes white space.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func TestSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"One. Two! Three? Four":              {"One.", "Two!", "Three?", "Four"},
		"It is 3.14. So":                     {"It is 3.14.", "So"},
		"See e.g. this one. Good.":           {"See e.g. this one.", "Good."},
		"Dr. Who is in. Ask.":                {"Dr. Who is in.", "Ask."},
		"1. First.\n2. Second.\n\n":          {"1. First.", "2. Second."},
		"So 7+5 is 12. I carry 1. Next":      {"So 7+5 is 12.", "I carry 1.", "Next"},
		"He said \"no.\" Then (yes!) again.": {"He said \"no.\"", "Then (yes!)", "again."},
		"Wait... what?! No.":                 {"Wait...", "what?!", "No."},
		"一つ。二つ！三":                            {"一つ。", "二つ！", "三"},
		" \n \n":                             nil,
		"a.b.c d":                            {"a.b.c d"},
	} {
		for size := 1; size <= len(text); size++ {
			var s sentences
			var got []string
			emit := func(sentence string) { got = append(got, sentence) }
			runes := []rune(text)
			for part := range slices.Chunk(runes, size) {
				s.push(string(part), emit)
			}
			s.flush(emit)
			if !slices.Equal(got, want) {
				t.Fatalf("%q in parts of %d: %q, not %q", text, size, got, want)
			}
		}
	}
	var s sentences
	longest := 0
	for range 100 {
		s.push(strings.Repeat("ü", 333)+strings.Repeat(".", 333),
			func(sentence string) { longest = max(longest, len(sentence)) })
	}
	if len(s.text) > 2*maxSentence || longest > maxSentence || longest == 0 {
		t.Errorf("%d bytes are kept, the longest thought has %d", len(s.text), longest)
	}
}

func TestDroppedThoughtsAreReported(t *testing.T) {
	cfg := config()
	n := 0
	cfg.Admit = func() bool { n++; return n != 2 && n != 3 && n != 5 }
	out := encode(t, cfg, run(reasoning.VisibilityFull, stop,
		wiretest.Segment(reasoning.Reasoning, "A one. B two. C three. D four. E five."),
		wiretest.Segment(reasoning.Answer, "F.")))
	var got []string
	for _, e := range out {
		var step envelope.Step
		if e.Kind != envelope.Chat && e.Read(&step) && step.Metadata != nil && step.Metadata.Dropped > 0 {
			got = append(got, fmt.Sprint(e.Kind, " ", step.Message, " ", step.Metadata.Dropped))
		}
	}
	if want := []string{"reasoning/thought D four. 2", "reasoning/conclusion F. 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestCancelAndFailure(t *testing.T) {
	var kinds []string
	e := New(config(), func(env *envelope.Envelope) error { kinds = append(kinds, env.Kind); return nil })
	events := run(reasoning.VisibilityFull, stop, wiretest.Segment(reasoning.Reasoning, "A one. B two, not sent"),
		wiretest.Segment(reasoning.Answer, "C."))
	for i := range events {
		if i == 3 {
			if err := e.Cancel("cancelled", "m9"); err != nil {
				t.Fatal(err)
			}
		}
		_ = e.Push(&events[i]) // nothing fails
	}
	_ = e.Cancel("cancelled", "")
	_ = e.End()
	if want := []string{envelope.Start, envelope.Thought, envelope.Cancel}; !slices.Equal(kinds, want) {
		t.Errorf("got %q", kinds)
	}

	broken := errors.New("gone")
	sent := 0
	e = New(config(), func(*envelope.Envelope) error { sent++; return broken })
	for i := range events {
		if err := e.Push(&events[i]); !errors.Is(err, broken) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if sent != 1 {
		t.Errorf("%d envelopes were sent after the first failed", sent-1)
	}
}

func TestLongAnswersComeInParts(t *testing.T) {
	for _, part := range []string{"ü\n", "\x01"} { // JSON writes the last one as six bytes
		answer := strings.Repeat(part, 3*maxChat/len(part)-1)
		out := encode(t, config(), run(reasoning.VisibilityNone, stop, wiretest.Segment(reasoning.Answer, answer)))
		var got, again strings.Builder
		for _, e := range out {
			line, err := e.Append(nil)
			if err != nil || len(line) > envelope.MaxSize {
				t.Errorf("%q: an envelope of %d bytes, %v", part, len(line), err)
			}
			var chat envelope.ChatText
			if e.Kind == envelope.Chat && e.Read(&chat) {
				got.WriteString(chat.Text)
				again.WriteString(chat.Message)
			}
		}
		if got.String() != answer || again.String() != answer || len(out) < 4 {
			t.Errorf("%q: %d envelopes with %d and %d bytes of %d", part, len(out), got.Len(), again.Len(), len(answer))
		}
	}
}

func TestBadArgumentsAreNotSent(t *testing.T) {
	for arguments, malformed := range map[string]bool{
		``: false, ` {} `: false, `{"a":1}`: false, `{"a":1,"a":2}`: false, `[]`: true, `{"a":`: true, `null`: true,
		`{} {}`: true, `text`: true,
		strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200): true,
		`{"a":"` + strings.Repeat("x", maxCall) + `"}`:                true,
	} {
		var requests int
		e := New(config(), func(env *envelope.Envelope) error {
			if env.Kind == envelope.MCPRequest {
				requests++
			}
			return env.Validate()
		})
		events := run(reasoning.VisibilityNone, calls, wiretest.CallSegment(0, "f", arguments))
		for i := range events {
			if err := e.Push(&events[i]); err != nil {
				t.Fatalf("%.40s: %v", arguments, err)
			}
		}
		c := e.Calls()
		if len(c) != 1 || c[0].Malformed != malformed || c[0].Request == "" != malformed || requests == 1 == malformed ||
			c[0].Arguments != arguments {
			t.Errorf("%.40s: %+v, %d requests", arguments, c, requests)
		}
	}
}

// A token takes no memory except for its text.
func TestDeltasDoNotAllocate(t *testing.T) {
	e := New(config(), func(*envelope.Envelope) error { return nil })
	start := run(reasoning.VisibilityFull, stop)[0]
	if err := e.Push(&start); err != nil {
		t.Fatal(err)
	}
	e.own.thought.text = make([]byte, 0, 1<<20)
	e.answer.Grow(1 << 20)
	for _, s := range []reasoning.Segment{reasoning.Reasoning, reasoning.Answer} {
		ev := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: "w"}
		if n := testing.AllocsPerRun(1000, func() { _ = e.Push(&ev) }); n != 0 {
			t.Errorf("segment %d: %g allocations for a delta", s, n)
		}
	}
}
