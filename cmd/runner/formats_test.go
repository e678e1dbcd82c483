package main

import (
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// shown is what a format shows of a run.
type shown struct {
	answer string
	// thoughts is the visible reasoning or its summary.
	thoughts string
	// prompt, completion and thinking count tokens. total counts those of prompt, completion and summary. A count is 0 if
	// the format does not have it.
	prompt, completion, thinking, total int
}

// formats is a script command: formats ARGUMENT... It runs runner run with the arguments in each format. It fails if
// two formats do not show the same run.
func formats(ts *testscript.TestScript, _ bool, args []string) {
	run := func(output string) []map[string]any {
		ts.Check(ts.Exec("runner", append([]string{"run", "--output", output}, args...)...))
		if output == "text" {
			return nil
		}
		return jsonValues(ts, ts.ReadFile("stdout"))
	}
	want := readObject(ts, run("json"))
	for _, r := range []struct {
		output string
		read   func(*testscript.TestScript, []map[string]any) shown
	}{{"text", readText}, {"events", readEvents}, {"agui", readAGUI}, {"mew", readMEW}, {"decisions", readTrace}} {
		got := r.read(ts, run(r.output))
		same := words(got.answer) == words(want.answer) && words(got.thoughts) == words(want.thoughts)
		if r.output != "decisions" && !same {
			ts.Fatalf("%s shows %+v, json %+v", r.output, got, want)
		}
		for _, n := range [][2]int{{got.prompt, want.prompt}, {got.completion, want.completion},
			{got.thinking, want.thinking}, {got.total, want.total}} {
			if n[0] != 0 && n[0] != n[1] {
				ts.Fatalf("%s counts %+v, json %+v", r.output, got, want)
			}
		}
	}
}

// words returns a text with single spaces, because formats differ in white space.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func jsonValues(ts *testscript.TestScript, out string) (values []map[string]any) {
	d := json.NewDecoder(strings.NewReader(out))
	for d.More() {
		var v map[string]any
		ts.Check(d.Decode(&v))
		values = append(values, v)
	}
	return values
}

// at returns the value at a path of keys and indexes, or nil.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int {
	n, _ := v.(float64)
	return int(n)
}

func readText(ts *testscript.TestScript, _ []map[string]any) (s shown) {
	s.answer = ts.ReadFile("stdout")
	_, s.thoughts, _ = strings.Cut(ts.ReadFile("stderr"), ":\n") // after its label
	return s
}

func readObject(ts *testscript.TestScript, values []map[string]any) (s shown) {
	if len(values) != 1 {
		ts.Fatalf("%d objects", len(values))
	}
	o := values[0]
	s.answer, s.thoughts = text(o["answer"]), text(o["reasoning"])+text(o["reasoning_summary"])
	details := at(o, "usage", "completion_tokens_details")
	s.prompt, s.completion = number(at(o, "usage", "prompt_tokens")), number(at(o, "usage", "completion_tokens"))
	s.thinking, s.total = number(at(details, "reasoning_tokens")),
		s.prompt+s.completion+number(at(details, "summary_tokens"))
	if s.answer == "" || s.thinking == 0 {
		ts.Fatalf("the run has no answer or no reasoning: %+v", s)
	}
	return s
}

func readEvents(ts *testscript.TestScript, values []map[string]any) (s shown) {
	for _, v := range values {
		switch {
		case text(v["type"]) == "done":
			u := at(v, "result", "usage")
			s.prompt, s.completion, s.thinking = number(at(u, "prompt_tokens")), number(at(u, "completion_tokens")),
				number(at(u, "reasoning_tokens"))
		case text(v["type"]) != "segment_delta":
		case text(v["segment"]) == "answer":
			s.answer += text(v["text"])
		default:
			s.thoughts += text(v["text"])
		}
	}
	if s.prompt == 0 {
		ts.Fatalf("no event done")
	}
	return s
}

func readAGUI(ts *testscript.TestScript, values []map[string]any) (s shown) {
	for _, v := range values {
		switch text(v["type"]) {
		case "TEXT_MESSAGE_CONTENT":
			s.answer += text(v["delta"])
		case "REASONING_MESSAGE_CONTENT":
			s.thoughts += text(v["delta"])
		case "RUN_FINISHED":
			u := at(v, "usage", 0)
			s.prompt, s.completion, s.thinking = number(at(u, "inputTokens")), number(at(u, "outputTokens")),
				number(at(u, "reasoningTokens"))
		}
	}
	if s.prompt == 0 || text(values[0]["type"]) != "RUN_STARTED" || text(values[len(values)-1]["type"]) != "RUN_FINISHED" {
		ts.Fatalf("the run does not start or finish")
	}
	return s
}

func readMEW(_ *testscript.TestScript, values []map[string]any) (s shown) {
	for _, v := range values {
		switch {
		case text(v["kind"]) == "reasoning/thought":
			s.thoughts += text(at(v, "payload", "message")) + "\n"
		case text(v["kind"]) == "chat" && text(v["from"]) == "runner":
			s.answer += text(at(v, "payload", "text"))
		}
	}
	return s
}

func readTrace(ts *testscript.TestScript, values []map[string]any) (s shown) {
	n := len(values)
	if n < 2 || text(values[0]["kind"]) != "run-started" || text(values[n-1]["kind"]) != "run-completed" {
		ts.Fatalf("the trace does not begin or end")
	}
	s.total = number(values[n-1]["totalTokens"])
	return s
}
