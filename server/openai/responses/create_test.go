package responses

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

func TestAnswer(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	got := f.post(t, body(t, object{"metadata": object{"k": "v"}, "user": "u", "seed": 5, "instructions": "Be brief.",
		"max_output_tokens": 500}))
	if got["object"] != "response" || got["status"] != statusCompleted || got["error"] != nil ||
		got["incomplete_details"] != nil ||
		got["completed_at"] == nil || got["model"] != wiretest.Name || !strings.HasPrefix(got["id"].(string), "resp_") {
		t.Errorf("response %v", got)
	}
	echoed := object{
		"metadata": object{"k": "v"}, "user": "u", "instructions": "Be brief.", "max_output_tokens": 500, "temperature": 0,
		"top_p":       1,
		"tool_choice": "auto", "tools": []any{}, "text": object{"format": object{"type": "text"}}, "truncation": "disabled",
		"store":      true,
		"background": false, "parallel_tool_calls": true, "previous_response_id": nil,
		"reasoning":    object{"effort": nil, "summary": nil},
		"top_logprobs": 0, "max_tool_calls": nil, "service_tier": "default",
	}
	for name, want := range echoed {
		value, there := got[name]
		if !there || encode(t, value) != encode(t, want) {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if encode(t, items(got)) != `["message"]` {
		t.Fatalf("items %v", items(got))
	}
	m := item(got, 0)
	if !strings.HasPrefix(m["id"].(string), "msg_") || m["role"] != "assistant" || m["status"] != statusCompleted ||
		m["phase"] != phaseFinal {
		t.Errorf("message %v", m)
	}
	if c := encode(t, m["content"]); c != `[{"annotations":[],"logprobs":[],"text":"It is four.","type":"output_text"}]` {
		t.Errorf("content %s", c)
	}
	usage := got["usage"].(object)
	if usage["total_tokens"] != usage["input_tokens"].(float64)+usage["output_tokens"].(float64) ||
		usage["output_tokens_details"].(object)["reasoning_tokens"].(float64) == 0 ||
		usage["input_tokens_details"].(object)["cached_tokens"] == nil {
		t.Errorf("usage %v", usage)
	}
	if info := got["reasoning_info"].(object); info["visibility"] != "none" || info["seed"] != 5.0 ||
		info["strategy"] != "native" || info["effort"] != "medium" {
		t.Errorf("info %v", info)
	}
}

// The order of events is that of OpenAI's API.
func TestOrderOfEvents(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "I look it up.", "look", `{"at":4}`)}
	f := start(t, Config{}, fake.Config{}, append(usual(), call)...)
	const message = "output_item.added\n1 content_part.added\n1 output_text.delta\n1 output_text.done\n1 " +
		"content_part.done\n1 output_item.done\n"
	for name, c := range map[string]struct {
		more object
		want string
	}{
		"none": {nil, "created\nin_progress\n" + strings.ReplaceAll("1 "+message, "1 ", "0 ") + "completed\n"},
		"full": {object{"reasoning": "full"}, "created\nin_progress\n0 output_item.added\n0 content_part.added\n0 " +
			"reasoning_text.delta\n0 reasoning_text.done\n" +
			"0 content_part.done\n0 output_item.done\n1 " + message + "completed\n"},
		"call": {object{"input": "Call it.", "tools": []any{object{"type": "function", "name": "look"}}},
			"created\nin_progress\n" +
				strings.ReplaceAll("1 "+message, "1 ", "0 ") +
				"1 output_item.added\n1 function_call_arguments.delta\n1 function_call_arguments.done\n" +
				"1 output_item.done\ncompleted\n"},
	} {
		if c.more == nil {
			c.more = object{}
		}
		c.more["stream"] = true
		events := f.stream(t, "POST", "/v1/responses", body(t, c.more))
		fold(t, events)
		if got := types(events); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

// The summary's item precedes the message, whichever arrives first, and both are completed.
func TestSummaryStandsFirst(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	for _, more := range []object{{"reasoning": object{"summary": "auto"}}, {"reasoning": object{"summary": "concise"},
		"include": []string{"reasoning.encrypted_content"}}} {
		more["stream"] = true
		output, last := fold(t, f.stream(t, "POST", "/v1/responses", body(t, more)))
		if len(output) != 2 || encode(t, items(last)) != `["reasoning","message"]` {
			t.Fatalf("items %v", items(last))
		}
		r := item(last, 0)
		if partText(r, "summary", 0) != brief || r["content"] != nil || partText(item(last, 1), "content", 0) != answer {
			t.Errorf("output %v", last["output"])
		}
		if _, sealed := r["encrypted_content"]; sealed != (more["include"] != nil) {
			t.Errorf("sealed value %v", r)
		}
		if last["reasoning_summary_source"] != "reasoning" ||
			last["usage"].(object)["output_tokens_details"].(object)["summary_tokens"].(float64) == 0 {
			t.Errorf("response %v", last)
		}
	}
}

// A stream has the same content as a whole response, for the same seed.
func TestStreamingIsNotStreaming(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "I look it up.", "look", `{"at":4}`)}
	f := start(t, Config{}, fake.Config{}, append(usual(), call)...)
	for _, more := range []object{
		{}, {"reasoning": "full"}, {"reasoning": "summary"}, {"include": []string{"message.output_text.logprobs"},
			"top_logprobs": 2},
		{"max_output_tokens": 3}, {"reasoning": "full", "max_output_tokens": 4}, {"reasoning": object{"effort": "none"}},
		{"input": "Call it.", "tools": []any{object{"type": "function", "name": "look"}}, "reasoning": "full"},
		{"text": object{"format": object{"type": "json_object"}}, "max_output_tokens": 40},
	} {
		more["seed"] = 11
		whole := f.post(t, body(t, more))
		more["stream"] = true
		_, last := fold(t, f.stream(t, "POST", "/v1/responses", body(t, more)))
		if got, want := withoutIDs(t, last), withoutIDs(t, whole); got != want {
			t.Errorf("%v:\n%s\n%s", more, got, want)
		}
	}
}

