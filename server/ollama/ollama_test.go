package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

const canary = "zebras gallop in pairs"

type served struct {
	*wiretest.Models
	url string
}

func serve(t *testing.T, cfg fake.Config, principal *wire.Principal, replies ...fake.Reply) served {
	t.Helper()
	s := served{Models: wiretest.New(t, cfg, replies...)}
	defaults := generation.Request{}
	defaults.Sampling.Temperature, defaults.Sampling.TopK = 0, 0
	s.url = wiretest.Serve(t, New(s.Models, Config{Config: wire.Config{Defaults: defaults}}), principal).URL
	return s
}

// ask sends a request and returns the status and the body.
func (s served) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	status, _, answer := wiretest.Send(t, method, s.url+path, body, nil)
	return status, answer
}

// get sends a request that must succeed and decodes the answer.
func (s served) get(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	status, answer := s.ask(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return m
}

// streamed sends a request and assembles its stream.
func (s served) streamed(t *testing.T, path, body string) (map[string]any, string) {
	t.Helper()
	status, answer := s.ask(t, http.MethodPost, path, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	m, err := reassemble(bytes.Split([]byte(strings.TrimSuffix(answer, "\n")), []byte("\n")))
	if err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return m, answer
}

// chat returns a request with a question and more fields.
func chat(question, more string) string {
	return fmt.Sprintf(`{"model":%q%s,"messages":[{"role":"user","content":%q}]}`, wiretest.Name, more, question)
}

func generate(prompt, more string) string {
	return fmt.Sprintf(`{"model":%q%s,"prompt":%q}`, wiretest.Name, more, prompt)
}

// unstreamed returns a request with stream false.
func unstreamed(body string) string { return strings.Replace(body, "{", `{"stream":false,`, 1) }

const tool = `,"tools":[{"type":"function","function":{"name":"get","description":"gets",` +
	`"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}]`

// count are arguments that a limit cuts in two.
var count = `{"a": ` + strings.Repeat("1", 200) + `}`

func replies() []fake.Reply {
	return []fake.Reply{
		{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		{After: wiretest.Ask("sum") + "<|channel|>final<|message|>", Say: "four<|return|>"},
		{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
		{After: wiretest.Ask("count"), Say: wiretest.Call("", "", "get", count)},
	}
}

func TestAnswers(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	for name, c := range map[string]struct{ question, more, content, thinking, calls string }{
		"hidden":  {"sum", "", "four", "", ""},
		"false":   {"sum", `,"think":false`, "four", "", ""},
		"true":    {"sum", `,"think":true`, "four", canary, ""},
		"level":   {"sum", `,"think":"high"`, "four", canary, ""},
		"stop":    {"sum", `,"options":{"stop":"ur"}`, "fo", "", ""},
		"call":    {"look", tool, "I look.", "", `{"a":1}`},
		"thought": {"look", tool + `,"think":true`, "I look.", canary, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			whole := s.get(t, http.MethodPost, "/api/chat", unstreamed(chat(c.question, c.more)))
			streamed, _ := s.streamed(t, "/api/chat", chat(c.question, c.more))
			for _, m := range []map[string]any{whole, streamed} {
				message := m["message"].(map[string]any)
				thinking, _ := message["thinking"].(string)
				calls := ""
				if list, ok := message["tool_calls"].([]any); ok {
					function := list[0].(map[string]any)["function"].(map[string]any)
					b, _ := json.Marshal(function["arguments"])
					calls = string(b)
				}
				if message["content"] != c.content || thinking != c.thinking || calls != c.calls || m["done_reason"] != "stop" ||
					message["role"] != "assistant" {
					t.Errorf("%v", m)
				}
			}
			if c.question != "sum" {
				return
			}
			whole = s.get(t, http.MethodPost, "/api/generate", unstreamed(generate(c.question, c.more)))
			streamed, _ = s.streamed(t, "/api/generate", generate(c.question, c.more))
			for _, m := range []map[string]any{whole, streamed} {
				if thinking, _ := m["thinking"].(string); m["response"] != c.content || thinking != c.thinking {
					t.Errorf("%v", m)
				}
			}
		})
	}
}

// A call that the limit cuts has no object as arguments. Its text stays in sight.
func TestCutCall(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	question := chat("count", tool+`,"options":{"num_predict":30}`)
	whole := s.get(t, http.MethodPost, "/api/chat", unstreamed(question))
	streamed, _ := s.streamed(t, "/api/chat", question)
	for _, m := range []map[string]any{whole, streamed} {
		message := m["message"].(map[string]any)
		said, _ := message["content"].(string)
		_, arguments, ok := strings.Cut(said, "get ")
		if message["tool_calls"] != nil || m["done_reason"] != "length" || !ok || arguments == count ||
			!strings.HasPrefix(count, arguments) {
			t.Errorf("%v", m)
		}
	}
}

// An answer goes on from a last message of the assistant, and has what it adds.
func TestAnswerGoesOnFromTheLastMessage(t *testing.T) {
	const begun = "<|start|>assistant<|channel|>final<|message|>Four"
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: begun, Say: " is it.<|return|>"})
	m := s.get(t, http.MethodPost, "/api/chat", `{"model":"`+wiretest.Name+`","stream":false,"messages":[
		{"role":"user","content":"q"},{"role":"assistant","content":"Four"}]}`)
	if !strings.HasSuffix(s.Prompt(t), begun) || !strings.Contains(fmt.Sprint(m), "content: is it.") {
		t.Errorf("after %q: %v", s.Prompt(t), m)
	}
}

func TestRequestReachesTheRunner(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	s.get(t, http.MethodPost, "/api/chat", `{"model":"`+wiretest.Name+`","stream":false,"think":"max","keep_alive":"5m",
			"logprobs":true,"top_logprobs":3,"unknown":1,
		"options":{"num_predict":50.0,"temperature":0.5,"top_k":7,"top_p":0.9,"min_p":0.1,"typical_p":0.8,"seed":42,
			"stop":["x"],"repeat_penalty":1.1,
			"presence_penalty":0.2,"frequency_penalty":0.3,"repeat_last_n":64,"num_ctx":4096,"num_gpu":1,"mirostat":2},
		"tools":[{"type":"function","function":{"name":"get"}},{"type":"browser"}],
		"messages":[
			{"role":"system","content":"Be kind."},
			{"role":"user","content":"one"},
			{"role":"assistant","content":"two","thinking":"old"},
			{"role":"user","content":"three"},
			{"role":"assistant","content":"I look.","thinking":"new","tool_calls":[
				{"function":{"name":"get","arguments":{"b":1,"a":2}}},
				{"id":"c2","function":{"name":"get","arguments":"{\"a\": "}}]},
			{"role":"tool","content":"7","tool_name":"get"},{"role":"tool","content":"8","tool_call_id":"c2"}]}`)
	r := s.Last()
	want := []chattemplate.Message{
		{Role: chattemplate.System, Content: "Be kind."},
		{Role: chattemplate.User, Content: "one"},
		{Role: chattemplate.Assistant, Content: "two", Reasoning: "old"},
		{Role: chattemplate.User, Content: "three"},
		{Role: chattemplate.Assistant, Preamble: "I look.", Reasoning: "new", ToolCalls: []chattemplate.ToolCall{
			{Name: "get", Arguments: `{"b":1,"a":2}`}, {ID: "c2", Name: "get", Arguments: `{"a": `}}},
		{Role: chattemplate.ToolRole, Content: "7", ToolName: "get"},
		{Role: chattemplate.ToolRole, Content: "8", ToolCallID: "c2"},
	}
	if !reflect.DeepEqual(r.Messages, want) {
		t.Errorf("messages %+v", r.Messages)
	}
	p := r.Sampling
	if r.MaxTokens != 50 || *r.Seed != 42 || r.Stop[0] != "x" || r.Effort != reasoning.EffortHigh ||
		r.Visibility != reasoning.VisibilityFull || len(r.Tools) != 1 ||
		!r.Logprobs || p.TopLogprobs != 3 || p.Temperature != 0.5 || p.TopK != 7 || p.TopP != 0.9 || p.MinP != 0.1 ||
		p.TypicalP != 0.8 ||
		p.RepetitionPenalty != 1.1 || p.PresencePenalty != 0.2 || p.FrequencyPenalty != 0.3 || p.PenaltyWindow != 64 {
		t.Errorf("request %+v", r)
	}
	s.get(t, http.MethodPost, "/api/chat", unstreamed(chat("a",
		`,"options":{"num_predict":-1,"top_k":-1,"seed":-1,"repeat_last_n":0,"repeat_penalty":1.5,"stop":[]}`)))
	if r := s.Last(); r.MaxTokens != 0 || r.Seed != nil || r.Sampling.TopK != 0 || r.Sampling.RepetitionPenalty != 0 ||
		r.Stop != nil {
		t.Errorf("request %+v", r)
	}
}

func TestFormats(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	schema := `{"type":"object","properties":{"a":{"const":4}},"required":["a"],"additionalProperties":false}`
	var v struct{ A float64 }
	m := s.get(t, http.MethodPost, "/api/generate", unstreamed(generate("sum", `,"think":false,"format":`+schema)))
	if err := json.Unmarshal([]byte(m["response"].(string)), &v); err != nil || v.A != 4 {
		t.Errorf("%v: %v", m, err)
	}
	m = s.get(t, http.MethodPost, "/api/generate",
		unstreamed(generate("sum", `,"options":{"num_predict":100},"format":"json"`)))
	if text := m["response"].(string); m["done_reason"] == "stop" && !json.Valid([]byte(text)) ||
		!strings.HasPrefix(text, "{") {
		t.Errorf("%v", m)
	}
}

// The server's defaults about reasoning do not keep raw prompts from being answered.
func TestRawPromptsBesideDefaults(t *testing.T) {
	models := wiretest.New(t, fake.Config{}, fake.Reply{After: "go", Say: " on<|end|>"})
	defaults := generation.Request{Effort: reasoning.EffortLow, Budget: 64, Rationale: true,
		Strategy: reasoning.StrategyNative, Visibility: reasoning.VisibilityFull}
	format := New(models, Config{Config: wire.Config{Defaults: defaults}})
	s := served{models, wiretest.Serve(t, format, wiretest.Anyone()).URL}
	m := s.get(t, http.MethodPost, "/api/generate", unstreamed(generate("go", `,"raw":true`)))
	if text := m["response"].(string); !strings.HasPrefix(text, " on") {
		t.Errorf("%v", m)
	}
}

func TestRawPrompts(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: "<|start|>user<|message|>go", Say: " on<|end|>"})
	m := s.get(t, http.MethodPost, "/api/generate", unstreamed(generate("<|start|>user<|message|>go", `,"raw":true`)))
	if text := m["response"].(string); !strings.HasPrefix(text, " on") {
		t.Errorf("%v", m)
	}
	s.get(t, http.MethodPost, "/api/generate",
		unstreamed(generate("<|start|>user<|message|>go", `,"raw":true,"think":false`)))
	p := wiretest.Anyone()
	p.Reasoning = reasoning.VisibilitySummary
	s = serve(t, fake.Config{}, p, fake.Reply{Say: ""})
	status, answer := s.ask(t, http.MethodPost, "/api/generate", generate("go", `,"raw":true`))
	if status != http.StatusForbidden || !strings.Contains(answer, "reasoning:full") {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestLogprobs(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	m, body := s.streamed(t, "/api/chat", chat("sum", `,"logprobs":true,"top_logprobs":2`))
	text := ""
	for _, l := range m["logprobs"].([]any) {
		l := l.(map[string]any)
		text += l["token"].(string)
		if len(l["top_logprobs"].([]any)) != 2 || l["logprob"].(float64) > 0 {
			t.Errorf("%v", l)
		}
	}
	if text != "four" || strings.Contains(body, "zebra") {
		t.Errorf("the tokens are %q of %s", text, body)
	}
}

func TestLoading(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone())
	for path, key := range map[string]string{"/api/chat": "message", "/api/generate": "response"} {
		m := s.get(t, http.MethodPost, path, `{"model":"`+wiretest.Name+`","keep_alive":-1}`)
		if _, ok := m[key]; !ok || m["done_reason"] != "load" || m["done"] != true {
			t.Errorf("%s: %v", path, m)
		}
		before := s.Unloads.Load()
		m = s.get(t, http.MethodPost, path, `{"model":"`+wiretest.Name+`","keep_alive":0}`)
		if _, ok := m[key]; !ok || m["done_reason"] != "unload" || m["done"] != true || s.Unloads.Load() != before+1 {
			t.Errorf("%s: %v", path, m)
		}
		status, answer := s.ask(t, http.MethodPost, path, `{"model":"nothing","keep_alive":0}`)
		if status != http.StatusNotFound {
			t.Errorf("%s: status %d: %s", path, status, answer)
		}
	}
}

