package cli

import (
	"encoding/json"
	"strings"
)

// value is any JSON value, with methods to look into it.
type value struct{ any }

func parse(s string) (value, bool) {
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	err := d.Decode(&v)
	return value{v}, err == nil
}

// at returns the value at a path of keys.
func (v value) at(keys ...string) value {
	for _, k := range keys {
		m, _ := v.any.(map[string]any)
		v = value{m[k]}
	}
	return v
}

func (v value) list() (out []value) {
	l, _ := v.any.([]any)
	for _, e := range l {
		out = append(out, value{e})
	}
	return out
}

func (v value) text(keys ...string) string {
	s, _ := v.at(keys...).any.(string)
	return s
}

func (v value) number(keys ...string) int {
	n, _ := v.at(keys...).any.(float64)
	return int(n)
}

func (v value) has(key string) bool { return v.at(key).any != nil }

// frames returns the data of server-sent events, or the lines of anything else.
func (t *outcome) frames(out string) (list []value) {
	sse := strings.HasPrefix(out, "data: ") || strings.HasPrefix(out, "event: ")
	name := ""
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if sse {
			if n, ok := strings.CutPrefix(line, "event: "); ok {
				name = n
				continue
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				if line != "" {
					t.wrongf("the line %q", line)
				}
				continue
			}
			line = data
		}
		if line == "[DONE]" {
			list = append(list, value{"[DONE]"})
			continue
		}
		v, ok := parse(line)
		if !ok {
			t.wrongf("%q is not JSON", line)
		}
		if name != "" && v.text("type") != name {
			t.wrongf("event %s is called %s", v.text("type"), name)
		}
		list, name = append(list, v), ""
	}
	return list
}

// end records the end of the run. A second end is an error.
func (t *outcome) end(how string) {
	if t.ending != "" {
		t.wrongf("it ends with %s after %s", how, t.ending)
	}
	t.ending = how
}

// after reports something that comes after the end of the run.
func (t *outcome) after(what string) {
	if t.ending != "" {
		t.wrongf("%s after the end", what)
	}
}

func readChat(out string) (t outcome) {
	v, _ := parse(out)
	if v.has("error") {
		t.end("error")
		return t
	}
	for _, c := range v.at("choices").list() {
		t.end("done")
		if c.text("finish_reason") == "" {
			t.wrongf("no finish_reason")
		}
		m := c.at("message")
		t.said, t.thoughts, t.summary = m.text("content")+c.text("text"), m.text("reasoning"), m.text("reasoning_summary")
		if m.text("reasoning") != m.text("reasoning_content") {
			t.wrongf("reasoning and reasoning_content differ")
		}
		for _, call := range m.at("tool_calls").list() {
			t.calls = append(t.calls, call.text("function", "name"))
		}
	}
	return t
}

func readChatStream(out string) (t outcome) {
	if !strings.HasPrefix(out, "data: ") {
		return readChat(out)
	}
	frames := t.frames(out)
	if last := frames[len(frames)-1]; last.any != "[DONE]" {
		t.wrongf("the last frame is not [DONE]")
	}
	choices := map[int]*outcome{}
	for i, f := range frames[:len(frames)-1] {
		switch {
		case f.any == "[DONE]":
			t.wrongf("[DONE] in frame %d", i)
		case f.has("error"):
			t.end("error")
			continue
		}
		t.after("a chunk")
		for _, c := range f.at("choices").list() {
			one := choices[c.number("index")]
			if one == nil {
				one = &outcome{}
				choices[c.number("index")] = one
				if c.has("delta") && c.text("delta", "role") != "assistant" {
					t.wrongf("the first delta has no role")
				}
			}
			one.chunk(c)
		}
	}
	for _, one := range choices {
		t.wrong = append(t.wrong, one.wrong...)
		if t.ending == "" && one.ending == "" {
			t.wrongf("a choice does not end")
		}
		if first := choices[0]; t.ending == "" && (one.said != first.said || one.thoughts != first.thoughts ||
			one.summary != first.summary) {
			t.wrongf("the choices differ")
		}
	}
	if first := choices[0]; first != nil {
		t.said, t.thoughts, t.summary, t.calls = first.said, first.thoughts, first.summary, first.calls
		if t.ending == "" {
			t.ending = first.ending
		}
	}
	return t
}