// withoutIDs writes a response without what differs between two responses.
func withoutIDs(t *testing.T, response object) string {
	t.Helper()
	response = clone(t, response).(object)
	for _, name := range []string{"id", "created_at", "completed_at"} {
		delete(response, name)
	}
	delete(response["usage"].(object), "input_tokens_details")
	for _, x := range response["output"].([]any) {
		delete(x.(object), "id")
		delete(x.(object), "call_id")
		delete(x.(object), "encrypted_content")
	}
	return encode(t, response)
}

func TestStatuses(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, append(usual(), fake.Reply{After: wiretest.Ask("Count."),
		Say: wiretest.Think("", "one two three four five")})...)
	cut := f.post(t, body(t, object{"input": "Count.", "max_output_tokens": 9}))
	if cut["status"] != statusIncomplete || cut["incomplete_details"].(object)["reason"] != "max_output_tokens" ||
		item(cut, 0)["status"] != statusIncomplete ||
		cut["completed_at"] != nil {
		t.Errorf("response %v", cut)
	}
	budget := f.post(t, body(t, object{"reasoning": object{"max_tokens": 2}}))
	if budget["finish_detail"] != "reasoning_budget" || budget["reasoning_info"].(object)["budget"] != 2.0 {
		t.Errorf("response %v", budget)
	}
}

func TestLogprobs(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	got := f.post(t, body(t, object{"include": []string{"message.output_text.logprobs"}, "top_logprobs": 3,
		"reasoning": "full"}))
	var text strings.Builder
	list := item(got, 1)["content"].([]any)[0].(object)["logprobs"].([]any)
	for _, l := range list {
		text.WriteString(l.(object)["token"].(string))
		if len(l.(object)["top_logprobs"].([]any)) != 3 {
			t.Errorf("alternatives of %v", l)
		}
	}
	if text.String() != answer || got["top_logprobs"] != 3.0 {
		t.Errorf("tokens %q", text.String())
	}
}

func TestTools(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "", "look", `{"at":4}`)}
	after := fake.Reply{Prompt: "Call it.", After: "the sky<|end|><|start|>assistant",
		Say: wiretest.Think("", "You see the sky.")}
	f := start(t, Config{}, fake.Config{}, call, after)
	look := object{"type": "function", "name": "look", "description": "Looks.",
		"parameters": object{"type": "object", "properties": object{"at": object{"type": "integer"}},
			"required": []string{"at"}, "additionalProperties": false}}
	got := f.post(t, body(t, object{"input": "Call it.", "tools": []any{look, object{"type": "web_search"}},
		"tool_choice": object{"type": "allowed_tools", "mode": "auto",
			"tools": []any{object{"type": "function", "name": "look"}}}}))
	if encode(t, items(got)) != `["function_call"]` || got["status"] != statusCompleted {
		t.Fatalf("response %v", got)
	}
	c := item(got, 0)
	if c["name"] != "look" || c["arguments"] != `{"at":4}` || c["status"] != statusCompleted || c["call_id"] == "" ||
		!strings.HasPrefix(c["id"].(string), "fc_") {
		t.Errorf("call %v", c)
	}
	if w := got["warnings"].([]any); len(w) != 1 || w[0].(object)["code"] != CodeToolSkipped {
		t.Errorf("warnings %v", w)
	}
	if tools := got["tools"].([]any); len(tools) != 1 || tools[0].(object)["strict"] != true {
		t.Errorf("tools %v", tools)
	}
	// The result comes back as a list of parts: once with the whole conversation, and once as a continuation.
	output := object{"type": "function_call_output", "call_id": c["call_id"],
		"output": []any{object{"type": "input_text", "text": "the sky"}}}
	for _, next := range []object{
		{"input": []any{output}, "previous_response_id": got["id"], "tools": []any{look}},
		{"input": []any{object{"role": "user", "content": "Call it."}, c, output}, "tools": []any{look}},
		{"input": []any{object{"role": "user", "content": "Call it."}, object{"type": "item_reference", "id": c["id"]},
			output}, "tools": []any{look}},
	} {
		next := f.post(t, body(t, next))
		if partText(item(next, 0), "content", 0) != "You see the sky." {
			t.Errorf("response %v", next)
		}
	}
}