// A request can unload the model after its answer, if its key may.
func TestUnloadingAfterAnAnswer(t *testing.T) {
	for _, may := range []bool{true, false} {
		p := wiretest.Anyone()
		if !may {
			p.Scopes = []wire.Scope{wire.ScopeGenerate}
		}
		s := serve(t, fake.Config{}, p, replies()...)
		m := s.get(t, http.MethodPost, "/api/chat", unstreamed(chat("sum", `,"keep_alive":0`)))
		if n := s.Unloads.Load(); (n == 1) != may || (m["warnings"] == nil) != may {
			t.Errorf("%v: unloaded %d times, warnings %v", may, n, m["warnings"])
		}
	}
}

func TestWarnings(t *testing.T) {
	s := serve(t, fake.Config{ContextSize: 512}, wiretest.Anyone(), replies()...)
	m := s.get(t, http.MethodPost, "/api/chat",
		unstreamed(chat("sum", `,"keep_alive":"0s","options":{"num_ctx":131072},"tools":[{"type":"browser"}]`)))
	var codes []string
	for _, w := range m["warnings"].([]any) {
		codes = append(codes, w.(map[string]any)["code"].(string))
	}
	if got := strings.Join(codes, " "); got != "unknown_tool_type num_ctx" {
		t.Errorf("warnings %s", got)
	}
}

