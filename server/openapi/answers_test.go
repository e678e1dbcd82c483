package openapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"runner/server/mew/envelope"
	"runner/server/wire"
)

// says returns a body with a conversation of one question and more fields.
func says(question, rest string) string {
	return fmt.Sprintf(`{"model":"demo","messages":[{"role":"user","content":%q}]%s}`, question, rest)
}

// agent returns a turn of AG-UI with a question, props and more fields.
func agent(question, props, rest string) string {
	return fmt.Sprintf(
		`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":%q}],"forwardedProps":{%s}%s}`, question,
		props, rest)
}

// The tools of requests, in each format.
const (
	chatTool = `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}},` +
		`{"type":"web_search"}]`
	responseTool = `,"tools":[{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"},` +
		`"strict":false},{"type":"web_search"}]`
	anthropicTool = `,"max_tokens":200` + namedTool
	cutTool       = `,"max_tokens":40` + namedTool
	namedTool     = `,"tools":[{"name":"look","input_schema":{"type":"object"}},{"type":"web_search_1","name":"web"}]`
	aguiTool      = `,"tools":[{"name":"look","description":"Looks.","parameters":{"type":"object"}}]`
	sealIt        = `,"reasoning_seal":true`
	customTool    = `,"tools":[{"type":"custom","custom":{"name":"patch"}}]`
	// customResponse has a grammar.
	customResponse = `{"input":"Patch it.","tools":[{"type":"custom","name":"patch","description":"Patches.","format":` +
		`{"type":"grammar","syntax":"lark","definition":"start: (/[+-].*/ LF?)+\n%import common.LF"}}]`
	// grouped are tools of a namespace.
	grouped = `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"look"},` +
		`{"type":"custom","name":"patch"}]}]}`
	traceIt = `,"reasoning_encrypt":true`
	// The user's specialist, and permission for the model to call one.
	delegateIt  = `,"reasoning":"full","delegation":{"agent_prompt":"You check sums."}`
	delegateAny = `,"reasoning":"full","delegation":{"allow":true}`
)