// A custom tool's call has only its text. It is accepted unchanged, whether the server or the client keeps the
// conversation.
func TestCustomTools(t *testing.T) {
	const text = "+say \"hi\"\n-é\n"
	const arguments = `{"input":"+say \"hi\"\n-é\n"}`
	call := fake.Reply{After: wiretest.Ask("Fix it."), Say: wiretest.Call(thoughts, "", "patch", arguments)}
	after := fake.Reply{Prompt: arguments, After: "done<|end|><|start|>assistant", Say: wiretest.Think("", "It is fixed.")}
	f := start(t, Config{}, fake.Config{}, call, after)
	patch := object{"type": "custom", "name": "patch", "description": "Patches.", "format": object{
		"type": "grammar", "syntax": "lark", "definition": "start: LINE+\nLINE: (\"+\" | \"-\") /.*/ LF\n%import common.LF",
	}}
	asked := object{"input": "Fix it.", "tools": []any{patch}, "tool_choice": object{"type": "custom", "name": "patch"}}
	got := f.post(t, body(t, asked))
	if encode(t, items(got)) != `["custom_tool_call"]` || got["status"] != statusCompleted {
		t.Fatalf("response %v", got)
	}
	c := item(got, 0)
	if c["name"] != "patch" || c["input"] != text || c["arguments"] != nil ||
		!strings.HasPrefix(c["id"].(string), "ctc_") {
		t.Errorf("call %v", c)
	}
	if tools := got["tools"].([]any); len(tools) != 1 || encode(t, tools[0]) != encode(t, patch) {
		t.Errorf("tools %v", tools)
	}
	output := object{"type": "custom_tool_call_output", "call_id": c["call_id"], "output": "done"}
	ask := object{"role": "user", "content": "Fix it."}
	for _, next := range []object{
		{"input": []any{output}, "previous_response_id": got["id"], "tools": []any{patch}},
		{"input": []any{ask, c, output}, "tools": []any{patch}},
		{"input": []any{ask, object{"type": "item_reference", "id": c["id"]}, output}, "tools": []any{patch}},
	} {
		next := f.post(t, body(t, next))
		if partText(item(next, 0), "content", 0) != "It is fixed." {
			t.Errorf("response %v", next)
		}
	}
	for _, refused := range []struct {
		item  object
		param string
	}{
		{object{"type": "custom_tool_call", "call_id": "c", "name": "patch"}, "input[0].input"},
		{object{"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, "input[0].call_id"},
	} {
		e := f.refused(t, "POST", "/v1/responses", body(t, object{"input": []any{refused.item}}), 400)
		if e["param"] != refused.param {
			t.Errorf("%v: %v", refused.item, e)
		}
	}
}

// The tools of a namespace are offered under names with the namespace. Calls have both apart, and are accepted so.
func TestNamespaces(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Look."), Say: wiretest.Call("", "", "mcp__files__read", `{"path":"a"}`)}
	after := fake.Reply{Prompt: "functions.mcp__files__read", After: "done<|end|><|start|>assistant",
		Say: wiretest.Think("", "It is read.")}
	f := start(t, Config{}, fake.Config{}, call, after)
	read := object{"type": "function", "name": "read", "description": nil, "strict": false,
		"parameters": object{"type": "object", "properties": object{"path": object{"type": "string"}}}}
	group := object{"type": "namespace", "name": "mcp__files__", "description": "Files.", "tools": []any{read}}
	other := object{"type": "namespace", "name": "mcp__web", "description": nil, "tools": []any{read}}
	choice := object{"type": "function", "namespace": "mcp__files__", "name": "read"}
	ask := object{"input": "Look.", "tools": []any{group, other}, "tool_choice": choice}
	whole := f.post(t, body(t, ask))
	ask["stream"] = true
	events := f.stream(t, "POST", "/v1/responses", body(t, ask))
	for name, got := range map[string]object{"whole": whole, "streamed": events[len(events)-1]["response"].(object)} {
		if encode(t, items(got)) != `["function_call"]` {
			t.Fatalf("%s: response %v", name, got)
		}
		c := item(got, 0)
		if c["namespace"] != "mcp__files__" || c["name"] != "read" || c["arguments"] != `{"path":"a"}` {
			t.Errorf("%s: call %v", name, c)
		}
		if encode(t, got["tools"]) != encode(t, []any{group, other}) {
			t.Errorf("%s: tools %v", name, got["tools"])
		}
		output := object{"type": "function_call_output", "call_id": c["call_id"], "output": "done"}
		next := f.post(t, body(t, object{"input": []any{object{"role": "user", "content": "Look."}, c, output},
			"tools": []any{group, other}}))
		if partText(item(next, 0), "content", 0) != "It is read." {
			t.Errorf("%s: response %v", name, next)
		}
	}
	allowed := object{"type": "allowed_tools", "mode": "auto", "tools": []any{choice}}
	f.post(t, body(t, object{"tools": []any{group}, "tool_choice": allowed}))
	for _, refused := range []object{
		{"tools": []any{other}, "tool_choice": choice}, {"tools": []any{other}, "tool_choice": allowed},
		{"tools": []any{object{"type": "namespace", "tools": []any{read}}}}, {"tools": []any{group, group}},
	} {
		f.refused(t, "POST", "/v1/responses", body(t, refused), 400)
	}
}

// Items of an earlier response that are sent again, with or without their ids, count once.
func TestItemsOfAChainCountOnce(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "", "look", `{"at":4}`)}
	f := start(t, Config{}, fake.Config{}, call)
	tools := []any{object{"type": "function", "name": "look"}}
	first := f.post(t, body(t, object{"input": "Call it.", "tools": tools,
		"include": []any{"reasoning.encrypted_content"}}))
	output := first["output"].([]any)
	called := output[len(output)-1].(object)
	result := object{"type": "function_call_output", "call_id": called["call_id"], "output": "five"}
	bare := maps.Clone(called)
	delete(bare, "id")
	prompts := map[string]string{}
	for name, input := range map[string][]any{
		"once": {result}, "with its id": {called, result}, "without an id": {bare, result},
		"with its reasoning": append(slices.Clone(output), result),
	} {
		prompts[name] = f.prompt(t, object{"input": input, "tools": tools, "previous_response_id": first["id"]})
	}
	for name, p := range prompts {
		if p != prompts["once"] || !strings.Contains(p, "five") {
			t.Errorf("%s: %q\nwant %q", name, p, prompts["once"])
		}
	}
}