// An image in a history does not end a conversation: a note takes its place.
func TestImagesInAHistoryAreNoted(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	m := s.get(t, http.MethodPost, "/api/chat", `{"model":"`+wiretest.Name+`","stream":false,"messages":[`+
		`{"role":"user","content":"see","images":["AAAA","BBBB"]},{"role":"assistant","content":"no"},`+
		`{"role":"user","content":"sum"}]}`)
	w := fmt.Sprint(m["warnings"])
	if !strings.Contains(w, "media_skipped") || !strings.Contains(w, "messages[0].images") {
		t.Errorf("warnings %s", w)
	}
	if said := s.Last().Messages[0].Content; !strings.HasPrefix(said, "[image: ") || !strings.HasSuffix(said, "]\nsee") {
		t.Errorf("the message is %q", said)
	}
}

// A client that did not ask for reasoning gets none of it.
func TestNoReasoningLeaks(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies()...)
	for _, more := range []string{"", `,"think":false`, `,"think":null`, `,"logprobs":true,"top_logprobs":20`} {
		for path, body := range map[string]string{"/api/chat": chat("sum", more), "/api/generate": generate("sum", more)} {
			for _, body := range []string{body, unstreamed(body)} {
				_, answer := s.ask(t, http.MethodPost, path, body)
				for _, word := range strings.Fields(canary) {
					if len(word) > 3 && strings.Contains(answer, word) {
						t.Errorf("%s: %s", body, answer)
					}
				}
			}
		}
	}
}