// exchanges are requests that are answered with 200. Together their answers have every part that answers can have.
var exchanges = []struct{ method, path, body, header string }{
	{"GET", "/health", "", ""}, {"GET", "/metrics", "", ""}, {"GET", "/openapi.json", "", ""}, {"GET", "/props", "", ""},
	{"GET", "/tokenizer_info", "", ""}, {"GET", "/", "", ""},
	{"POST", "/tokenize", `{"content":"a","with_pieces":true}`, ""},
	{"POST", "/tokenize", `{"content":"𐍈","with_pieces":true}`, ""}, {"POST", "/tokenize", `{"content":"a"}`, ""},
	{"POST", "/detokenize", `{"tokens":[49,50]}`, ""},
	{"POST", "/apply-template", says(question, `,"tools":[{"function":{"name":"f"}}]`), ""},

	{"POST", "/v1/chat/completions", says(question, traceIt), ""},
	{"POST", "/v1/chat/completions", says(question, traceIt+`,"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(question, ""), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"full","reasoning_budget":3,"reasoning_effort":"low"`+
		sealIt), ""},
	{"POST", "/v1/chat/completions", says(question, `,"logprobs":true,"top_logprobs":2,"n":2`), ""},
	{"POST", "/v1/chat/completions", says(question,
		`,"reasoning":"full","logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true},`+
			`"reasoning_effort":"low"`+sealIt), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":{"summary":"auto"}`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":{"summary":"detailed","max_tokens":3},"stream":true`),
		""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"summary","reasoning_effort":"none"`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"full","reasoning_effort":"none","n":2`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"full","reasoning_effort":"none","n":2,"stream":true`),
		""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"full","reasoning_strategy":"markers","stream":true`),
		""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning":"full","reasoning_strategy":"markers"`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"max_tokens":2,"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning_strategy":"json","reasoning":"full"`), ""},
	{"POST", "/v1/chat/completions", says(question, `,"reasoning_strategy":"json","reasoning":"full","stream":true`), ""},
	{"POST", "/v1/chat/completions", says(lookUp, chatTool), ""},
	{"POST", "/v1/chat/completions", says(lookUp, chatTool+`,"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(lookUp, `,"functions":[{"name":"look"}]`), ""},
	{"POST", "/v1/chat/completions", says(lookUp, `,"functions":[{"name":"look"}],"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(lookUp, chatTool+`,"response_format":{"type":"json_object"}`), ""},
	{"POST", "/v1/chat/completions", says(lookUp, chatTool+`,"response_format":{"type":"json_object"},"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(explain, chatTool+`,"rationale":true,"reasoning":"full"`), ""},
	{"POST", "/v1/chat/completions", says(explain, chatTool+`,"rationale":true,"reasoning":"full","stream":true`), ""},
	{"POST", "/v1/chat/completions", says(cut, chatTool+`,"max_tokens":40,"n":2`), ""},
	{"POST", "/v1/chat/completions", says(cut, chatTool+`,"max_tokens":40,"n":2,"stream":true`), ""},
	{"POST", "/v1/chat/completions",
		`{"model":"broken","stream":true,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, ""},
	{"POST", "/v1/chat/completions", says(handOver, chatTool+delegateAny), ""},
	{"POST", "/v1/chat/completions", says(handOver, chatTool+delegateAny+`,"stream":true`), ""},
	{"POST", "/v1/chat/completions", says(question,
		`,"delegation":{"agent_prompt":"You check sums.","mark_intermediate":false}`), ""},
	{"POST", "/v1/completions", `{"prompt":"Once upon a time","logprobs":2,"n":2}`, ""},
	{"POST", "/v1/completions", `{"prompt":["Once upon a time"],"echo":true,"max_tokens":2}`, ""},
	{"POST", "/v1/completions",
		`{"prompt":"Once upon a time","logprobs":2,"stream":true,"stream_options":{"include_usage":true}}`, ""},
	{"POST", "/v1/completions",
		`{"prompt":"Once upon a time","echo":true,"logprobs":1,"prompt_logprobs":1,"max_tokens":0}`, ""},
	{"POST", "/v1/completions", `{"prompt":"Once upon a time","stop":"was","stream":true}`, ""},
	{"POST", "/v1/completions", `{"prompt":"Once upon a time","stop":"was","regex":" there was[.]","n":2}`, ""},
	{"POST", "/v1/completions", `{"prompt":"Once upon a time","stop":"was","regex":" there was[.]"}`, ""},
	{"POST", "/v1/completions", `{"prompt":"Once upon a time","stop":"was","regex":" there was[.]","stream":true}`, ""},
	{"POST", "/v1/completions", `{"model":"broken","stream":true,"prompt":"Once upon a time"}`, ""},
	{"POST", "/infill", `{"model":"code","input_prefix":"a","input_suffix":"b","mirostat":1}`, ""},
	{"POST", "/infill", `{"model":"code","input_prefix":"a","n_predict":1}`, ""},
	{"POST", "/infill", `{"model":"code","input_prefix":"a","stream":true}`, ""},
	{"POST", "/v1/embeddings", `{"input":["a","b"]}`, ""},
	{"POST", "/v1/embeddings", `{"input":[1,2],"encoding_format":"base64"}`, ""},
	{"GET", "/v1/models", "", ""}, {"GET", "/v1/models/demo", "", ""},
	{"GET", "/v1/models", "", "Anthropic-Version: 2023-06-01"},
	{"GET", "/v1/models/demo", "", "Anthropic-Version: 2023-06-01"},

	{"POST", "/v1/messages", says(question, `,"max_tokens":200`), ""},
	{"POST", "/v1/messages", says(question, `,"max_tokens":200,"thinking":{"type":"adaptive"},"stream":true`), ""},
	{"POST", "/v1/messages", says(question, `,"max_tokens":200,"thinking":{"type":"adaptive","display":"summarized"}`),
		""},
	{"POST", "/v1/messages", says(question, `,"max_tokens":200,"thinking":{"type":"adaptive","display":"omitted"}`), ""},
	{"POST", "/v1/messages",
		says(question,
			`,"max_tokens":200,"thinking":{"type":"adaptive","display":"omitted"},"stream":true,"stop_sequences":["42"]`), ""},
	{"POST", "/v1/messages", says(lookUp, anthropicTool), ""},
	{"POST", "/v1/messages", says(cut, cutTool+`,"stream":true`), ""}, {"POST", "/v1/messages", says(cut, cutTool), ""},
	{"POST", "/v1/messages",
		`{"model":"broken","stream":true,"max_tokens":200,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, ""},
	{"POST", "/v1/messages/count_tokens", says(question, ""), ""}, {"GET", "/api/hello", "", ""},

	{"POST", "/api/chat",
		says(question, `,"stream":false,"think":true,"logprobs":true,"top_logprobs":2,"options":{"num_ctx":100000}`), ""},
	{"POST", "/api/chat", says(question, `,"think":true,"logprobs":true`), ""},
	{"POST", "/api/chat", says(lookUp, chatTool), ""},
	{"POST", "/api/chat", says(cut, chatTool+`,"options":{"num_predict":40},"stream":false`), ""},
	{"POST", "/api/chat", `{"model":"demo"}`, ""},
	{"POST", "/api/chat", `{"model":"broken","messages":[{"role":"user","content":"What is 17 + 25?"}]}`, ""},
	{"POST", "/api/generate",
		`{"model":"demo","prompt":"What is 17 + 25?","stream":false,"think":true,"logprobs":true,` +
			`"options":{"num_ctx":100000}}`, ""},
	{"POST", "/api/generate", `{"model":"demo","prompt":"What is 17 + 25?","think":true,"logprobs":true}`, ""},
	{"POST", "/api/generate", `{"model":"broken","prompt":"What is 17 + 25?"}`, ""},
	{"POST", "/api/embed", `{"model":"demo","input":"a"}`, ""},
	{"POST", "/api/embeddings", `{"model":"demo","prompt":"a"}`, ""},
	{"GET", "/api/tags", "", ""}, {"GET", "/api/ps", "", ""}, {"POST", "/api/show", `{"model":"demo"}`, ""},
	{"GET", "/api/version", "", ""},
	{"POST", "/v1/chat/completions", says(patchIt, customTool), ""},
	{"POST", "/v1/chat/completions", says(patchIt, customTool+`,"stream":true`), ""},
	{"POST", "/v1/responses", `{"input":"Look in n."` + grouped, ""},
	{"POST", "/v1/responses", `{"input":"Patch in n."` + grouped, ""},
	{"POST", "/v1/responses", customResponse + `}`, ""}, {"POST", "/v1/responses", customResponse + `,"stream":true}`, ""},
	{"POST", "/api/pull", `{"model":"demo"}`, ""}, {"POST", "/api/pull", `{"model":"demo","stream":false}`, ""},

	{"POST", "/v1/responses",
		`{"input":"What is 17 + 25?","reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content",` +
			`"message.output_text.logprobs","elsewhere"],"top_logprobs":2}`, ""},
	{"POST", "/v1/responses",
		`{"input":"What is 17 + 25?","reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content",` +
			`"message.output_text.logprobs","elsewhere"],"top_logprobs":2,"stream":true}`, ""},
	{"POST", "/v1/responses",
		`{"input":"What is 17 + 25?","reasoning":"full","reasoning_budget":3,"text":{"verbosity":"low"},` +
			`"metadata":{"a":"b"}}`, ""},
	{"POST", "/v1/responses",
		`{"input":"What is 17 + 25?","reasoning":"full","reasoning_budget":3,"text":{"verbosity":"low"},` +
			`"metadata":{"a":"b"},"stream":true}`, ""},
	{"POST", "/v1/responses", `{"input":"What is 17 + 25?","reasoning":"full","reasoning_strategy":"json"}`, ""},
	{"POST", "/v1/responses", `{"input":"What is 17 + 25?","reasoning":"summary","reasoning_effort":"none"}`, ""},
	{"POST", "/v1/responses", `{"input":"What is 17 + 25?","reasoning":"full","reasoning_strategy":"markers"}`, ""},
	{"POST", "/v1/responses", `{"input":"What is 17 + 25?","max_output_tokens":2,"stream":true}`, ""},
	{"POST", "/v1/responses", `{"input":"Look it up."` + responseTool + `}`, ""},
	{"POST", "/v1/responses", `{"input":"Look it up.","stream":true` + responseTool +
		`,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"look"}]}}`, ""},
	{"POST", "/v1/responses", `{"input":"Say why.","rationale":true,"reasoning":"full"` + responseTool + `}`, ""},
	{"POST", "/v1/responses", `{"input":"Say it at length.","max_output_tokens":40` + responseTool + `}`, ""},
	{"POST", "/v1/responses", `{"model":"broken","input":"What is 17 + 25?","stream":true}`, ""},
	{"POST", "/v1/responses", `{"stream":true,"input":"` + strings.Repeat("long ", 40_000) + `"}`, ""},
	{"POST", "/v1/responses", `{"input":"What is 17 + 25?"` + traceIt + `}`, ""},
	{"POST", "/v1/responses/input_tokens", `{"input":"What is 17 + 25?"}`, ""},

	{"POST", "/agui", agent(question, traceIt[1:], `,"parentRunId":"p"`), ""},
	{"POST", "/agui",
		agent(question, `"reasoning":"full","reasoning_seal":true,"reasoning_budget":3,"reasoning_effort":"low"`, ""), ""},
	{"POST", "/agui", agent(question, delegateIt[1:], `,"protocolVersion":"1.0"`), ""},
	{"POST", "/agui", agent(lookUp, delegateIt[1:], aguiTool+`,"protocolVersion":"1.0"`), ""},
	{"POST", "/agui", agent(question, `"model":"broken"`+delegateIt, `,"protocolVersion":"1.0"`), ""},
	{"POST", "/agui", agent(question, delegateIt[1:], ""), ""},
	{"POST", "/agui", agent(question, `"reasoning":"summary","chunks":true`, ""), ""},
	{"POST", "/agui", agent(question, `"reasoning":"full","legacy_thinking":true`, ""), ""},
	{"POST", "/agui", agent(question, `"reasoning":"full","reasoning_strategy":"markers"`, ""), ""},
	{"POST", "/agui", agent(question, `"reasoning":"full","reasoning_strategy":"json"`, ""), ""},
	{"POST", "/agui", agent(lookUp, `"reasoning_seal":true`, aguiTool+`,"protocolVersion":"1.0"`), ""},
	{"POST", "/agui", agent(lookUp, `"interrupts":true`, aguiTool+`,"protocolVersion":"1.0"`), ""},
	{"POST", "/agui", agent(cut, `"max_tokens":40`, aguiTool), ""},
	{"POST", "/agui", agent(question, `"model":"broken"`, ""), ""},
	{"POST", "/agui",
		`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"a","encryptedValue":"x"}]}`, ""},

	{"GET", "/", "", "Accept: text/html"}, {"GET", "/web/main.js", "", ""}, {"GET", "/web/style.css", "", ""},
	{"GET", "/web/icon.svg", "", ""}, {"GET", "/web/index.html", "", ""}, {"GET", "/web/session", "", ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"full"`+sealIt+traceIt), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"summary"`), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"full","reasoning_strategy":"json","max_tokens":60`), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"full","reasoning_strategy":"json"`), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"full","reasoning_strategy":"markers"`), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"reasoning":"full","reasoning_budget":3`), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"schema":{"type":"object","properties":{"a":{"const":1}}}`), ""},
	{"POST", "/web/chat", chatOnPage(question, delegateIt), ""},
	{"POST", "/web/chat",
		chatOnPage(question, `,"delegation":{"agent_prompt":"You check.","mark_intermediate":false}`), ""},
	{"POST", "/web/chat", chatOnPage(lookUp, delegateIt+aguiTool), ""},
	{"POST", "/web/chat", chatOnPage(explain, `,"reasoning":"full","rationale":true`+aguiTool), ""},
	{"POST", "/web/chat", chatOnPage(question, `,"model":"broken"`), ""},
	{"POST", "/web/render", `{"texts":[{"text":"**a**"},{"text":"{}","json":true}]}`, ""}, {"GET", "/web/figures", "", ""},
}

// chatOnPage is a request of the page.
func chatOnPage(question, more string) string {
	return fmt.Sprintf(`{"conversation":"c","messages":[{"role":"user","content":%q}]%s}`, question, more)
}

// unseen are parts of answers that never come, because their schema also describes other things.
var unseen = []string{
	"#/paths/~1infill/post/responses/200/content/text~1event-stream/schema/oneOf/1", // as in a stream of completions
	// An error in a stream names no field.
	"#/components/schemas/OllamaError/properties/param",
	"#/components/schemas/AnthropicErrorDetail/properties/details/properties/param",
	// No model here states assumptions.
	"#/paths/~1web~1chat/post/responses/200/content/text~1event-stream/schema/oneOf/10",
	"#/components/schemas/WebAssumption", "#/components/schemas/WebAssumption/properties/type",
	"#/components/schemas/WebAssumption/properties/assumption",
	"#/components/schemas/WebAssumption/properties/assumption/properties/assumption",
	"#/components/schemas/WebAssumption/properties/assumption/properties/because",
	// Requests may have these.
	"#/components/schemas/OllamaToolCall/properties/function/properties/arguments/oneOf/1",
	"#/components/schemas/ResponseInputPart/properties/refusal",
}

func TestAnswersMatchSchemas(t *testing.T) {
	s := start(t, options{})
	s.ready(t)
	for _, e := range exchanges {
		a := s.ask(t, e.method, e.path, e.body, e.header)
		if a.status != 200 {
			t.Errorf("%s %s: %d: %s", a.op, e.body, a.status, a.body)
			continue
		}
		s.check(t, a)
	}
	s.keeping(t)
	s.tracing(t)
	s.taking(t)
	s.changing(t)
	forgetful := start(t, options{events: 1})
	forgetful.check(t, forgetful.ask(t, "POST", "/v1/responses",
		`{"input":"What is 17 + 25?","background":true,"stream":true}`))
	damaged := start(t, options{damaged: true})
	health := func() *answer { return damaged.ask(t, "GET", "/health", "") }
	for a := health(); !strings.Contains(string(a.body), "reason"); a = health() {
		damaged.ask(t, "POST", "/v1/chat/completions", says(question, ""))
		damaged.check(t, a)
	}
	damaged.check(t, damaged.ask(t, "GET", "/health", ""))
	for pointer := range s.answerParts() {
		if known := slices.Contains(unseen, pointer); (s.seen[pointer] || forgetful.seen[pointer] ||
			damaged.seen[pointer]) == known {
			t.Errorf("%s: in an answer: %v; listed as unseen: %v", pointer, known, known)
		}
	}
}

// keeping sends every request about stored responses.
func (s *site) keeping(t *testing.T) {
	t.Helper()
	var made struct{ ID string }
	create := func(body string) {
		a := s.ask(t, "POST", "/v1/responses", body)
		s.check(t, a)
		for _, text := range frames(t, a) {
			var event struct{ Response *struct{ ID string } }
			if err := json.Unmarshal(text, &event); err != nil {
				t.Fatal(err)
			}
			if event.Response != nil {
				made.ID = event.Response.ID
			} else if made.ID == "" {
				_ = json.Unmarshal(text, &made)
			}
		}
	}
	create(
		`{"input":[{"role":"user","content":"Look it up."},{"type":"function_call","call_id":"c","name":"look",` +
			`"arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x"}]},` +
			`{"type":"function_call","call_id":"d","name":"look","arguments":"{}"},{"type":"function_call_output",` +
			`"call_id":"d","output":"x"},` +
			`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user",` +
			`"content":"What is 17 + 25?"}],"background":true,"stream":true,"instructions":"Be brief.","reasoning":"full"}`)
	for _, request := range [][2]string{
		{"GET", ""}, {"GET", "?stream=true&starting_after=1"}, {"POST", "/cancel"}, {"GET", "/input_items"},
		{"GET", "/input_items?limit=1&order=asc"}, {"DELETE", ""},
	} {
		a := s.ask(t, request[0], "/v1/responses/"+made.ID+request[1], "")
		if s.check(t, a); a.status != 200 {
			t.Errorf("%s %s: %d: %s", request[0], request[1], a.status, a.body)
		}
	}
}