// An image in a history does not end a conversation.
func TestImagesInAHistoryAreNoted(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, usual()...)
	image := object{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
	ask := object{"role": "user", "content": question}
	f.refused(t, "POST", "/v1/responses",
		body(t, object{"input": []any{object{"role": "user", "content": []any{image}}}}), 400)
	for name, history := range map[string][]any{
		"of the user": {object{"role": "user", "content": []any{image}}, ask},
		"of a tool": {object{"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"},
			object{"type": "function_call_output", "call_id": "c", "output": []any{image}}},
	} {
		got := f.post(t, body(t, object{"input": history}))
		if w := encode(t, got["warnings"]); !strings.Contains(w, "media_skipped") {
			t.Errorf("%s: warnings %s", name, w)
		}
	}
}

// A function without strict is strict if that is possible; otherwise there is a warning. If a function says strict and
// that is impossible, it is refused.
func TestStrictTools(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	impossible := object{"type": "function", "name": "f",
		"parameters": object{"type": "object", "properties": object{"a": object{"type": "array", "uniqueItems": true,
			"items": object{"type": "string"}}}}}
	got := f.post(t, body(t, object{"tools": []any{impossible}}))
	if w := got["warnings"].([]any); len(w) != 1 || w[0].(object)["code"] != CodeStrictUnavailable ||
		got["tools"].([]any)[0].(object)["strict"] != false {
		t.Errorf("response %v", got)
	}
	text := object{"type": "function", "name": "f", "parameters": object{"type": "string"}}
	if got := f.post(t, body(t, object{"tools": []any{text}})); len(got["warnings"].([]any)) != 1 {
		t.Errorf("parameters that are no object: %v", got)
	}
	impossible["strict"] = true
	e := f.refused(t, "POST", "/v1/responses", body(t, object{"tools": []any{impossible}}), 400)
	if e["param"] != "tools" {
		t.Errorf("error %v", e)
	}
	impossible["strict"] = false
	if got := f.post(t, body(t, object{"tools": []any{impossible}})); got["warnings"] != nil {
		t.Errorf("response %v", got)
	}
}