// chunk reads one choice of a chunk.
func (t *outcome) chunk(c value) {
	d := c.at("delta")
	if d.has("content") || c.text("text") != "" || d.has("reasoning") || d.has("tool_calls") {
		t.after("a delta")
	}
	t.said += d.text("content") + c.text("text")
	t.thoughts += d.text("reasoning")
	t.summary += d.text("reasoning_summary")
	for _, call := range d.at("tool_calls").list() {
		switch at := call.number("index"); {
		case call.has("id"):
			if at != len(t.calls) {
				t.wrongf("call %d comes as number %d", at, len(t.calls))
			}
			t.calls = append(t.calls, call.text("function", "name"))
		case at != len(t.calls)-1:
			t.wrongf("arguments of call %d in call %d", at, len(t.calls)-1)
		}
	}
	if c.has("finish_reason") {
		t.end("done")
	}
}

func readResponse(out string) (t outcome) {
	v, _ := parse(out)
	t.response(v)
	return t
}

// response reads a finished response.
func (t *outcome) response(v value) {
	switch {
	case v.text("status") == "failed" || v.text("status") == "cancelled" || v.text("status") == "" && v.has("error"):
		t.end("error")
	case v.text("status") == "completed" || v.text("status") == "incomplete":
		t.end("done")
	default:
		t.wrongf("status %q", v.text("status"))
	}
	for _, item := range v.at("output").list() {
		if s := item.text("status"); s == "in_progress" {
			t.wrongf("an item is %s", s)
		}
		for _, p := range item.at("content").list() {
			if item.text("type") == "reasoning" {
				t.thoughts += p.text("text")
			} else {
				t.said += p.text("text")
			}
		}
		for _, p := range item.at("summary").list() {
			t.summary += p.text("text")
		}
		if item.text("type") == "function_call" {
			t.calls = append(t.calls, item.text("name"))
		}
	}
}

func readResponseStream(out string) (t outcome) {
	if !strings.HasPrefix(out, "event: ") {
		return readResponse(out)
	}
	open := map[string]int{} // items that were added and are not done yet
	streamed := outcome{}
	for i, f := range t.frames(out) {
		t.after("an event")
		if f.number("sequence_number") != i {
			t.wrongf("event %d has the number %d", i, f.number("sequence_number"))
		}
		place := f.text("item_id") + f.text("item", "id")
		switch kind := strings.TrimPrefix(f.text("type"), "response."); kind {
		case "created":
			if i != 0 {
				t.wrongf("created is event %d", i)
			}
		case "in_progress":
		case "output_item.added", "content_part.added", "reasoning_summary_part.added":
			open[strings.TrimSuffix(kind, ".added")+place]++
		case "output_item.done", "content_part.done", "reasoning_summary_part.done":
			open[strings.TrimSuffix(kind, ".done")+place]--
		case "output_text.delta":
			streamed.said += f.text("delta")
		case "reasoning_text.delta":
			streamed.thoughts += f.text("delta")
		case "reasoning_summary_text.delta":
			streamed.summary += f.text("delta")
		case "function_call_arguments.delta", "function_call_arguments.done", "output_text.done", "reasoning_text.done",
			"reasoning_summary_text.done":
		case "completed", "incomplete", "failed":
			t.response(f.at("response"))
		case "error":
			t.end("error")
		default:
			t.wrongf("an event %q", kind)
		}
		if strings.HasSuffix(f.text("type"), "_text.delta") && open["output_item"+place] != 1 {
			t.wrongf("a delta outside of its item")
		}
	}
	for what, n := range open {
		if n != 0 {
			t.wrongf("%s was opened and closed %d times more", what, n)
		}
	}
	if streamed.said != t.said || streamed.thoughts != t.thoughts || streamed.summary != t.summary {
		t.wrongf("the deltas are %q, the response %q", streamed, t)
	}
	return t
}

func readMessages(out string) (t outcome) {
	v, _ := parse(out)
	if v.text("type") == "error" {
		t.end("error")
		return t
	}
	if v.text("stop_reason") != "" {
		t.end("done")
	}
	for _, b := range v.at("content").list() {
		t.said += b.text("text")
		t.thoughts += b.text("thinking")
		if b.text("type") == "tool_use" {
			t.calls = append(t.calls, b.text("name"))
		}
	}
	return t
}

