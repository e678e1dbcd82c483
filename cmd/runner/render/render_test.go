package render_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/testenv"
)

func start(v reasoning.Visibility, s reasoning.Strategy) reasoning.Event {
	return reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{Model: "m", Visibility: v, Strategy: s, Seed: 1}}
}

func open(s reasoning.Segment) reasoning.Event {
	return reasoning.Event{Kind: reasoning.SegmentStart, Segment: s}
}

func text(s reasoning.Segment, t string) reasoning.Event {
	return reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: t}
}

func end(s reasoning.Segment) reasoning.Event {
	return reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s}
}

var done = reasoning.Event{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishStop}}

func play(t *testing.T, r render.Renderer, events ...reasoning.Event) {
	t.Helper()
	for _, e := range events {
		if err := r.Render(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalHoldsTheAnswerForTheSummary(t *testing.T) {
	var out bytes.Buffer
	r := render.NewTerminal(render.Streams{Out: &out, Err: io.Discard})
	events := []reasoning.Event{start(reasoning.VisibilitySummary, reasoning.StrategyNative),
		open(reasoning.Answer), text(reasoning.Answer, "4"), open(reasoning.Summary), text(reasoning.Summary, "Adding "),
		text(reasoning.Answer, "2"), end(reasoning.Answer), text(reasoning.Summary, "gives 42.")}
	for _, e := range events {
		if err := r.Render(e); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "Answer") {
			t.Fatalf("the answer came before the summary was complete: %q", out.String())
		}
	}
	for _, e := range []reasoning.Event{end(reasoning.Summary), {Kind: reasoning.SummarySettled}} {
		if err := r.Render(e); err != nil {
			t.Fatal(err)
		}
	}
	const want = "Summary of the reasoning:\nAdding gives 42.\n\nAnswer:\n42\n"
	if out.String() != want {
		t.Fatalf("after the summary: %q, want %q", out.String(), want)
	}
	play(t, r, text(reasoning.Answer, "")) // later events are not held
	if out.String() != want {
		t.Fatalf("at the end: %q, want %q", out.String(), want)
	}
}

func TestPipeKeepsSummaryAndAnswerApartInOneFile(t *testing.T) {
	var out bytes.Buffer
	r := render.NewPipe(render.Streams{Out: &out, Err: &out})
	play(t, r, start(reasoning.VisibilitySummary, reasoning.StrategyNative),
		open(reasoning.Answer), text(reasoning.Answer, "4"), open(reasoning.Summary), text(reasoning.Summary, "Adding "),
		text(reasoning.Answer, "2"), end(reasoning.Answer), text(reasoning.Summary, "gives 42."),
		end(reasoning.Summary), done)
	if want := "Summary of the reasoning:\nAdding gives 42.\n42\n"; out.String() != want {
		t.Fatalf("got %q, want %q", out.String(), want)
	}
}

func TestTerminalWithoutTheRequestedSummary(t *testing.T) {
	for _, ended := range []bool{true, false} {
		var out, errs bytes.Buffer
		r := render.NewTerminal(render.Streams{Out: &out, Err: &errs})
		events := []reasoning.Event{start(reasoning.VisibilitySummary, reasoning.StrategyNative), open(reasoning.Answer),
			text(reasoning.Answer, "42")}
		if ended {
			events = append(events, end(reasoning.Answer), reasoning.Event{Kind: reasoning.Warning,
				Code: "reasoning_unavailable", Text: "no reasoning"}, done)
		}
		play(t, r, events...)
		if out.String() != "42\n" {
			t.Errorf("ended %v: %q", ended, out.String())
		}
		if want := "runner: warning: no reasoning (reasoning_unavailable)\n"; ended && errs.String() != want {
			t.Errorf("warnings %q, want %q", errs.String(), want)
		}
	}
}

func TestPosthocSummaryIsLabelled(t *testing.T) {
	var out bytes.Buffer
	play(t, render.NewTerminal(render.Streams{Out: &out, Err: io.Discard}),
		start(reasoning.VisibilitySummary, reasoning.StrategyPosthoc),
		open(reasoning.Answer), text(reasoning.Answer, "42"), end(reasoning.Answer),
		open(reasoning.Summary), text(reasoning.Summary, "It adds up."), end(reasoning.Summary), done)
	if !strings.HasPrefix(out.String(), "Explanation, made after the answer") {
		t.Errorf("%q", out.String())
	}
}

// Wherever a run ends, the terminal is left in its plain style and at the start of a line.
func TestTerminalIsLeftClean(t *testing.T) {
	events := []reasoning.Event{start(reasoning.VisibilityFull, reasoning.StrategyNative),
		open(reasoning.Reasoning), text(reasoning.Reasoning, "\n\nhm"), end(reasoning.Reasoning),
		open(reasoning.Preamble), text(reasoning.Preamble, "look"), end(reasoning.Preamble),
		{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: reasoning.Call{Name: "f"}},
		text(reasoning.ToolCall, "{}"), end(reasoning.ToolCall),
		open(reasoning.Answer), text(reasoning.Answer, "42"), end(reasoning.Answer), done}
	for n := range events {
		var out bytes.Buffer
		play(t, render.NewTerminal(render.Streams{Out: &out, Err: io.Discard, Color: true}), events[:n]...)
		s := out.String()
		if strings.Count(s, "\x1b[2m") != strings.Count(s, "\x1b[0m") ||
			s != "" && !strings.HasSuffix(strings.TrimSuffix(s, "\x1b[0m"), "\n") {
			t.Errorf("after %d events: %q", n, s)
		}
	}
}

func TestPipePassesTheAnswerOnly(t *testing.T) {
	var out, errs bytes.Buffer
	answer := "\n\x1b[1m4\r\n2\xff"
	play(t, render.NewPipe(render.Streams{Out: &out, Err: &errs}),
		start(reasoning.VisibilityFull, reasoning.StrategyNative),
		open(reasoning.Reasoning), text(reasoning.Reasoning, "hm\x1b"), end(reasoning.Reasoning),
		open(reasoning.Answer), text(reasoning.Answer, answer), end(reasoning.Answer), done)
	if out.String() != answer+"\n" {
		t.Errorf("standard output: %q", out.String())
	}
	if want := "Reasoning:\nhm\x1b\n"; errs.String() != want {
		t.Errorf("standard error: %q, want %q", errs.String(), want)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	r := render.NewJSON(render.Streams{Out: &out})
	play(t, r, start(reasoning.VisibilityFull, reasoning.StrategyNative), open(reasoning.Answer),
		text(reasoning.Answer, "half"))
	if out.Len() > 0 {
		t.Errorf("a run that broke off wrote %q", out.String())
	}
	r = render.NewJSON(render.Streams{Out: &out})
	play(t, r, start(reasoning.VisibilityFull, reasoning.StrategyNative),
		open(reasoning.Reasoning), text(reasoning.Reasoning, "a<b"), end(reasoning.Reasoning),
		open(reasoning.Answer), text(reasoning.Answer, "4"), text(reasoning.Answer, "2"), end(reasoning.Answer), done)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["answer"] != "42" || got["reasoning"] != "a<b" || got["finish_reason"] != "stop" {
		t.Errorf("%s", out.String())
	}
	for _, key := range []string{"reasoning_summary", "reasoning_unavailable"} {
		if _, there := got[key]; there {
			t.Errorf("%s is there: %s", key, out.String())
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("plain\ttext\n")
	f.Add("\x1b[31m\x07\r\u202e\u2066\u009b1m\xff\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		c := render.Clean(s)
		if !utf8.ValidString(c) {
			t.Fatalf("Clean(%q) = %q is not UTF-8", s, c)
		}
		for _, r := range c {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Fatalf("Clean(%q) = %q has %U", s, c, r)
			}
		}
		if render.Clean(c) != c {
			t.Fatalf("Clean is not idempotent on %q", s)
		}
		if strings.ContainsAny(render.CleanLine(s), "\n\t") {
			t.Fatalf("CleanLine(%q) has lines", s)
		}
		// Cleaning a text in pieces gives the same result as cleaning it whole, wherever it is cut between runes.
		if utf8.ValidString(s) {
			var b strings.Builder
			runes := []rune(s)
			for rest := runes; len(rest) > 0; {
				n := 1 + rand.IntN(len(rest))
				b.WriteString(render.Clean(string(rest[:n])))
				rest = rest[n:]
			}
			if b.String() != c {
				t.Fatalf("Clean(%q) in pieces = %q, want %q", s, b.String(), c)
			}
		}
	})
}

// The spinner writes nothing after Stop and leaves its line empty; a nil spinner is silent.
func TestSpinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *render.Spinner
		none.Set("nothing")
		none.Stop()
		var out testenv.Buffer
		s := render.NewSpinner(&out)
		s.Stop()
		s.Set("loading")
		s.Set("thinking")
		for range 100 {
			if strings.Contains(out.String(), "thinking") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		s.Stop()
		if got := out.String(); !strings.Contains(got, "thinking") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("%q", got)
		}
		before := out.String()
		s.Stop()
		time.Sleep(150 * time.Millisecond)
		if out.String() != before {
			t.Errorf("written after Stop: %q", out.String()[len(before):])
		}
	})
}