func TestForms(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, fake.Reply{After: wiretest.Ask(question), Say: wiretest.Think("", `{"sum":4}`)})
	format := object{"type": "json_schema", "name": "sum", "strict": true,
		"schema": object{"type": "object", "properties": object{"sum": object{"type": "integer"}},
			"required": []string{"sum"}, "additionalProperties": false}}
	got := f.post(t, body(t, object{"text": object{"format": format, "verbosity": "low"}}))
	if partText(item(got, 0), "content", 0) != `{"sum":4}` ||
		encode(t, got["text"]) != encode(t, object{"format": format, "verbosity": "low"}) {
		t.Errorf("response %v", got)
	}
	f.post(t, body(t, object{"text": object{"format": object{"type": "json_schema", "name": "a b",
		"schema": format["schema"]}}, "response_schema": object{"type": "json", "schema": format["schema"]}}))
	got = f.post(t, body(t, object{"response_schema": object{"type": "json", "schema": format["schema"]}}))
	if partText(item(got, 0), "content", 0) != `{"sum":4}` {
		t.Errorf("response %v", got)
	}
	format["schema"] = object{"$dynamicRef": "#x"}
	e := f.refused(t, "POST", "/v1/responses", body(t, object{"text": object{"format": format}}), 400)
	if e["param"] != "text.format" {
		t.Errorf("error %v", e)
	}
}

// Threads that began on another server contain unknown items and tools, with arbitrary fields. They are dropped, and a
// warning lists their types.
func TestUnknownTypesAreSkipped(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	got := f.post(t, body(t, object{
		"input": []any{
			object{"type": "local_shell_call", "id": 7, "action": object{"command": []any{"ls"}}},
			object{"type": "local_shell_call_output"}, object{"type": "compaction", "encrypted_content": 7, "content": 7},
			object{"type": "computer_call", "call_id": []any{}},
			object{"type": "compaction"}, object{"role": "user", "content": question},
		},
		"tools": []any{
			object{"type": "web_search", "name": 7}, object{"type": "tool_search", "parameters": "x"},
			object{"type": "function", "name": "look", "parameters": object{"type": "object"}},
		},
	}))
	warned := map[any]string{}
	for _, w := range got["warnings"].([]any) {
		warned[w.(object)["code"]] = w.(object)["message"].(string)
	}
	items := `5 input items were left out because their types are not known here: ` +
		`"local_shell_call", "local_shell_call_output", "compaction", "computer_call"`
	tools := `2 tools were left out because their types are not known here: "web_search", "tool_search"`
	if got["status"] != statusCompleted || len(warned) != 2 || warned[CodeItemSkipped] != items ||
		warned[CodeToolSkipped] != tools {
		t.Errorf("%v, warnings %v", got["status"], warned)
	}
	if left := got["tools"].([]any); len(left) != 1 || left[0].(object)["name"] != "look" {
		t.Errorf("tools %v", left)
	}
}

