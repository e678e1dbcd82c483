package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/reasoning/seal"
	"runner/server/wire"
	"runner/server/wiretest"
)

const canary = "zebras gallop in pairs"

type served struct {
	*wiretest.Models
	url  string
	keys *seal.Keyring
}

func serve(t *testing.T, cfg fake.Config, principal *wire.Principal, replies ...fake.Reply) served {
	t.Helper()
	s := served{Models: wiretest.New(t, cfg, replies...), keys: seal.NewKeyring()}
	s.url = wiretest.Serve(t, New(s.Models, Config{Seal: s.keys}), principal).URL
	return s
}

// post sends a request and returns the status and the body.
func (s served) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	status, header, answer := wiretest.Send(t, http.MethodPost, s.url+path, body,
		http.Header{"Anthropic-Version": {"2023-06-01"}})
	if header.Get("Request-Id") == "" {
		t.Error("the answer has no request id")
	}
	return status, answer
}

// message sends a request that must succeed.
func (s served) message(t *testing.T, body string) map[string]any {
	t.Helper()
	status, answer := s.post(t, "/v1/messages", body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// streamed sends a request as a stream. It returns the message that the client assembles, and the received bytes.
func (s served) streamed(t *testing.T, body string) (map[string]any, string) {
	t.Helper()
	status, answer := s.post(t, "/v1/messages", strings.Replace(body, "{", `{"stream":true,`, 1))
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	m, err := reassemble(readFrames(t, answer))
	if err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	return m, answer
}

func readFrames(t *testing.T, answer string) *frames {
	t.Helper()
	f := &frames{}
	lines := bufio.NewScanner(strings.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	event := ""
	for lines.Scan() {
		if e, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = e
		} else if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			f.events, f.data = append(f.events, event), append(f.data, []byte(d))
		}
	}
	return f
}

// body returns a request with a question and more fields.
func body(question, more string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":200%s,"messages":[{"role":"user","content":%q}]}`, wiretest.Name,
		more, question)
}

func block(t *testing.T, m map[string]any, i int) map[string]any {
	t.Helper()
	content := m["content"].([]any)
	if i >= len(content) {
		t.Fatalf("there are %d blocks: %v", len(content), content)
	}
	return content[i].(map[string]any)
}

const tool = `,"tools":[{"name":"get","description":"gets","input_schema":{"type":"object",` +
	`"properties":{"a":{"type":"integer"}}}}]`

func TestAnswers(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		fake.Reply{After: wiretest.Ask("sum") + "<|channel|>final<|message|>", Say: "four<|return|>"},
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
	)
	for name, c := range map[string]struct{ question, more, stop, types string }{
		"hidden":    {"sum", "", "end_turn", "text"},
		"disabled":  {"sum", `,"thinking":{"type":"disabled"}`, "end_turn", "text"},
		"enabled":   {"sum", `,"thinking":{"type":"enabled","budget_tokens":1024}`, "end_turn", "thinking text"},
		"adaptive":  {"sum", `,"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}`, "end_turn", "thinking text"},
		"omitted":   {"sum", `,"thinking":{"type":"adaptive","display":"omitted"}`, "end_turn", "thinking text"},
		"call":      {"look", tool, "tool_use", "text tool_use"},
		"call seen": {"look", tool + `,"thinking":{"type":"adaptive"}`, "tool_use", "thinking text tool_use"},
		"call kept": {"look", tool + `,"thinking":{"type":"adaptive","display":"omitted"}`, "tool_use",
			"thinking text tool_use"},
		"stopped": {"sum", `,"stop_sequences":["ur"]`, "stop_sequence", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			m := s.message(t, body(c.question, c.more))
			var types []string
			for _, b := range m["content"].([]any) {
				types = append(types, b.(map[string]any)["type"].(string))
			}
			if got := strings.Join(types, " "); got != c.types || m["stop_reason"] != c.stop {
				t.Errorf("blocks %s ending with %v", got, m["stop_reason"])
			}
			streamed, _ := s.streamed(t, body(c.question, c.more))
			for _, m := range []map[string]any{m, streamed} {
				m["id"] = ""
				delete(m, "usage") // the second run finds the prompt in the cache
				delete(m["reasoning_info"].(map[string]any), "seed")
				for _, b := range m["content"].([]any) {
					b := b.(map[string]any)
					for _, key := range []string{"signature", "data", "id"} {
						if _, ok := b[key]; ok {
							b[key] = "random"
						}
					}
				}
			}
			if !reflect.DeepEqual(m, streamed) {
				t.Errorf("streamed\n%v\nwhole\n%v", streamed, m)
			}
		})
	}
}