// A terminal's lines are broken between words, also with styles. Tool calls and what goes to a pipe are not.
func TestTerminalBreaksLines(t *testing.T) {
	events := []reasoning.Event{start(reasoning.VisibilityFull, reasoning.StrategyNative),
		open(reasoning.Reasoning), text(reasoning.Reasoning, "the reaso"), text(reasoning.Reasoning, "ning is this"),
		end(reasoning.Reasoning),
		{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: reasoning.Call{Name: "f"}},
		text(reasoning.ToolCall, `{"a": "one two three"}`), end(reasoning.ToolCall),
		open(reasoning.Answer), text(reasoning.Answer, "one two three "), text(reasoning.Answer, "four"),
		end(reasoning.Answer), done}
	var out, errs bytes.Buffer
	play(t, render.NewTerminal(render.Streams{Out: &out, Err: &errs, Color: true, Width: 13}), events...)
	const want = "\x1b[2mReasoning:\nthe reasoning\nis this\x1b[0m\n\nTool call:\n  f {\"a\": \"one two three\"}\n\n" +
		"one two three\nfour\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	play(t, render.NewPipe(render.Streams{Out: &out, Err: &errs, Width: 13}), events...)
	if got := out.String(); !strings.HasSuffix(got, "one two three four\n") {
		t.Errorf("a pipe gets %q", got)
	}
}