// The model's view of a conversation.
func TestItemsBecomeMessages(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	sealedForm := []any{
		object{"role": "developer", "content": "Rules."},
		object{"role": "user", "content": []any{object{"type": "input_text", "text": "one"},
			object{"type": "input_text", "text": "two"}}},
		object{"type": "reasoning", "id": "rs_x", "summary": []any{}},
		object{"type": "web_search_call", "id": "ws_1", "status": "completed"},
		object{"type": "message", "role": "assistant", "id": "msg_x", "status": "completed", "phase": "commentary",
			"content": []any{object{"type": "output_text", "text": "I look.", "annotations": []any{}}}},
		object{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
		object{"type": "function_call_output", "call_id": "c1", "output": "sky"},
		object{"type": "reasoning", "id": "rs_y", "summary": []any{object{"type": "summary_text", "text": "a summary"}},
			"content": []any{object{"type": "reasoning_text", "text": "plain " + secret}}},
		object{"role": "assistant", "content": []any{object{"type": "refusal", "refusal": "No."}}},
		object{"type": "message", "role": "user", "content": "three"},
	}
	prompt := f.prompt(t, object{"instructions": "First.", "input": sealedForm})
	for _, want := range []string{
		"First.\n\nRules.<|end|>", "<|start|>user<|message|>one\ntwo<|end|>",
		"<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>",
		"to=functions.look", "sky",
		"<|channel|>final<|message|>No.<|end|><|start|>user<|message|>three<|end|><|start|>assistant",
	} {
		if !strings.Contains(prompt, want) {
			t.Errorf("%q is not in the prompt %q", want, prompt)
		}
	}
	for _, leak := range []string{secret, "a summary"} {
		if strings.Contains(prompt, leak) {
			t.Errorf("%q is in the prompt %q", leak, prompt)
		}
	}
	// While a call is pending, plain reasoning is used as reasoning: it is only text.
	pending := []any{object{"role": "user", "content": "one"}, object{"type": "reasoning", "id": "rs_z",
		"summary": []any{}, "content": []any{object{"type": "reasoning_text", "text": "hm <|end|>"}}},
		object{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
		object{"type": "function_call_output", "call_id": "c1", "output": "sky"}}
	if prompt := f.prompt(t,
		object{"input": pending}); !strings.Contains(prompt, "<|channel|>analysis<|message|>hm <|end|><|end|>") {
		t.Errorf("prompt %q", prompt)
	}
}

// prompt returns the prompt that the model gets for a request.
func (f *fixture) prompt(t testing.TB, request object) string {
	t.Helper()
	var w CreateRequest
	if err := wire.Unmarshal([]byte(encode(t, request)), &w); err != nil {
		t.Fatal(err)
	}
	turn, err := f.prepare(wire.WithPrincipal(t.Context(), wiretest.Anyone()), &w)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.model.Release()
	turn.request.MaySee = reasoning.VisibilityFull
	p, err := f.models.Engine.Prompt(t.Context(), "", turn.request)
	if err != nil {
		t.Fatal(err)
	}
	return p.Text
}

func TestInputTokens(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	request := body(t, object{"instructions": "Be brief."})
	status, got := f.do(t, "POST", "/v1/responses/input_tokens", request)
	want := f.post(t, request)["usage"].(object)["input_tokens"]
	if o := decode(t, got); status != 200 || o["object"] != "response.input_tokens" || o["input_tokens"] != want {
		t.Errorf("%d %s, want %v tokens", status, got, want)
	}
}

func TestRefusals(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	function := object{"type": "function", "name": "f"}
	many := func(n int, v any) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = v
		}
		return list
	}
	for _, c := range []struct {
		more  object
		param any
	}{
		{object{"input": nil}, "input"}, {object{"input": 3}, "input"}, {object{"input": []any{3}}, "input[0]"},
		{object{"input": []any{object{"type": 7}}}, "input[0].type"},
		{object{"tools": []any{object{"type": 7}}}, "tools[0].type"},
		{object{"input": []any{object{"role": "robot", "content": "x"}}}, "input[0].role"},
		{object{"input": []any{object{"role": "user"}}}, "input[0].content"},
		{object{"input": []any{object{"role": "user", "content": 3}}}, "input[0].content"},
		{object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_text", "text": "a"},
			object{"type": "input_image", "image_url": "x"}}}}}, "input[0].content[1].type"},
		{object{"input": []any{object{"role": "user", "content": []any{object{"type": "refusal", "refusal": "a"}}}}},
			"input[0].content[0].type"},
		{object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_text"}}}}},
			"input[0].content[0].text"},
		{object{"input": []any{object{"role": "user", "content": "a", "id": 3}}}, "input[0].id"},
		{object{"input": []any{object{"role": "assistant", "content": "a", "phase": "x"}}}, "input[0].phase"},
		{object{"input": []any{object{"type": "function_call", "name": "f", "arguments": "{}"}}}, "input[0].call_id"},
		{object{"input": []any{object{"type": "function_call", "call_id": "c", "name": "f"}}}, "input[0].arguments"},
		{object{"input": []any{object{"type": "function_call_output", "output": "x"}}}, "input[0].call_id"},
		{object{"input": []any{object{"type": "function_call_output", "call_id": "c", "output": "x"}}}, "input[0].call_id"},
		{object{"input": []any{object{"type": "function_call_output", "call_id": "c"}}}, "input[0].output"},
		{object{"input": []any{object{"type": "item_reference"}}}, "input[0].id"},
		{object{"input": []any{object{"type": "item_reference", "id": "msg_none"}}}, "input[0].id"},
		{object{"input": []any{object{"id": "msg_none"}}}, "input[0].id"},
		{object{"input": []any{object{"type": "reasoning", "summary": []any{object{"type": "x", "text": "a"}}}}},
			"input[0].summary[0].type"},
		{object{"input": []any{object{"type": "reasoning", "content": "x"}}}, "input[0].content"},
		{object{"input": many(8193, object{"role": "user", "content": "a"})}, "input"},
		{object{"input": []any{object{"role": "user",
			"content": many(4097, object{"type": "input_text", "text": "a"})}}}, "input[0].content"},
		{object{"conversation": "conv_1"}, "conversation"}, {object{"conversation": object{"id": "conv_1"}}, "conversation"},
		{object{"prompt": object{"id": "p"}}, "prompt"}, {object{"context_management": []any{object{"type": "compaction"}}},
			"context_management"},
		{object{"moderation": object{"model": "m"}}, "moderation"}, {object{"reasoning_encrypt": true}, "reasoning_encrypt"},
		{object{"background": true, "store": false}, "background"}, {object{"truncation": "some"}, "truncation"},
		{object{"temperature": 3}, "temperature"}, {object{"top_p": -1}, "top_p"},
		{object{"top_logprobs": 21}, "top_logprobs"},
		{object{"max_output_tokens": 0}, "max_output_tokens"}, {object{"max_output_tokens": "x"}, "max_output_tokens"},
		{object{"max_tool_calls": -1}, "max_tool_calls"},
		{object{"seed": 1.5}, "seed"}, {object{"seed": "x"}, "seed"},
		{object{"tools": []any{3}}, "tools[0]"}, {object{"tools": []any{function, function}}, "tools[1].name"},
		{object{"tools": many(1025, function)}, "tools"},
		{object{"tools": []any{object{"type": "function", "name": "f", "parameters": 3}}}, "tools[0].parameters"},
		{object{"tools": []any{object{"type": "function", "name": "a b"}}}, "tools[0].name"},
		{object{"tool_choice": "perhaps"}, "tool_choice"}, {object{"tool_choice": object{"type": "web_search"}},
			"tool_choice.type"},
		{object{"tool_choice": "required"}, "tool_choice"},
		{object{"tool_choice": object{"type": "function", "name": "g"}, "tools": []any{function}}, "tool_choice.name"},
		{object{"tool_choice": object{"type": "allowed_tools", "mode": "auto",
			"tools": []any{object{"type": "function", "name": "g"}}}}, "tool_choice.tools[0].name"},
		{object{"tool_choice": object{"type": "allowed_tools", "mode": "x"}}, "tool_choice.mode"},
		{object{"text": object{"format": object{"type": "xml"}}}, "text.format.type"},
		{object{"text": object{"format": object{"type": "json_schema"}}}, "text.format.schema"},
		{object{"text": object{"verbosity": "loud"}}, "text.verbosity"},
		{object{"text": object{"format": object{"type": "text"}}, "response_schema": object{}}, "response_schema"},
		{object{"text": object{"format": object{"type": "json_schema", "schema": object{}}},
			"response_schema": object{"type": "json", "schema": object{"type": "object"}}}, "response_schema"},
		{object{"include": many(65, "x")}, "include"}, {object{"metadata": object{strings.Repeat("k", 65): "v"}},
			"metadata"},
		{object{"metadata": object{"k": strings.Repeat("v", 513)}}, "metadata"},
		{object{"user": strings.Repeat("u", 513)}, "user"},
		{object{"reasoning": object{"effort": "most"}}, "reasoning.effort"},
		{object{"reasoning": "full", "include_reasoning": false}, "include_reasoning"},
		{object{"reasoning": object{"summary": "auto"}, "include": []string{"reasoning.content"}}, "include"},
		{object{"reasoning_budget": -2}, "reasoning_budget"},
		{object{"reasoning_effort": 3}, "reasoning_effort"},
		{object{"previous_response_id": "resp_none"}, "previous_response_id"},
		{object{"input": strings.Repeat("word ", 9000)}, "input"},
	} {
		request := body(t, c.more)
		for _, stream := range []bool{false, true} {
			if stream && c.param == "input" && strings.Contains(request, "word word") {
				continue // a prompt that does not fit is reported in the stream
			}
			if stream {
				request = strings.Replace(request, "{", `{"stream":true,`, 1)
			}
			if e := f.refused(t, "POST", "/v1/responses", request, 400); e["param"] != c.param ||
				e["type"] != "invalid_request_error" || e["message"] == "" {
				t.Errorf("%.200s: %v, want param %v", request, e, c.param)
			}
		}
	}
	if e := f.refused(t, "POST", "/v1/responses", body(t, object{"model": "other"}), 404); e["param"] != "model" {
		t.Errorf("error %v", e)
	}
	f.refused(t, "POST", "/v1/responses", `[]`, 400)
	f.refused(t, "POST", "/v1/responses", `{"input":`, 400)
}