func readMessagesStream(out string) (t outcome) {
	if !strings.HasPrefix(out, "event: ") {
		return readMessages(out)
	}
	open, next := -1, 0
	stopped := false
	for i, f := range t.frames(out) {
		t.after("an event")
		kind := f.text("type")
		if (kind == "message_start") != (i == 0) {
			t.wrongf("event %d is %s", i, kind)
		}
		switch kind {
		case "content_block_start":
			if open >= 0 || f.number("index") != next {
				t.wrongf("block %d starts when %d is open and %d is next", f.number("index"), open, next)
			}
			open, next = next, next+1
			if f.text("content_block", "type") == "tool_use" {
				t.calls = append(t.calls, f.text("content_block", "name"))
			}
		case "content_block_delta", "content_block_stop":
			if f.number("index") != open {
				t.wrongf("%s of block %d when %d is open", kind, f.number("index"), open)
			}
			t.said += f.text("delta", "text")
			t.thoughts += f.text("delta", "thinking")
			if kind == "content_block_stop" {
				open = -1
			}
		case "message_delta":
			if stopped = true; open >= 0 || f.text("delta", "stop_reason") == "" {
				t.wrongf("message_delta while block %d is open", open)
			}
		case "message_stop":
			if !stopped {
				t.wrongf("message_stop without message_delta")
			}
			t.end("done")
		case "error":
			t.end("error")
		}
	}
	return t
}

func readOllama(out string) (t outcome) {
	for _, l := range t.frames(out) {
		t.after("a line")
		t.said += l.text("message", "content") + l.text("response")
		t.thoughts += l.text("message", "thinking") + l.text("thinking")
		for _, call := range l.at("message", "tool_calls").list() {
			t.calls = append(t.calls, call.text("function", "name"))
		}
		if l.has("error") {
			t.end("error")
		} else if l.at("done").any == true {
			t.end("done")
		}
	}
	return t
}

func readAGUI(out string) (t outcome) {
	if strings.TrimSpace(out) == "" {
		t.end("error") // the command line reports such a run on standard error
		return t
	}
	if v, ok := parse(out); ok && !v.has("type") && v.has("code") {
		t.end("error")
		return t
	}
	open := map[string]bool{}
	for i, f := range t.frames(out) {
		t.after("an event")
		kind, id := f.text("type"), f.text("messageId")+f.text("toolCallId")
		if (kind == "RUN_STARTED") != (i == 0) {
			t.wrongf("event %d is %s", i, kind)
		}
		stem, begins := strings.CutSuffix(kind, "_START")
		if _, subagent := strings.CutSuffix(kind, "SUBAGENT_STARTED"); subagent || begins {
			if subagent {
				stem, id = "SUBAGENT", f.text("subagentRunId")
			}
			if open[stem+id] {
				t.wrongf("%s of %s, which is open", kind, id)
			}
			open[stem+id] = true
		}
		for _, suffix := range []string{"_END", "_CONTENT", "_ARGS", "_FINISHED", "_ERROR"} {
			stem, ends := strings.CutSuffix(kind, suffix)
			if !ends || stem == "RUN" {
				continue
			}
			if stem == "SUBAGENT" {
				id = f.text("subagentRunId")
			}
			if !open[stem+id] {
				t.wrongf("%s of %s, which is not open", kind, id)
			}
			if suffix != "_CONTENT" && suffix != "_ARGS" {
				delete(open, stem+id)
			}
		}
		switch kind {
		case "TEXT_MESSAGE_CONTENT":
			t.said += f.text("delta")
		case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT":
			if strings.HasPrefix(id, "summary_") {
				t.summary += f.text("delta")
			} else {
				t.thoughts += f.text("delta")
			}
		case "TOOL_CALL_START":
			t.calls = append(t.calls, f.text("toolCallName"))
		case "RUN_FINISHED":
			ending := "done"
			if f.text("outcome", "type") == "cancelled" {
				ending = "error"
			}
			if t.end(ending); len(open) > 0 {
				t.wrongf("open at the end: %v", open)
			}
		case "RUN_ERROR":
			t.end("error")
		}
	}
	return t
}
