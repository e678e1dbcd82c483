package cli

import "strings"

func readPipe(out string) (t outcome) {
	out, _, _ = strings.Cut(out, stderrMark)
	for _, line := range strings.SplitAfter(out, "\n") {
		if v, ok := parse(line); ok && v.has("tool_call") {
			t.calls = append(t.calls, v.text("tool_call", "name"))
			continue
		}
		t.said += line
	}
	return t
}

func readTerminal(out string) (t outcome) {
	out, _, _ = strings.Cut(out, stderrMark)
	if out != "" && !strings.HasSuffix(out, "\n") {
		t.wrongf("the last line does not end")
	}
	if on, off := strings.Count(out, "\x1b[2m"), strings.Count(out, "\x1b[0m"); on > off {
		t.wrongf("%d styles begin and %d end", on, off)
	}
	return t
}

func readObject(out string) (t outcome) {
	if out == "" {
		return t // a failed run has no object
	}
	v, ok := parse(out)
	if !ok || v.text("finish_reason") == "" {
		t.wrongf("no object that ends")
	}
	t.said, t.thoughts, t.summary = v.text("preamble")+v.text("answer"), v.text("reasoning"), v.text("reasoning_summary")
	for _, call := range v.at("tool_calls").list() {
		t.calls = append(t.calls, call.text("function", "name"))
	}
	return t
}

func readEvents(out string) (t outcome) {
	if out == "" {
		return t
	}
	open := map[string]bool{}
	for i, e := range t.frames(out) {
		t.after("an event")
		kind, segment := e.text("type"), e.text("segment")
		if (kind == "started") != (i == 0) {
			t.wrongf("event %d is %s", i, kind)
		}
		switch kind {
		case "segment_start":
			if open[segment] {
				t.wrongf("%s begins twice", segment)
			}
			open[segment] = true
			if segment == "tool_call" {
				t.calls = append(t.calls, e.text("call", "name"))
			}
		case "segment_delta", "segment_end":
			if !open[segment] {
				t.wrongf("%s of %s, which is not open", kind, segment)
			}
			if kind == "segment_end" {
				delete(open, segment)
				continue
			}
			switch segment {
			case "answer", "preamble":
				t.said += e.text("text")
			case "reasoning":
				t.thoughts += e.text("text")
			case "summary":
				t.summary += e.text("text")
			}
		case "done":
			if t.end("done"); len(open) > 0 {
				t.wrongf("open at the end: %v", open)
			}
		}
	}
	return t
}

func readTrace(out string) (t outcome) {
	if out == "" {
		t.end("error")
		return t
	}
	for i, e := range t.frames(out) {
		t.after("an event")
		if e.number("seq") != i || (e.text("kind") == "run-started") != (i == 0) {
			t.wrongf("event %d is %s with the number %d", i, e.text("kind"), e.number("seq"))
		}
		switch e.text("kind") {
		case "tool-call-start":
			t.calls = append(t.calls, e.text("toolName"))
		case "run-completed":
			t.end(map[bool]string{true: "done", false: "error"}[e.text("status") == "success"])
		}
	}
	return t
}

func readMEW(out string) (t outcome) {
	if out == "" {
		t.end("error")
		return t
	}
	open := map[string]bool{}
	for i, e := range t.frames(out) {
		kind, context := e.text("kind"), e.text("context")
		if i == 0 {
			continue // the question
		}
		switch kind {
		case "reasoning/start":
			open[strings.TrimPrefix(context+"/"+e.text("id"), "/")] = true
		case "reasoning/conclusion", "reasoning/cancel":
			if !open[context] {
				t.wrongf("%s of a context that is not open", kind)
			}
			delete(open, context)
			if !strings.Contains(context, "/") {
				t.end(map[bool]string{true: "done", false: "error"}[kind == "reasoning/conclusion"])
			}
		case "reasoning/thought":
			t.after("a thought")
			if !open[context] {
				t.wrongf("a thought outside of a context")
			}
			if !e.at("payload", "metadata").has("rationale") && !e.at("payload", "metadata").has("assumption") {
				t.thoughts += e.text("payload", "message")
			}
		case "chat":
			t.said += e.text("payload", "text")
		}
	}
	if len(open) > 0 {
		t.wrongf("open at the end: %v", open)
	}
	return t
}