// Unknown and ignored fields do no harm. Those that a client may rely on are named.
func TestIgnoredFields(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	got := f.post(t, body(t, object{
		"unheard_of": object{"a": 1}, "stream_options": object{"include_obfuscation": true}, "service_tier": "flex",
		"safety_identifier": "s", "prompt_cache_key": "p",
		"max_tool_calls": 3, "context_management": []any{}, "conversation": nil,
		"include": []string{"file_search_call.results"}, "text": object{"verbosity": "high"},
		"reasoning": object{"effort": nil, "summary": nil, "mode": "standard"}, "tools": nil, "tool_choice": nil,
		"metadata": nil,
	}))
	if got["safety_identifier"] != "s" || got["prompt_cache_key"] != "p" || got["max_tool_calls"] != 3.0 {
		t.Errorf("response %v", got)
	}
	w := got["warnings"].([]any)
	var said string
	for _, warning := range w {
		said += warning.(object)["code"].(string) + " " + warning.(object)["message"].(string) + "\n"
	}
	if said != `field_ignored reasoning.mode: this field is not known here and has no effect
field_ignored unheard_of: this field is not known here and has no effect
include_ignored include names what there is not in this response
` {
		t.Errorf("warnings %v", w)
	}
}

// Reasoning that was not requested is in no field, event, stored value or log.
func TestReasoningStaysHidden(t *testing.T) {
	var log strings.Builder
	f := start(t, Config{Config: wire.Config{Logger: textLogger(&log)}}, fake.Config{})
	for _, more := range []object{
		{}, {"reasoning": "none"}, {"reasoning": "summary"}, {"reasoning": object{"effort": "high"}},
		{"include": []string{"reasoning.encrypted_content"}},
		{"include": []string{"message.output_text.logprobs"}, "top_logprobs": 5}, {"store": false, "reasoning_seal": true},
		{"background": true}, {"reasoning": object{"exclude": true}},
	} {
		for _, stream := range []bool{false, true} {
			more["stream"] = stream
			if _, got := f.do(t, "POST", "/v1/responses", body(t, more)); strings.Contains(got, secret) ||
				!strings.Contains(got, "resp_") {
				t.Errorf("%v: %s", more, got)
			}
		}
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), question) {
		t.Errorf("the log says %s", log.String())
	}
	if got := f.post(t, body(t, object{"reasoning": "full"})); partText(item(got, 0), "content", 0) != thoughts {
		t.Errorf("with visibility full the reasoning is %v", item(got, 0))
	}
	few := wiretest.Anyone()
	few.Reasoning = reasoning.VisibilitySummary
	capped := f.as(t, few)
	for _, more := range []object{{"reasoning": "full"}, {"include": []string{"reasoning.content"}},
		{"include_reasoning": true, "stream": true}, {"include_reasoning": "full", "background": true}} {
		e := capped.refused(t, "POST", "/v1/responses", body(t, more), http.StatusForbidden)
		if e["code"] != wire.CodeForbidden || !strings.Contains(e["message"].(string), "reasoning:full") {
			t.Errorf("%v: %v", more, e)
		}
	}
}