func TestRequestReachesTheRunner(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	s.message(t, `{"max_tokens":50,"temperature":0.5,"top_p":0.9,"top_k":7,"stop_sequences":["x"],
		"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be short."}],
		"thinking":{"type":"enabled","budget_tokens":64},"metadata":{"user_id":"u"},"unknown":{"a":[1]},
		"tools":[{"name":"get","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
		"tool_choice":{"type":"tool","name":"get","disable_parallel_tool_use":true},
		"messages":[
			{"role":"user","content":"one"},{"role":"user","content":[{"type":"text","text":"two"}]},
			{"role":"assistant","content":[{"type":"text","text":"I look."},
				{"type":"tool_use","id":"c1","name":"get","input":{"b":1,"a":2}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"no"}]},
				{"type":"text","text":"go on"}]},
			{"role":"assistant","content":"Done."},
			{"role":"user","content":"again"}]}`)
	r := s.Last()
	want := []chattemplate.Message{
		{Role: chattemplate.System, Content: "Be kind.\n\nBe short."},
		{Role: chattemplate.User, Content: "one\n\ntwo"},
		{Role: chattemplate.Assistant, Preamble: "I look.",
			ToolCalls: []chattemplate.ToolCall{{ID: "c1", Name: "get", Arguments: `{"b":1,"a":2}`}}},
		{Role: chattemplate.ToolRole, ToolCallID: "c1", Content: "Error: no"},
		{Role: chattemplate.User, Content: "go on"},
		{Role: chattemplate.Assistant, Content: "Done."},
		{Role: chattemplate.User, Content: "again"},
	}
	if !reflect.DeepEqual(r.Messages, want) {
		t.Errorf("messages %+v", r.Messages)
	}
	if r.MaxTokens != 50 || r.Sampling.Temperature != 0.5 || r.Sampling.TopP != 0.9 || r.Sampling.TopK != 7 ||
		r.Stop[0] != "x" ||
		r.Budget != 64 || r.Visibility != reasoning.VisibilityFull || r.ToolChoice != generation.ToolChoiceFunction ||
		r.ToolName != "get" || !r.SingleCall || len(r.Tools) != 1 {
		t.Errorf("request %+v", r)
	}
}

func TestUnknownToolTypesAreLeftOut(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("hi"), Say: wiretest.Think("", "ho")})
	m := s.message(t, body("hi", `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`))
	if w := fmt.Sprint(m["warnings"]); !strings.Contains(w, "unknown_tool_type") || !strings.Contains(w, "tools[0]") {
		t.Errorf("warnings %s", w)
	}
}

func TestSchemasHold(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("hi"), Say: wiretest.Think("", "ho")})
	schema := `{"type":"object","properties":{"a":{"const":4}},"required":["a"],"additionalProperties":false}`
	for _, field := range []string{`,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`,
		`,"output_format":{"type":"json_schema","schema":` + schema + `}`} {
		m := s.message(t, body("hi", field))
		var v struct{ A float64 }
		if err := json.Unmarshal([]byte(block(t, m, 0)["text"].(string)), &v); err != nil || v.A != 4 {
			t.Errorf("answer %v: %v", m["content"], err)
		}
	}
}