// tracing sends every request about traces.
func (s *site) tracing(t *testing.T) {
	t.Helper()
	see := func(method, path string, status int) *answer {
		a := s.ask(t, method, path, "")
		if s.check(t, a); a.status != status {
			t.Errorf("%s %s: %d: %s", method, path, a.status, a.body)
		}
		return a
	}
	var list struct {
		Data []struct {
			ID    string
			Bytes int
		}
	}
	if err := json.Unmarshal(see("GET", "/v1/traces?order=asc", 200).body, &list); err != nil || len(list.Data) < 4 {
		t.Fatalf("%d traces, %v", len(list.Data), err)
	}
	first := "/v1/traces/" + list.Data[0].ID
	see("GET", first, 200)
	if a := see("GET", first+"/content", 200); a.kind != "application/octet-stream" || len(a.body) != list.Data[0].Bytes {
		t.Errorf("%d bytes of %s, want %d", len(a.body), a.kind, list.Data[0].Bytes)
	}
	see("DELETE", first, 200)
	see("GET", first, 200)
	see("GET", first+"/content", 410)
	see("GET", "/v1/traces?after="+list.Data[len(list.Data)-1].ID+"&order=asc", 200)
	for _, query := range []string{"limit=0", "order=up", "after=x", "after=00000000000000000000000000000000"} {
		see("GET", "/v1/traces?"+query, 400)
	}
	for _, request := range [][2]string{{"GET", ""}, {"GET", "/content"}, {"DELETE", ""}} {
		see(request[0], "/v1/traces/00000000000000000000000000000000"+request[1], 404)
		see(request[0], "/v1/traces/latest"+request[1], 404)
	}
}