func TestSampling(t *testing.T) {
	defaults := generation.Request{Budget: 7}
	defaults.Sampling.Temperature, defaults.Sampling.TopP, defaults.Sampling.TopK = 0.8, 0.95, 40
	f := start(t, Config{Config: wire.Config{Defaults: defaults}}, fake.Config{})
	for body, want := range map[string]string{
		`{"input":"x"}`:                 "0.8 0.95 40 7",
		`{"input":"x","temperature":0}`: "0 0.95 40 7",
		`{"input":"x","top_p":0.5,"reasoning":{"max_tokens":9}}`: "0.8 0.5 40 9",
		`{"input":"x","top_p":0}`:                                "0.8 1e-45 40 7", // only the best token
	} {
		var w CreateRequest
		if err := wire.Unmarshal([]byte(body), &w); err != nil {
			t.Fatal(err)
		}
		q, err := read(&w, f.cfg.Defaults)
		if err != nil {
			t.Fatal(err)
		}
		s := q.request.Sampling
		if got := fmt.Sprint(s.Temperature, s.TopP, s.TopK, q.request.Budget); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	if got := f.post(t, `{"input":"`+question+`","top_p":0,"seed":-1}`); got["temperature"] != 0.8 ||
		got["top_p"] != 0.0 || got["reasoning_info"].(object)["seed"] != float64(math.MaxUint64) {
		t.Errorf("response %v", got)
	}
}