func TestVisibilityIsCapped(t *testing.T) {
	p := wiretest.Anyone()
	p.Reasoning = reasoning.VisibilitySummary
	s := serve(t, fake.Config{}, p, replies()...)
	status, answer := s.ask(t, http.MethodPost, "/api/chat", chat("sum", `,"think":true`))
	if status != http.StatusForbidden || !strings.Contains(answer, "reasoning:full") {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, fake.Config{ContextSize: 512}, wiretest.Anyone(), fake.Reply{Say: ""})
	with := func(messages string) string {
		return `{"model":"` + wiretest.Name + `","messages":` + messages + `}`
	}
	for _, c := range []struct{ path, body, param string }{
		{"chat", `{"messages":[]}`, "model"},
		{"chat", with(`7`), "messages"},
		{"chat", with(`[7]`), "messages[0]"},
		{"chat", with(`[{"role":"robot","content":"a"}]`), "messages[0].role"},
		{"chat", with(`[{"role":"user","content":[{"type":"text"}]}]`), "messages[0].content"},
		{"chat", with(`[{"role":"user","content":"a"},{"role":"user","content":"a","images":["AAAA"]}]`),
			"messages[1].images"},
		{"chat", with(`[{"role":"tool","content":"a"}]`), "messages"},
		{"chat", chat("a", `,"think":"loud"`), "think"},
		{"chat", chat("a", `,"think":1`), "think"},
		{"chat", chat("a", `,"format":"xml"`), "format"},
		{"chat", chat("a", `,"format":7`), "format"},
		{"chat", chat("a", `,"format":{"type":"thing"}`), "format"},
		{"chat", chat("a", `,"top_logprobs":21`), "top_logprobs"},
		{"chat", chat("a", `,"top_logprobs":"many"`), "top_logprobs"},
		{"generate", generate("a", `,"stream":"yes"`), "stream"},
		{"chat", chat("a", `,"keep_alive":"soon"`), "keep_alive"},
		{"chat", chat("a", `,"keep_alive":{}`), "keep_alive"},
		{"chat", chat("a", `,"options":7`), "options"},
		{"chat", chat("a", `,"options":{"temperature":"hot"}`), "options.temperature"},
		{"chat", chat("a", `,"options":{"temperature":-1}`), "options.temperature"},
		{"chat", chat("a", `,"options":{"temperature":2.1}`), "options.temperature"},
		{"chat", chat("a", `,"options":{"top_p":2}`), "options.top_p"},
		{"chat", chat("a", `,"options":{"seed":1.5}`), "options.seed"},
		{"chat", chat("a", `,"options":{"num_predict":1e300}`), "options.num_predict"},
		{"chat", chat("a", `,"options":{"stop":7}`), "options.stop"},
		{"chat", chat("a", `,"options":{"stop":["a",""]}`), "options.stop[1]"},
		{"chat", chat("a", `,"options":{"stop":`+strings.Replace(strings.Repeat(`,"a"`, 17), ",", "[", 1)+`]}`),
			"options.stop"},
		{"chat", chat("a", `,"tools":[7]`), "tools[0]"},
		{"chat", chat("a", `,"tools":[{"function":{"name":"f","parameters":[]}}]`), "tools[0].function.parameters"},
		{"chat", chat(strings.Repeat("a ", 600), ""), "messages"},
		{"generate", generate("a", `,"suffix":"b"`), "suffix"},
		{"generate", generate("a", `,"template":"b"`), "template"},
		{"generate", generate("a", `,"context":[1]`), "context"},
		{"generate", generate("a", `,"images":["AAAA"]`), "images"},
		{"generate", generate("a", `,"raw":true,"system":"b"`), "system"},
		{"generate", generate("a", `,"raw":true,"think":true`), "think"},
		{"generate", `{"prompt":"a"}`, "model"},
		{"generate", `{`, ""},
		{"embed", `{"model":"` + wiretest.Name + `","input":[7]}`, "input[0]"},
		{"embed", `{"model":"` + wiretest.Name + `","input":7}`, "input"},
		{"embed", `{"model":"` + wiretest.Name + `","input":["a",""]}`, "input[1]"},
		{"embed", `{"model":"` + wiretest.Name + `","input":"a","dimensions":100000}`, "dimensions"},
		{"embed", `{"model":"` + wiretest.Name + `","truncate":false,"input":["a","` + strings.Repeat("a ", 600) + `"]}`,
			"input[1]"},
		{"embed", `{"input":"a"}`, "model"},
		{"show", `{}`, "model"},
	} {
		status, answer := s.ask(t, http.MethodPost, "/api/"+c.path, c.body)
		var e ErrorResponse
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusBadRequest || e.Param != c.param ||
			!strings.HasPrefix(e.Error, c.param) && e.Code != wire.CodeContextLength {
			t.Errorf("%.150s:\nstatus %d: %s", c.body, status, answer)
		}
	}
	for _, path := range []string{"chat", "generate", "embed", "embeddings", "show"} {
		if status, answer := s.ask(t, http.MethodPost, "/api/"+path, `{"model":"nobody"}`); status != http.StatusNotFound ||
			!strings.Contains(answer, "model 'nobody' not found") {
			t.Errorf("%s: status %d: %s", path, status, answer)
		}
	}
	for path, method := range map[string]string{"pull": "POST", "push": "POST", "create": "POST", "copy": "POST",
		"delete": "DELETE", "blobs/sha256:0": "POST"} {
		status, answer := s.ask(t, method, "/api/"+path, `{"model":"a","source":"a","destination":"b"}`)
		if status != http.StatusNotImplemented || strings.Contains(answer, "`") ||
			!strings.Contains(answer, `"error":"this server does not support that: `) {
			t.Errorf("%s: status %d: %s", path, status, answer)
		}
	}
}