// taking gets every answer of a space.
func (s *site) taking(t *testing.T) {
	t.Helper()
	see := func(status int, method, path, body string, header ...string) {
		t.Helper()
		a := s.ask(t, method, path, body, header...)
		if s.check(t, a); a.status != status {
			t.Errorf("%s %s: %d: %s", method, path, a.status, a.body)
		}
	}
	const path = "/participants/alice/messages"
	mine, wrong := "Authorization: Bearer "+s.tokens["alice"], "Authorization: Bearer wrong-wrong-wrong-wrong"
	see(202, "POST", path, `{"kind":"chat","payload":{"text":"a"}}`, mine)
	see(202, "POST", path+"?space=local",
		`{"protocol":"mew/v0.4","id":"1","ts":"2026-01-01T00:00:00Z","from":"alice","to":["runner"],"kind":"chat",`+
			`"correlation_id":["q"],"payload":{}}`, mine)
	for status, body := range map[int]string{400: `{"kind":"chat"`, 403: `{"kind":"reasoning/cancel","payload":{}}`,
		404: `{"kind":"chat","to":["nobody"],"payload":{}}`, 413: strings.Repeat(" ", envelope.MaxSize+1)} {
		see(status, "POST", path, body, mine)
	}
	see(401, "POST", path, `{}`)
	see(403, "POST", path, `{}`, wrong)
	see(403, "POST", "/participants/flood/messages", `{}`, mine)
	see(404, "POST", path+"?space=elsewhere", `{}`, mine)
	see(415, "POST", path, `{}`, mine, "Content-Encoding: gzip")
	see(403, "GET", "/ws", "", wrong)
	see(404, "GET", "/ws?space=elsewhere", "", mine)
	see(426, "GET", "/ws", "", mine)
	see(400, "GET", "/ws", "", mine, "Connection: Upgrade", "Upgrade: websocket")
	ws, res, err := websocket.Dial(t.Context(), s.url+"/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.tokens["alice"]}}})
	if err != nil {
		t.Fatal(err)
	}
	described := asObject(s.operation(t, "GET", "/ws").object["responses"])
	if described[fmt.Sprint(res.StatusCode)] == nil {
		t.Errorf("GET /ws: %d is not described", res.StatusCode)
	}
	_ = ws.CloseNow()
	if res.Body != nil {
		_ = res.Body.Close() // only its status matters
	}
	limited := false
	for range 200 {
		a := s.ask(t, "POST", "/participants/flood/messages", `{"kind":"x","payload":{}}`, "Authorization: Bearer "+
			s.tokens["flood"])
		s.check(t, a)
		limited = limited || a.status == 429
	}
	if !limited {
		t.Error("200 messages at once are not too many")
	}
}

func TestExamplesAreAnswered(t *testing.T) {
	s := start(t, options{})
	for _, o := range s.doc.operations() {
		content := asObject(asObject(asObject(o.object["requestBody"])["content"])["application/json"])
		if o.object["requestBody"] == nil {
			continue
		}
		var examples []any
		if content["example"] != nil {
			examples = append(examples, content["example"])
		}
		for _, e := range asObject(content["examples"]) {
			examples = append(examples, asObject(e)["value"])
		}
		if len(examples) == 0 {
			t.Errorf("%s has no example", o)
		}
		pointer := "#/paths/" + strings.ReplaceAll(o.path, "/", "~1") + "/" + strings.ToLower(o.method) +
			"/requestBody/content/application~1json/schema"
		for _, e := range examples {
			if err := s.open.at(t, pointer).Validate(e); err != nil {
				t.Errorf("%s: %v: %#v", o, e, err)
			}
			body, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var token string
			if o.scope() == string(wire.ScopeOwn) {
				token = "Authorization: Bearer " + s.tokens["alice"]
			}
			a := s.ask(t, o.method, strings.Replace(o.path, "{id}", "alice", 1), string(body), token)
			if s.check(t, a); a.status != 200 && a.status != 202 {
				t.Errorf("%s: %s: %d %s", o, body, a.status, a.body)
			}
		}
	}
}

func TestErrorsMatchSchemas(t *testing.T) {
	keys := makeKeys(t)
	s := start(t, options{keys: keys.set, maxBody: 4096})
	seen := map[string]bool{}
	see := func(a *answer, status int) {
		t.Helper()
		if s.check(t, a); a.status != status {
			t.Errorf("%s: %d, want %d: %s", a.op, a.status, status, a.body)
		}
		seen[fmt.Sprint(a.op, a.status)] = true
		if status == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("%s: 429 does not say when to try again", a.op)
		}
	}
	for _, o := range s.doc.operations() {
		path := strings.NewReplacer("{id}", "nothing", "{digest}", "x").Replace(o.path)
		s.key = keys.all
		responses := asObject(o.object["responses"])
		see(s.ask(t, o.method, path, "{}", "Origin: https://elsewhere.example"), 403)
		if o.scope() == string(wire.ScopeOwn) {
			see(s.ask(t, o.method, path, "{}", "Authorization: Bearer "+s.key), 403)
			continue // the rest comes with its answers
		}
		if o.scope() != "" {
			if s.key = keys.figures; o.scope() == "metrics" {
				s.key = keys.vectors
			}
			see(s.ask(t, o.method, path, "{}"), 403)
			s.key = ""
			see(s.ask(t, o.method, path, "{}"), 401)
			see(s.ask(t, o.method, path, "{}", "Authorization: Bearer wrong-wrong-wrong-wrong"), 401)
			s.key = keys.all
		}
		if responses["413"] != nil {
			see(s.ask(t, o.method, path, `{"model":"`+strings.Repeat("a", 5000)+`"}`), 413)
			see(s.ask(t, o.method, path, `{"model":`), 400)
			see(s.ask(t, o.method, path, "{}", "Content-Encoding: gzip"), 415)
		}
		if responses["501"] != nil && responses["200"] == nil {
			see(s.ask(t, o.method, path, `{}`), 501)
		}
		if responses["429"] != nil {
			s.key = keys.once
			s.ask(t, o.method, path, `{}`)
			see(s.ask(t, o.method, path, `{}`), 429)
		}
	}
	s.key = ""
	see(s.ask(t, "GET", "/openapi.json", ""), 200)
	s.key = keys.all
	for _, c := range []struct {
		method, path, body, header string
		status                     int
	}{
		{"GET", "/v1/models?limit=0", "", "Anthropic-Version: 1", 400},
		{"GET", "/v1/models/nothing", "", "Anthropic-Version: 1", 404}, {"GET", "/v1/models/nothing", "", "", 404},
		{"GET", "/props?model=nothing", "", "", 404}, {"POST", "/tokenize", `{"model":"nothing"}`, "", 404},
		{"POST", "/v1/chat/completions", says(question, `,"n":17`), "", 400},
		{"POST", "/v1/chat/completions", strings.Replace(says(question, ""), "demo", "nothing", 1), "", 404},
		{"POST", "/v1/messages", says(question, `,"max_tokens":0`), "", 400},
		{"POST", "/v1/messages", strings.Replace(says(question, `,"max_tokens":1`), "demo", "nothing", 1), "", 404},
		{"POST", "/api/chat", says(question, `,"options":{"seed":0.5}`), "", 400},
		{"POST", "/api/chat", strings.Replace(says(question, ""), "demo", "nothing", 1), "", 404},
		{"POST", "/api/chat", `{"model":"idle","keep_alive":0}`, "", 200}, {"GET", "/v1/responses/nothing", "", "", 404},
		{"DELETE", "/v1/responses/nothing", "", "", 404},
		{"POST", "/v1/responses", `{"input":5}`, "", 400},
		{"POST", "/v1/chat/completions", strings.Replace(says(question, ""), "demo", "broken", 1), "", 500},
		{"POST", "/v1/messages", strings.Replace(says(question, `,"max_tokens":100`), "demo", "broken", 1), "", 500},
		{"POST", "/api/chat", strings.Replace(says(question, `,"stream":false`), "demo", "broken", 1), "", 500},
		{"POST", "/v1/responses", `{"model":"broken","input":"What is 17 + 25?"}`, "", 500},
		{"POST", "/web/chat", chatOnPage(question, `,"seed":-1`), "", 400},
		{"POST", "/web/chat", chatOnPage(question, `,"model":"nothing"`), "", 404},
		{"GET", "/web/nothing", "", "", 404},
		{"POST", "/agui", agent(question, `"seed":-1`, ""), "", 400},
		{"POST", "/agui", agent(question, `"model":"nothing"`, ""), "", 404},
	} {
		see(s.ask(t, c.method, c.path, c.body, c.header), c.status)
	}
}