// history is a conversation with a pending call. It has the blocks of the reply that made the call.
func history(question string, blocks any, result string) string {
	b, _ := json.Marshal(blocks)
	return fmt.Sprintf(
		`{"max_tokens":200%s,"messages":[{"role":"user","content":%q},{"role":"assistant","content":%s},`+
			`{"role":"user","content":%s}]}`,
		tool, question, b, result)
}

// The reasoning in a signature enters the prompt only while its call is pending, whatever the text next to it says.
func TestThinkingComesBack(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "", "get", `{"a": 1}`)})
	for _, display := range []string{"", `,"display":"omitted"`} {
		m := s.message(t, body("look", tool+`,"thinking":{"type":"adaptive"`+display+`}`))
		blocks := m["content"].([]any)
		var id string
		for _, b := range blocks {
			if b := b.(map[string]any); b["type"] == "tool_use" {
				id = b["id"].(string)
			} else if b["type"] == "thinking" {
				b["thinking"] = "I am somebody else"
			}
		}
		result := fmt.Sprintf(`[{"type":"tool_result","tool_use_id":%q,"content":"7"}]`, id)
		s.message(t, history("look", blocks, result))
		prompt := s.Prompt(t)
		if strings.Count(prompt, canary) != 1 || strings.Contains(prompt, "somebody else") {
			t.Errorf("display %q: the prompt of a pending call is %q", display, prompt)
		}
		without := history("look", blocks[len(blocks)-1:], result)
		s.message(t, without)
		if bare := s.Prompt(t); strings.Contains(bare, canary) {
			t.Errorf("the prompt without thinking is %q", bare)
		}
		// Once the turn has its answer, the reasoning is gone.
		over := result + `},{"role":"assistant","content":"seven"},{"role":"user","content":"and now?"`
		s.message(t, history("look", blocks, over))
		with := s.Prompt(t)
		s.message(t, history("look", blocks[len(blocks)-1:], over))
		if with != s.Prompt(t) {
			t.Errorf("the prompt of a finished call is %q", with)
		}
	}
}

func TestUnsignedThinkingIsTheClients(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	thinking := map[string]any{"type": "thinking", "thinking": canary, "signature": ""}
	call := map[string]any{"type": "tool_use", "id": "c1", "name": "get", "input": map[string]any{}}
	s.message(t, history("look", []any{thinking, call}, `[{"type":"tool_result","tool_use_id":"c1","content":"7"}]`))
	if r := s.Last().Messages[1].Reasoning; r != canary {
		t.Errorf("the reasoning of a pending call is %q", r)
	}
	s.message(t, history("look", []any{thinking, map[string]any{"type": "text", "text": "seven"}}, `"and now?"`))
	if p := s.Prompt(t); strings.Contains(p, canary) {
		t.Errorf("the reasoning of a finished turn is in the prompt %q", p)
	}
}

// A summary never becomes reasoning, even if its block comes back alone.
func TestSummaryComingBackIsIgnored(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "", "get", `{"a": 1}`)},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
			Say: "It was counted.<|return|>"})
	m := s.message(t, body("look", tool+`,"thinking":{"type":"adaptive","display":"summarized"}`))
	if b := block(t, m, 0); b["thinking"] != "It was counted." || b["signature"] == "" {
		t.Fatalf("content %v", m["content"])
	}
	blocks := m["content"].([]any)
	result := fmt.Sprintf(`[{"type":"tool_result","tool_use_id":%q,"content":"7"}]`, block(t, m, 1)["id"])
	s.message(t, history("look", []any{blocks[0], blocks[1]}, result))
	if prompt := s.Prompt(t); strings.Contains(prompt, "counted") {
		t.Errorf("the prompt is %q", prompt)
	}
	s.message(t, history("look", blocks, result))
	if prompt := s.Prompt(t); !strings.Contains(prompt, canary) || strings.Contains(prompt, "counted") {
		t.Errorf("the prompt is %q", prompt)
	}
}