// Pulling a served model succeeds under any of its names. Other models are not downloaded.
func TestPull(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone())
	const lines = `{"status":"pulling manifest"}` + "\n" + `{"status":"success"}` + "\n"
	for body, want := range map[string]string{
		`{"model":"` + wiretest.Name + `"}`:                                lines,
		`{"name":"` + wiretest.Name + `:latest","insecure":true}`:          lines,
		`{"model":"` + wiretest.Name + `","stream":false}`:                 `{"status":"success"}`,
		`{"model":"` + wiretest.Name + `","name":"nobody","stream":false}`: `{"status":"success"}`,
	} {
		if status, answer := s.ask(t, http.MethodPost, "/api/pull", body); status != http.StatusOK || answer != want {
			t.Errorf("%s: status %d: %s", body, status, answer)
		}
	}
	for body, want := range map[string]int{
		`{"model":"nobody"}`: http.StatusNotImplemented, `{"model":"nobody","stream":false}`: http.StatusNotImplemented,
		`{}`: http.StatusBadRequest, `{"model":7}`: http.StatusBadRequest,
	} {
		status, answer := s.ask(t, http.MethodPost, "/api/pull", body)
		if status != want || !strings.HasPrefix(answer, `{"error":"`) {
			t.Errorf("%s: status %d: %s", body, status, answer)
		}
	}
	hidden := serve(t, fake.Config{}, &wire.Principal{ID: "k", Scopes: wire.Scopes(nil), Models: []string{"other"}})
	status, answer := hidden.ask(t, http.MethodPost, "/api/pull", `{"model":"`+wiretest.Name+`"}`)
	if status != http.StatusForbidden {
		t.Errorf("a key that may not use the model: status %d: %s", status, answer)
	}
}

// If a model breaks during its answer, the stream ends with an error line.
func TestBrokenModel(t *testing.T) {
	cfg := fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step > 8 {
			return errors.New("out of order")
		}
		return nil
	}}
	s := serve(t, cfg, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("sum"),
		Say: wiretest.Think("", "a long answer that never ends")})
	status, answer := s.ask(t, http.MethodPost, "/api/chat", chat("sum", ""))
	all := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	if status != http.StatusOK || len(all) < 2 || !strings.HasPrefix(all[len(all)-1], `{"error":"`) ||
		strings.Contains(answer, "out of order") {
		t.Errorf("status %d: %s", status, answer)
	}
	if status, answer := s.ask(t, http.MethodPost, "/api/chat",
		unstreamed(chat("sum", ""))); status != http.StatusInternalServerError || !strings.HasPrefix(answer, `{"error":"`) {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestModels(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone())
	for _, path := range []string{"/api/tags", "/api/ps"} {
		list := s.get(t, http.MethodGet, path, "")["models"].([]any)
		m := list[0].(map[string]any)
		if m["name"] != wiretest.Name || m["model"] != wiretest.Name || m["size"] != float64(1<<20) || m["digest"] == "" ||
			m["details"].(map[string]any)["parameter_size"] != "1K" {
			t.Errorf("%s: %v", path, m)
		}
	}
	m := s.get(t, http.MethodGet, "/api/ps", "")["models"].([]any)[0].(map[string]any)
	if m["expires_at"] != "9999-12-31T23:59:59Z" || m["size_vram"] != 0.0 || m["context_length"] != 8192.0 {
		t.Errorf("/api/ps: %v", m)
	}
	for _, field := range []string{"model", "name"} {
		m := s.get(t, http.MethodPost, "/api/show", fmt.Sprintf(`{%q:%q}`, field, wiretest.Name))
		info := m["model_info"].(map[string]any)
		if fmt.Sprint(m["capabilities"]) != "[completion tools thinking embedding]" ||
			info["general.architecture"] != "fake" || info["fake.context_length"] != 8192.0 {
			t.Errorf("%v", m)
		}
	}
	if m := s.get(t, http.MethodGet, "/api/version", ""); m["version"] != Version {
		t.Errorf("%v", m)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		want := map[string]string{http.MethodGet: "Ollama is running"}[method]
		if status, answer := s.ask(t, method, "/", ""); status != http.StatusOK || answer != want {
			t.Errorf("%s: status %d: %s", method, status, answer)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	s := serve(t, fake.Config{ContextSize: 512}, wiretest.Anyone())
	embed := func(fields string) (vectors [][]any, tokens float64) {
		m := s.get(t, http.MethodPost, "/api/embed", `{"model":"`+wiretest.Name+`",`+fields+`}`)
		for _, v := range m["embeddings"].([]any) {
			vectors = append(vectors, v.([]any))
		}
		return vectors, m["prompt_eval_count"].(float64)
	}
	one, tokens := embed(`"input":"hello"`)
	two, _ := embed(`"input":["hello","world"]`)
	if len(one) != 1 || len(two) != 2 || tokens == 0 || !reflect.DeepEqual(one[0], two[0]) ||
		reflect.DeepEqual(one[0], two[1]) {
		t.Errorf("%v %v", one, two)
	}
	short, _ := embed(`"input":"hello","dimensions":3`)
	sum := 0.0
	for _, x := range short[0] {
		sum += x.(float64) * x.(float64)
	}
	if len(short[0]) != 3 || math.Abs(sum-1) > 1e-5 {
		t.Errorf("%v", short)
	}
	if long, n := embed(`"input":"` + strings.Repeat("a ", 600) + `"`); len(long) != 1 || n != 512 {
		t.Errorf("%v tokens", n)
	}
	if none, _ := embed(`"input":""`); len(none) != 0 {
		t.Errorf("%v", none)
	}
	old := s.get(t, http.MethodPost, "/api/embeddings", `{"model":"`+wiretest.Name+`","prompt":"hello"}`)
	if !reflect.DeepEqual(old["embedding"], one2any(one[0])) {
		t.Errorf("%v", old)
	}
	if old := s.get(t, http.MethodPost, "/api/embeddings",
		`{"model":"`+wiretest.Name+`"}`); len(old["embedding"].([]any)) != 0 {
		t.Errorf("%v", old)
	}
}

func one2any(v []any) any { return v }

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "", 999: "999", 1_500: "1.5K", 82_000_000: "82M", 20_900_000_000: "20.9B",
		117_000_000_000: "117B"} {
		if got := human(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	for raw, want := range map[string]time.Duration{`0`: 0, `"5m"`: 5 * time.Minute, `-1`: -time.Second,
		`1.5`: 1500 * time.Millisecond, `null`: 0, `"-1s"`: -time.Second} {
		if got, err := readKeepAlive([]byte(raw)); err != nil || got != want {
			t.Errorf("%s is %v: %v", raw, got, err)
		}
	}
	for _, raw := range []string{`1e300`, `-1e300`, `9e18`} {
		if _, err := readKeepAlive([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// The format needs no more of a model than the interface [wire.Loaded].
func TestModelWithoutARunner(t *testing.T) {
	m := wiretest.Of(t, &wiretest.Fake{Events: wiretest.Run(
		reasoning.Result{Finish: reasoning.FinishStop, Usage: wiretest.Usage},
		wiretest.Segment(reasoning.Reasoning, "two and two"), wiretest.Segment(reasoning.Answer, "four"))})
	s := served{Models: m, url: wiretest.Serve(t, New(m, Config{}), wiretest.Anyone()).URL}
	got, _ := s.streamed(t, "/api/chat", chat("sum", `,"think":true`))
	message, _ := got["message"].(map[string]any)
	if message["content"] != "four" || message["thinking"] != "two and two" {
		t.Errorf("the answer is %v", got)
	}
	status, answer := s.ask(t, http.MethodPost, "/api/embed", fmt.Sprintf(`{"model":%q,"input":"four"}`, wiretest.Name))
	if status != http.StatusOK || !strings.Contains(answer, `"prompt_eval_count":4`) {
		t.Errorf("embed: %d %s", status, answer)
	}
}