// A signature in the wrong place is dropped with a warning. Under strict it is refused in Anthropic's words.
func TestSealedValuesKeepTheirPlace(t *testing.T) {
	replies := []fake.Reply{
		{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		{After: wiretest.Ask("more"), Say: wiretest.Think("", "five")},
		{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
		{After: "7<|end|><|start|>assistant", Say: wiretest.Think("", "It is seven.")},
	}
	s := serve(t, fake.Config{}, wiretest.Anyone(), replies...)
	first := block(t, s.message(t, body("sum", `,"thinking":{"type":"adaptive"}`)), 0)
	signature := first["signature"].(string)
	looked := s.message(t, body("look", tool+`,"thinking":{"type":"adaptive"}`))["content"].([]any)
	call := looked[len(looked)-1].(map[string]any)["id"].(string)
	result := func(id string) string {
		return fmt.Sprintf(`[{"type":"tool_result","tool_use_id":%q,"content":"7"}]`, id)
	}
	called := func(question, id string, blocks []any) string {
		return strings.ReplaceAll(history(question, blocks, result(call)), call, id)
	}
	with := func(api *API, p *wire.Principal) served {
		return served{s.Models, wiretest.Serve(t, api, p).URL, s.keys}
	}
	stranger := wiretest.Anyone()
	stranger.ID = "key-2"
	strict := New(s.Models, Config{Seal: s.keys, StrictSeal: true})
	otherKeys := seal.NewKeyring()
	answered := func(question, signature string) string {
		return fmt.Sprintf(`{"max_tokens":50,"messages":[{"role":"user","content":%q},{"role":"assistant","content":[
			{"type":"thinking","thinking":"x","signature":%q},{"type":"text","text":"four"}]},
			{"role":"user","content":"more"}]}`, question, signature)
	}
	const thinking = "messages.1.content.0: Invalid `signature` in `thinking` block"
	for name, c := range map[string]struct {
		lenient, strict served
		body            string
		code, words     string
	}{
		"in place":        {s, with(strict, wiretest.Anyone()), answered("sum", signature), "", ""},
		"beside its call": {s, with(strict, wiretest.Anyone()), called("look at another date", call, looked), "", ""},
		"moved": {s, with(strict, wiretest.Anyone()), answered("another sum", signature),
			"sealed_foreign", thinking},
		"another call": {s, with(strict, wiretest.Anyone()), called("look", "toolu_1", looked), "sealed_foreign", thinking},
		"other key": {with(New(s.Models, Config{Seal: s.keys}), stranger), with(strict, stranger),
			answered("sum", signature), "sealed_foreign", thinking},
		"other server": {with(New(s.Models, Config{Seal: otherKeys}), wiretest.Anyone()),
			with(New(s.Models, Config{Seal: otherKeys, StrictSeal: true}), wiretest.Anyone()),
			answered("sum", signature), "sealed_unknown_key", thinking},
		"altered":  {s, with(strict, wiretest.Anyone()), answered("sum", "B"+signature[1:]), "sealed_tampered", thinking},
		"outdated": {s, with(strict, wiretest.Anyone()), answered("sum", "AQ"+signature[2:]), "sealed_tampered", thinking},
		"not ours": {s, with(strict, wiretest.Anyone()), answered("sum", "EqoBCkgIBRABGAIiQ"), "sealed_tampered", thinking},
		"redacted": {s, with(strict, wiretest.Anyone()), `{"max_tokens":50,"messages":[{"role":"user","content":"sum"},
			{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"four"}]},
			{"role":"user","content":"more"}]}`, "sealed_tampered",
			"messages.1.content.0: Invalid `data` in `redacted_thinking` block"},
	} {
		var want []any
		if c.code != "" {
			want = []any{"sealed_dropped"}
		}
		check := func(kind string, m map[string]any) {
			var codes []any
			warnings, _ := m["warnings"].([]any)
			for _, w := range warnings {
				codes = append(codes, w.(map[string]any)["code"])
				if text := w.(map[string]any)["message"].(string); !strings.Contains(text, c.code) ||
					!strings.HasPrefix(text, "messages[1].content[0].") {
					t.Errorf("%s: %s: %q", name, kind, text)
				}
			}
			if !reflect.DeepEqual(codes, want) {
				t.Errorf("%s: %s: warnings %v", name, kind, warnings)
			}
			if text := c.lenient.Prompt(t); strings.Contains(text, canary) != (name == "beside its call") {
				t.Errorf("%s: %s: the prompt is %q", name, kind, text)
			}
		}
		check("whole", c.lenient.message(t, c.body))
		streamed, _ := c.lenient.streamed(t, c.body)
		check("streamed", streamed)
		if status, answer := c.lenient.post(t, "/v1/messages/count_tokens", c.body); status != http.StatusOK {
			t.Errorf("%s: tokens: %d %s", name, status, answer)
		}
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			status, answer := c.strict.post(t, path, c.body)
			if c.code == "" {
				if status != http.StatusOK {
					t.Errorf("%s: status %d: %s", name, status, answer)
				}
				continue
			}
			var e ErrorResponse
			if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusBadRequest ||
				e.Error.Details.ErrorCode != c.code ||
				e.Error.Type != "invalid_request_error" || e.Error.Message != c.words {
				t.Errorf("%s: status %d: %s", name, status, answer)
			}
		}
	}
}

// A signature is made before the call is known. It opens next to the call, and without it after the same question.
func TestSignaturesKnowTheirCalls(t *testing.T) {
	for _, display := range []string{"", `,"display":"omitted"`, `,"display":"summarized"`} {
		for name, say := range map[string]string{
			"call at once": wiretest.Call(canary, "", "get", `{"a": 1}`), "after a word": wiretest.Call(canary, "I look.", "get",
				`{"a": 1}`), "none": wiretest.Think(canary, "four"),
		} {
			s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("look"), Say: say},
				fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
					Say: "It was counted.<|return|>"},
				fake.Reply{After: "7<|end|><|start|>assistant", Say: wiretest.Think("", "so")},
				fake.Reply{After: wiretest.Ask("more"), Say: wiretest.Think("", "so")})
			m := s.message(t, body("look", tool+`,"thinking":{"type":"adaptive"`+display+`}`))
			blocks := m["content"].([]any)
			next := `"more"`
			if last := blocks[len(blocks)-1].(map[string]any); last["type"] == "tool_use" {
				next = fmt.Sprintf(`[{"type":"tool_result","tool_use_id":%q,"content":"7"}]`, last["id"])
			}
			if w := s.message(t, history("look", blocks, next))["warnings"]; w != nil {
				t.Errorf("%s%s: %v", name, display, w)
			}
			if name == "none" {
				continue
			}
			text := append(slices.Clone(blocks[:len(blocks)-1]), map[string]any{"type": "text", "text": "x"})
			got := s.message(t, history("look", text, `"more"`))["warnings"]
			if got != nil {
				t.Errorf("%s%s: without its call: %v", name, display, got)
			}
			foreign := append(slices.Clone(blocks[:len(blocks)-1]), map[string]any{"type": "tool_use", "id": "call_x",
				"name": "get", "input": map[string]any{}})
			result := `[{"type":"tool_result","tool_use_id":"call_x","content":"7"}]`
			if s.message(t, history("look", foreign, result))["warnings"] == nil ||
				s.message(t, history("another", text, `"more"`))["warnings"] == nil {
				t.Errorf("%s%s: a value opened beside another call or after another question", name, display)
			}
		}
	}
}

// A client that did not ask for reasoning gets none of it.
func TestNoReasoningLeaks(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
			Say: "It was counted.<|return|>"})
	for _, thinking := range []string{"", `,"thinking":{"type":"disabled"}`,
		`,"thinking":{"type":"adaptive","display":"omitted"}`,
		`,"thinking":{"type":"enabled","budget_tokens":100,"display":"summarized"}`} {
		for _, question := range []string{"sum", "look"} {
			_, whole := s.post(t, "/v1/messages", body(question, tool+thinking))
			_, streamed := s.streamed(t, body(question, tool+thinking))
			for _, word := range strings.Fields(canary) {
				if len(word) > 3 && strings.Contains(whole+streamed, word) {
					t.Errorf("%s %s: %s\n%s", question, thinking, whole, streamed)
				}
			}
		}
	}
}

func TestVisibilityIsCapped(t *testing.T) {
	p := wiretest.Anyone()
	p.Reasoning = reasoning.VisibilityNone
	s := serve(t, fake.Config{}, p, fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")})
	for _, stream := range []string{"", `,"stream":true`} {
		status, answer := s.post(t, "/v1/messages", body("sum", stream+`,"thinking":{"type":"adaptive"}`))
		if status != http.StatusForbidden || !strings.Contains(answer, `"permission_error"`) ||
			!strings.Contains(answer, "reasoning:full") {
			t.Errorf("status %d: %s", status, answer)
		}
	}
	b := block(t, s.message(t, body("sum", `,"thinking":{"type":"adaptive","display":"omitted"}`)), 0)
	if b["type"] != "thinking" || b["thinking"] != "" || b["signature"] == "" {
		t.Errorf("block %v", b)
	}
}

// A reply goes on from a last message of the assistant (prefill), and has what it adds.
func TestReplyGoesOnFromTheLastMessage(t *testing.T) {
	const begun = "<|start|>assistant<|channel|>final<|message|>Four"
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: begun, Say: " is it.<|return|>"})
	m := s.message(t, `{"max_tokens":50,"messages":[{"role":"user","content":"q"},
		{"role":"assistant","content":[{"type":"text","text":"Four"}]}]}`)
	if !strings.HasSuffix(s.Prompt(t), begun) || !strings.Contains(fmt.Sprint(m["content"]), "text: is it.") {
		t.Errorf("after %q: %v", s.Prompt(t), m["content"])
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, fake.Config{ContextSize: 512}, wiretest.Anyone(), fake.Reply{Say: ""})
	user := func(content string) string {
		return `{"max_tokens":5,"messages":[{"role":"user","content":` + content + `}]}`
	}
	for _, c := range []struct{ body, param string }{
		{`{"messages":[{"role":"user","content":"a"}]}`, "max_tokens"},
		{body("a", `,"max_tokens":0`), "max_tokens"},
		{body("a", `,"max_tokens":"many"`), "max_tokens"},
		{`{"max_tokens":5}`, "messages"},
		{`{"max_tokens":5,"messages":[]}`, "messages"},
		{`{"max_tokens":5,"messages":{}}`, "messages"},
		{`{"max_tokens":5,"messages":[{"role":"tool","content":"a"}]}`, "messages[0].role"},
		{`{"max_tokens":5,"messages":[{"role":"user"}]}`, "messages[0].content"},
		{`{"max_tokens":5,"messages":[7]}`, "messages[0]"},
		{`{"max_tokens":5,"messages":[{"role":"assistant","content":"b"}]}`, "messages"},
		{user(`[]`), "messages[0].content"},
		{user(`[{"type":"text"}]`), "messages[0].content[0].text"},
		{user(`[{"type":"text","text":3}]`), "messages[0].content[0].text"},
		{user(`[{"type":"text","text":"a"},{"type":"image","source":{}}]`), "messages[0].content[1]"},
		{user(`[{"type":"document","source":{}}]`), "messages[0].content[0]"},
		{user(`[{"type":"hologram"}]`), "messages[0].content[0].type"},
		{user(`[{"type":"thinking","thinking":"a"}]`), "messages[0].content[0]"},
		{user(`[{"type":"tool_result","content":"a"}]`), "messages[0].content[0].tool_use_id"},
		{user(`[{"type":"tool_result","tool_use_id":"c","content":"a"}]`), "messages"},
		{body("a", `,"system":7`), "system"},
		{body("a", `,"temperature":3`), "temperature"},
		{body("a", `,"top_p":-1`), "top_p"},
		{body("a", `,"top_k":-1`), "top_k"},
		{body("a", `,"stop_sequences":[""]`), "stop_sequences[0]"},
		{body("a", `,"stop_sequences":`+strings.Replace(strings.Repeat(`,"a"`, 17), ",", "[", 1)+`]`), "stop_sequences"},
		{body("a", `,"thinking":{"type":"enabled"}`), "thinking.budget_tokens"},
		{body("a", `,"thinking":{"type":"loud"}`), "thinking.type"},
		{body("a", `,"thinking":{"type":"between_tools"}`), "thinking.type"},
		{body("a", `,"thinking":{"type":"adaptive","display":"neon"}`), "thinking.display"},
		{body("a", `,"output_config":{"effort":"huge"}`), "output_config.effort"},
		{body("a", `,"output_config":{"format":{"type":"xml"}}`), "output_config.format.type"},
		{body("a", `,"output_config":{"format":{"type":"json_schema"}}`), "output_config.format.schema"},
		{body("a", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"thing"}}}`), "output_config.format"},
		{body("a", `,"tools":[{"name":"x"}]`), "tools[0].input_schema"},
		{body("a", `,"tools":[{"name":"x y","input_schema":{}}]`), "tools[0].name"},
		{body("a", `,"tools":[3]`), "tools[0]"},
		{body("a", `,"tool_choice":{"type":"maybe"}`), "tool_choice.type"},
		{body("a", `,"tool_choice":{"type":"any"}`), "tool_choice"},
		{body("a", tool+`,"tool_choice":{"type":"tool","name":"b"}`), "tool_choice.name"},
		{body("a", `,"container":"c"`), "container"},
		{body("a", `,"thread":{"type":"create"}`), "thread"},
		{body("a", `,"mcp_servers":[{}]`), "mcp_servers"},
		{body(strings.Repeat("a ", 600), ""), "messages"},
		{`{"max_tokens":`, ""},
		{`[]`, ""},
	} {
		status, answer := s.post(t, "/v1/messages", c.body)
		var e ErrorResponse
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusBadRequest || e.Type != "error" ||
			e.Error.Type != "invalid_request_error" || e.Error.Details.Param != c.param || e.RequestID == "" ||
			!strings.HasPrefix(e.Error.Message, c.param) && e.Error.Details.ErrorCode != wire.CodeContextLength {
			t.Errorf("%.150s:\nstatus %d: %s", c.body, status, answer)
		}
	}
	status, answer := s.post(t, "/v1/messages", strings.Replace(body("a", ""), wiretest.Name, "nobody", 1))
	if status != http.StatusNotFound || !strings.Contains(answer, `"not_found_error"`) {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestErrorTypes(t *testing.T) {
	a := New(nil, Config{})
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		405: "invalid_request_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 501: "api_error", 503: "overloaded_error",
		504: "timeout_error",
	} {
		w := httptest.NewRecorder()
		a.WriteError(w, &wire.Error{Status: status, Code: "c", Message: "m", RetryAfter: 1})
		if w.Code != status || !strings.Contains(w.Body.String(), `"type":"`+want+`"`) ||
			w.Header().Get("Retry-After") != "1" {
			t.Errorf("%d: %s", status, w.Body)
		}
	}
	w := httptest.NewRecorder()
	a.WriteError(w, wire.FromError(wire.ErrTimeout, fields))
	if !strings.Contains(w.Body.String(), `"timeout_error"`) {
		t.Errorf("%s", w.Body)
	}
}

// If a model breaks during its answer, the stream ends with an error event. If it breaks before, the response has an
// error status.
func TestBrokenModel(t *testing.T) {
	cfg := fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step > 8 {
			return errors.New("out of order")
		}
		return nil
	}}
	s := serve(t, cfg, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("sum"),
		Say: wiretest.Think("", "a long answer that never ends")})
	status, answer := s.post(t, "/v1/messages", body("sum", `,"stream":true`))
	f := readFrames(t, answer)
	last := len(f.events) - 1
	if status != http.StatusOK || f.events[last] != "error" || !bytes.Contains(f.data[last], []byte(`"api_error"`)) ||
		strings.Contains(answer, "out of order") {
		t.Errorf("status %d: %s", status, answer)
	}
	if status, answer := s.post(t, "/v1/messages", body("sum", "")); status != http.StatusInternalServerError ||
		!strings.Contains(answer, `"api_error"`) {
		t.Errorf("status %d: %s", status, answer)
	}
}

// A client that leaves in the middle of a stream does not keep the model busy.
func TestClientLeaves(t *testing.T) {
	models := wiretest.New(t, fake.Config{Delay: func(int) time.Duration { return time.Millisecond }},
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think("", strings.Repeat("on and on ", 500))})
	server := httptest.NewServer(wiretest.Handler(New(models, Config{}), wiretest.Anyone()))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/messages",
		strings.NewReader(body("sum", `,"stream":true,"max_tokens":6000`)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < 20 && lines.Scan(); n++ {
		continue
	}
	leave()
	begin := time.Now()
	if server.Close(); time.Since(begin) > 3*time.Second { // the whole answer takes longer
		t.Errorf("the handler went on for %v", time.Since(begin))
	}
}

func TestCountTokens(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")})
	usage := s.message(t, body("sum", tool))["usage"].(map[string]any)
	status, answer := s.post(t, "/v1/messages/count_tokens",
		strings.Replace(body("sum", tool), `"max_tokens":200,`, "", 1))
	if want := fmt.Sprintf(`{"input_tokens":%v}`, usage["input_tokens"]); status != http.StatusOK || answer != want {
		t.Errorf("status %d: %s, and the usage is %v", status, answer, usage)
	}
}

func TestModels(t *testing.T) {
	h := wiretest.Handler(New(cards{"a", "b", "c"}, Config{}), wiretest.Anyone())
	get := func(query string) (ModelList, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models"+query, nil))
		var l ModelList
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, m := range l.Data {
			names += m.ID
		}
		return l, fmt.Sprintf("%d %s %v", w.Code, names, l.HasMore)
	}
	for query, want := range map[string]string{
		"": "200 abc false", "?limit=2": "200 ab true", "?limit=2&after_id=b": "200 c false",
		"?before_id=c&limit=1": "200 b true",
		"?after_id=c":          "200  false", "?limit=0": "400  false", "?after_id=z": "400  false",
	} {
		if _, got := get(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if l, _ := get(""); l.Data[0].Type != "model" || *l.LastID != "c" || *l.Data[0].MaxTokens != 100 ||
		l.Data[1].MaxTokens != nil {
		t.Errorf("%+v", l)
	}
	for id, want := range map[string]int{"b": 200, "z": 404} {
		r := httptest.NewRequest(http.MethodGet, "/v1/models/"+id, nil)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d", id, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
	if isOwn(r) {
		t.Error("a request without the header is of this format")
	}
	if r.Header.Set("anthropic-version", "2023-06-01"); !isOwn(r) {
		t.Error("a request with the header is not of this format")
	}
}

// cards are models of which only the names are known.
type cards []string

func (c cards) Use(context.Context, string) (wire.Model, error) { return nil, errors.New("unused") }

func (cards) Unload(context.Context, string) error { return errors.New("unused") }

func (c cards) Find(ctx context.Context, name string) (wire.Card, bool) {
	list := c.List(ctx)
	if i := wire.Named(list, name); i >= 0 {
		return list[i], true
	}
	return wire.Card{}, false
}

func (c cards) List(context.Context) []wire.Card {
	var list []wire.Card
	for i, name := range c {
		card := wire.Card{Name: name, Added: wiretest.Today}
		if i == 0 {
			card.Context = 100
		}
		list = append(list, card)
	}
	return list
}
