package agui

import (
	"bufio"
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
	"runner/server/internal/contract"
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

// post sends a request and returns status and body.
func (s served) post(t *testing.T, body string) (int, string) {
	t.Helper()
	status, header, answer := wiretest.Send(t, http.MethodPost, s.url+"/agui", body, nil)
	if kind := header.Get("Content-Type"); (status == http.StatusOK) != strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("status %d comes as %s", status, kind)
	}
	return status, answer
}

// run sends a request that is accepted, and returns what a client has afterwards and the raw events.
func (s served) run(t *testing.T, body string) (*conversation, string) {
	t.Helper()
	status, answer := s.post(t, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	var f frames
	for lines := bufio.NewScanner(strings.NewReader(answer)); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			f = append(f, []byte(data))
		} else if lines.Text() != "" {
			t.Errorf("a line is %q", lines.Text())
		}
	}
	c, err := fold(f)
	if err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	return c, answer
}

// input makes a request from messages, which are JSON, and more fields.
func input(more string, messages ...string) string {
	return fmt.Sprintf(`{"threadId":"thread","runId":"run","state":{},"protocolVersion":"1.0","messages":[%s]%s}`,
		strings.Join(messages, ","), more)
}

func user(text string) string {
	return fmt.Sprintf(`{"id":"u-%s","role":"user","content":%q}`, text, text)
}

func props(fields string) string { return `,"forwardedProps":{` + fields + `}` }

const tool = `,"tools":[{"name":"get","description":"gets","parameters":{"type":"object",` +
	`"properties":{"a":{"type":"integer"}}}}]`

// history is the conversation after a run in the form in which a client sends it back.
func (c *conversation) history() []string {
	var list []string
	for _, m := range c.messages {
		object := map[string]any{"role": m.role, "content": m.content}
		for id, of := range c.byID {
			if of == m {
				object["id"] = id
			}
		}
		if m.value != "" {
			object["encryptedValue"] = m.value
		}
		var calls []any
		for _, id := range m.calls {
			call := map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "get",
				"arguments": c.arguments[id]}}
			if v := c.callValues[id]; v != "" {
				call["encryptedValue"] = v
			}
			calls = append(calls, call)
		}
		if calls != nil {
			object["toolCalls"] = calls
		}
		text, _ := json.Marshal(object)
		list = append(list, string(text))
	}
	return list
}

const (
	finalTurn   = "<|end|><|start|>assistant<|channel|>final<|message|>"
	summaryTurn = prompts.SummaryConciseV1 + finalTurn
)

func TestRuns(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
		fake.Reply{After: summaryTurn, Say: "It was counted.<|return|>"},
	)
	for name, c := range map[string]struct{ question, more, thoughts, says, finish string }{
		"hidden":  {"sum", "", "", "four", "stop"},
		"none":    {"sum", props(`"reasoning":"none"`), "", "four", "stop"},
		"full":    {"sum", props(`"reasoning":"full"`), canary, "four", "stop"},
		"chunks":  {"sum", props(`"reasoning":"full","chunks":true`), canary, "four", "stop"},
		"legacy":  {"sum", props(`"reasoning":"full","legacy_thinking":true`), canary, "four", "stop"},
		"summary": {"sum", props(`"reasoning":{"summary":"auto"}`), "It was counted.", "four", "stop"},
		"call":    {"look", tool + props(`"reasoning":"full"`), canary, "I look.", "tool_calls"},
		"stopped": {"sum", props(`"stop":["ur"]`), "", "fo", "stop"},
		"cut":     {"sum", props(`"max_tokens":1`), "", "", "length"},
	} {
		t.Run(name, func(t *testing.T) {
			got, body := s.run(t, input(c.more, user(c.question)))
			if got.texts("reasoning") != c.thoughts || got.texts("assistant") != c.says ||
				string(got.last.Result.FinishReason) != c.finish {
				t.Errorf("%s", body)
			}
			if u := got.last.Usage[0]; u.Model != wiretest.Name || *u.InputTokens == 0 || u.TotalTokens != *u.InputTokens+
				u.OutputTokens || (*u.ReasoningTokens == 0) != (name == "cut") {
				t.Errorf("usage %+v", u)
			}
			if got.last.ThreadID != "thread" || got.last.RunID != "run" || strings.Contains(body, "encryptedValue") {
				t.Errorf("%s", body)
			}
			if c.thoughts != canary && strings.Contains(body, "zebras") {
				t.Errorf("the reasoning shows: %s", body)
			}
		})
	}
}

// Clients before 1.0 do not say which version they speak, and refuse the list of calls.
func TestPendingCallsAreNamedToWhomTakesThem(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call("", "", "get", `{"a": 1}`)})
	body := input(tool, user("look"))
	if c, _ := s.run(t, body); len(c.last.Outcome.PendingToolCallIDs) != 1 {
		t.Errorf("outcome %+v", c.last.Outcome)
	}
	if c, got := s.run(t, strings.Replace(body, `"protocolVersion":"1.0",`, "", 1)); len(c.arguments) != 1 ||
		strings.Contains(got, "pending") {
		t.Errorf("%s", got)
	}
}

// Reasoning that was not asked for appears nowhere: not in events or pieces of them, and not in sealed values,
// headers or errors.
func TestReasoningStaysHidden(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "", "get", `{"a": 1}`)},
		fake.Reply{After: summaryTurn, Say: "It was counted.<|return|>"})
	for _, question := range []string{"sum", "look"} {
		for _, visibility := range []string{`"none"`, `"summary"`} {
			for _, more := range []string{"", `,"reasoning_seal":true`, `,"chunks":true`, `,"legacy_thinking":true`,
				`,"reasoning_seal":true,"chunks":true`} {
				c, body := s.run(t, input(tool+props(`"reasoning":`+visibility+more), user(question)))
				var all strings.Builder
				for _, m := range c.messages {
					all.WriteString(m.content)
				}
				for _, word := range strings.Fields(canary)[:2] {
					if strings.Contains(body, word) || strings.Contains(all.String(), word) {
						t.Errorf("%s with %s%s: %s", question, visibility, more, body)
					}
				}
				want := map[string]string{`"none"`: "", `"summary"`: "It was counted."}[visibility]
				if c.texts("reasoning") != want {
					t.Errorf("%s with %s%s: the reasoning message says %q", question, visibility, more, c.texts("reasoning"))
				}
			}
		}
	}
}

// Reasons are reasoning: they show only with visibility full.
func TestRationale(t *testing.T) {
	say := wiretest.Call(`<rationale call="1">{"why":"`+canary+`"}</rationale>I assume that it is there.`, "", "get",
		`{"a": 1}`)
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("look"), Say: say},
		fake.Reply{After: summaryTurn, Say: "Counted.<|return|>"})
	_, body := s.run(t, input(tool+props(`"rationale":true,"reasoning":"full"`), user("look")))
	if !strings.Contains(body, `"name":"rationale","value":{"toolCallId":"call_`) ||
		!strings.Contains(body, `"why":"`+canary) || !strings.Contains(body, `"name":"assumption"`) {
		t.Errorf("%s", body)
	}
	for _, visibility := range []string{"none", "summary"} {
		_, body := s.run(t, input(tool+props(`"rationale":true,"reasoning":"`+visibility+`"`), user("look")))
		if strings.Contains(body, "zebras") || strings.Contains(body, "CUSTOM") {
			t.Errorf("%s: %s", visibility, body)
		}
	}
}

// TestAnswerMatchesSchema: the answer has the form of response_schema, whatever the model would say.
func TestAnswerMatchesSchema(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Think("", "no")})
	c, body := s.run(t, input(props(`"response_schema":{"type":"json","schema":{"type":"object",
		"properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}`), user("q")))
	var v struct{ OK *bool }
	if err := json.Unmarshal([]byte(c.messages[len(c.messages)-1].content), &v); err != nil || v.OK == nil {
		t.Errorf("%v: %s", err, body)
	}
}

func TestRequestReachesTheRunner(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	s.run(t, input(`,"parentRunId":"before","unknown":{"a":[1]},"resume":[],
		"tools":[{"name":"get","description":"gets","parameters":{"type":"object"},"metadata":{}},
			{"name":"now","description":""}],
		"context":[{"description":"The user's name","value":"Ada"},{"description":"Today","value":"Monday"}],
		"forwardedProps":{"model":"`+wiretest.Name+`",
			"reasoning":{"effort":"low","summary":"detailed","max_tokens":64,"exclude":false},
			"reasoning_effort":"low","reasoning_budget":64,"reasoning_strategy":"native","keep_reasoning":true,
			"max_tokens":50,"temperature":0.5,"top_p":0.9,"seed":7,"stop":["x"],
			"tool_choice":"none","strict_tools":true,"parallel_tool_calls":false,"unknown":1}`,
		`{"id":"1","role":"system","content":"Be kind."}`, `{"id":"2","role":"developer","content":"Be short.","name":"dev"}`,
		`{"id":"3","role":"activity","activityType":"PLAN","content":{"a":1}}`,
		`{"id":"4","role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two","id":"p"}]}`,
		`{"id":"5","role":"reasoning","content":"hm"}`,
		`{"id":"6","role":"assistant","content":"I look.","toolCalls":[{"id":"c1","type":"function",`+
			`"function":{"name":"get","arguments":"{\"b\": 1}"}}]}`,
		`{"id":"7","role":"tool","toolCallId":"c1","content":"","error":"no"}`,
		`{"id":"8","role":"assistant","content":"Done."}`, `{"id":"9","role":"user","content":"again"}`))
	r := s.Last()
	want := []chattemplate.Message{
		{Role: chattemplate.System, Content: "Be kind.\n\nContext from the application:\n\nThe user's " +
			"name:\nAda\n\nToday:\nMonday"},
		{Role: chattemplate.Developer, Content: "Be short."},
		{Role: chattemplate.User, Content: "one\n\ntwo"},
		{Role: chattemplate.Assistant, Reasoning: "hm", Preamble: "I look.",
			ToolCalls: []chattemplate.ToolCall{{ID: "c1", Name: "get", Arguments: `{"b": 1}`}}},
		{Role: chattemplate.ToolRole, ToolCallID: "c1", Content: "Error: no"},
		{Role: chattemplate.Assistant, Content: "Done."},
		{Role: chattemplate.User, Content: "again"},
	}
	if !reflect.DeepEqual(r.Messages, want) {
		t.Errorf("messages %+v", r.Messages)
	}
	if r.MaxTokens != 50 || r.Sampling.Temperature != 0.5 || r.Sampling.TopP != 0.9 || *r.Seed != 7 || r.Stop[0] != "x" ||
		r.Budget != 64 ||
		r.Visibility != reasoning.VisibilitySummary || !r.DetailedSummary || r.Effort != reasoning.EffortLow ||
		r.Strategy != reasoning.StrategyNative ||
		!r.KeepReasoning || r.ToolChoice != generation.ToolChoiceNone || !r.SingleCall || len(r.Tools) != 2 ||
		!r.Tools[0].Strict || r.Seal {
		t.Errorf("request %+v", r)
	}
}

// The application's state is in the system prompt, unless it is empty.
func TestStateReachesThePrompt(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	const context = `,"context":[{"description":"Today","value":"Monday"}]`
	for _, c := range []struct{ more, system, want string }{
		{`"state":{"cart": ["tea", 2],	"z":null,"a":"<|end|>"}`, "",
			"State of the application, as JSON:\n\n" + `{"cart":["tea",2],"z":null,"a":"<|end|>"}`},
		{`"state":"checkout"`, "Be kind.", "Be kind.\n\nState of the application, as JSON:\n\n\"checkout\""},
		{`"state":[1]` + context, "",
			"Context from the application:\n\nToday:\nMonday\n\nState of the application, as JSON:\n\n[1]"},
		{`"state":0`, "", "State of the application, as JSON:\n\n0"},
		{`"state":{ }`, "", ""}, {`"state":null`, "", ""}, {`"state":[]`, "Be kind.", "Be kind."},
		{`"state":""`, "", ""}, {`"other":1`, "", ""},
	} {
		messages := []string{user("a")}
		if c.system != "" {
			messages = append([]string{fmt.Sprintf(`{"id":"s","role":"system","content":%q}`, c.system)}, messages...)
		}
		s.run(t, strings.Replace(input("", messages...), `"state":{}`, c.more, 1))
		got := ""
		if first := s.Last().Messages[0]; first.Role == chattemplate.System {
			got = first.Content
		}
		if got != c.want {
			t.Errorf("%s: the system prompt is %q", c.more, got)
		}
		if prompt := s.Prompt(t); !strings.Contains(prompt, c.want) {
			t.Errorf("%s: the prompt is %q", c.more, prompt)
		}
	}
}

// A client's history reads user, reasoning, assistant, and a summary that explains the answer is after it. Hidden
// reasoning shows only that it took place.
func TestReasoningComesBeforeTheAnswer(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")},
		fake.Reply{After: wiretest.Ask("know"), Say: wiretest.Think("", "four")},
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "I look.", "get", `{"a": 1}`)},
		fake.Reply{After: summaryTurn, Say: "It was counted.<|return|>"},
		fake.Reply{After: prompts.PosthocV1 + finalTurn, Say: "It is known.<|return|>"})
	for _, c := range []struct{ question, fields, history string }{
		{"sum", `"reasoning":"none"`, "assistant"},
		{"sum", `"reasoning":"none","reasoning_seal":true`, "assistant"},
		{"sum", `"reasoning":"summary"`, "reasoning assistant"},
		{"sum", `"reasoning":"summary","reasoning_seal":true`, "reasoning assistant"},
		{"sum", `"reasoning":"full","reasoning_seal":true`, "reasoning assistant"},
		{"know", `"reasoning":"none"`, "assistant"},
		{"know", `"reasoning":"none","reasoning_seal":true`, "assistant"},
		{"know", `"reasoning":"summary"`, "assistant reasoning"},
		{"know", `"reasoning":"full"`, "assistant"},
		{"know", `"reasoning":"full","reasoning_strategy":"posthoc"`, "assistant"},
		{"look", `"reasoning":"none","reasoning_seal":true`, "assistant"},
		{"look", `"reasoning":"summary"`, "reasoning assistant"},
		{"look", `"reasoning":"full"`, "reasoning assistant"},
	} {
		for _, form := range []string{"", `,"chunks":true`, `,"legacy_thinking":true`} {
			if strings.Contains(form, "legacy") && strings.Contains(c.fields, "seal") {
				continue
			}
			got, body := s.run(t, input(tool+props(c.fields+form), user(c.question)))
			var roles []string
			for _, m := range got.messages {
				// The text before calls is a message of its own.
				if len(roles) == 0 || roles[len(roles)-1] != m.role {
					roles = append(roles, m.role)
				}
			}
			if strings.Join(roles, " ") != c.history {
				t.Errorf("%s with %s%s: the history is %v\n%s", c.question, c.fields, form, roles, body)
			}
			thought := strings.Contains(body, `"REASONING_START"`) || strings.Contains(body, `"THINKING_START"`)
			if want := c.question != "know" || len(c.history) > len("assistant"); thought != want {
				t.Errorf("%s with %s%s: reasoning shows: %t\n%s", c.question, c.fields, form, thought, body)
			}
			const first = `_START","messageId":"`
			if thought && c.question != "know" && strings.Index(body, first+`msg_`) < strings.Index(body, first) {
				t.Errorf("%s with %s%s: the answer comes first\n%s", c.question, c.fields, form, body)
			}
		}
	}
}

// sealedRun is the first turn of a conversation, which ends with a call, and the messages that a client then has.
func sealedRun(t *testing.T, s served, fields string) (history []string, call string) {
	t.Helper()
	c, body := s.run(t, input(tool+props(`"reasoning_seal":true`+fields), user("look")))
	if len(c.last.Outcome.PendingToolCallIDs) != 1 {
		t.Fatalf("%s", body)
	}
	return append([]string{user("look")}, c.history()...), c.last.Outcome.PendingToolCallIDs[0]
}

func result(call string) string {
	return fmt.Sprintf(`{"id":"t","role":"tool","toolCallId":%q,"content":"7"}`, call)
}

// The content of a value enters the prompt once while its call is pending, whatever the text next to it says and
// whichever message carries it.
func TestReasoningComesBack(t *testing.T) {
	for _, preamble := range []string{"", "I look."} {
		s := serve(t, fake.Config{}, wiretest.Anyone(),
			fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, preamble, "get", `{"a": 1}`)},
			fake.Reply{After: summaryTurn, Say: "Sheep were counted.<|return|>"})
		for _, fields := range []string{``, `,"reasoning":"full"`, `,"reasoning":"summary"`,
			`,"reasoning":"full","chunks":true`} {
			history, call := sealedRun(t, s, fields)
			history = append(history, result(call))
			for i := range history {
				history[i] = strings.Replace(history[i], `"content":"`+canary, `"content":"somebody else`, 1)
			}
			s.run(t, input(tool, history...))
			if thread := s.Last().Thread; thread != "thread" {
				t.Errorf("the run's thread is %q", thread)
			}
			if prompt := s.Prompt(t); strings.Count(prompt, canary) != 1 || strings.Contains(prompt, "somebody else") ||
				strings.Contains(prompt, "Sheep") {
				t.Errorf("%q: the prompt of a pending call is %q", fields, prompt)
			}
			// A client that keeps no reasoning messages still has the call's value.
			bare := slices.DeleteFunc(slices.Clone(history), func(m string) bool {
				return strings.Contains(m, `"role":"reasoning"`)
			})
			if s.run(t, input(tool, bare...)); strings.Count(s.Prompt(t), canary) != 1 {
				t.Errorf("%q: the prompt without reasoning messages is %q", fields, s.Prompt(t))
			}
			// After the turn has its answer, nothing of the reasoning is left.
			over := append(slices.Clone(history), `{"id":"a","role":"assistant","content":"seven"}`, user("and now?"))
			if s.run(t, input(tool, over...)); strings.Contains(s.Prompt(t), canary) {
				t.Errorf("%q: the prompt of a finished call is %q", fields, s.Prompt(t))
			}
		}
	}
}

func TestReasoningWithoutAValueIsTheClients(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	thought := `{"id":"r","role":"reasoning","content":"` + canary + `"}`
	call := `{"id":"m","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"get",` +
		`"arguments":"{}"}}]}`
	for name, c := range map[string]struct {
		want     string
		more     string
		messages []string
	}{
		"pending":   {canary, "", []string{user("a"), thought, call, result("c1")}},
		"after it":  {canary, "", []string{user("a"), call, thought, result("c1")}},
		"a summary": {"", "", []string{user("a"), strings.Replace(thought, `"r"`, `"summary_1"`, 1), call, result("c1")}},
		"legacy":    {"", props(`"legacy_thinking":true`), []string{user("a"), thought, call, result("c1")}},
		"nobody's":  {"", "", []string{thought, user("a"), call, result("c1")}},
		"with context": {canary, `,"context":[{"description":"b","value":"c"}]`,
			[]string{user("a"), thought, call, result("c1")}},
	} {
		s.run(t, input(tool+c.more, c.messages...))
		got := ""
		for _, m := range s.Last().Messages {
			got += m.Reasoning
		}
		if got != c.want {
			t.Errorf("%s: the reasoning is %q", name, got)
		}
	}
}

// A value in the wrong place is left out with a warning. Under strict it ends the run before it begins.
func TestValuesOutOfPlace(t *testing.T) {
	reply := fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "", "get", `{"a": 1}`)}
	answer := fake.Reply{After: "7<|end|><|start|>assistant", Say: wiretest.Think("", "It is seven.")}
	s := serve(t, fake.Config{}, wiretest.Anyone(), reply, answer)
	history, call := sealedRun(t, s, `,"reasoning":"full"`)
	history = append(history, result(call))
	var thought struct{ ID, EncryptedValue string }
	if err := json.Unmarshal([]byte(history[1]), &thought); err != nil || thought.EncryptedValue == "" {
		t.Fatalf("%s: %v", history[1], err)
	}
	value := thought.EncryptedValue
	whole := input(tool, history...)
	carried := func(role string) string {
		m := fmt.Sprintf(`{"id":"p","role":%q,"content":"a","encryptedValue":%q}`, role, value)
		return input(tool, append(slices.Clone(history), m)...)
	}
	swap := func(from, to string) string { return strings.Replace(whole, from, to, 1) }
	altered := []byte(value)
	altered[100] ^= 1
	if altered[100] == '`' || altered[100] == '@' {
		altered[100] = 'x'
	}
	another := &wire.Principal{ID: "another", Scopes: wire.Scopes(nil), Reasoning: reasoning.VisibilityFull}
	anyone, unknown := wiretest.Anyone(), seal.NewKeyring()
	for name, c := range map[string]struct {
		keys              *seal.Keyring
		principal         *wire.Principal
		body, code, param string
		// left is the number of values that still restore the reasoning; its message has two.
		left int
	}{
		"its place": {s.keys, wiretest.Anyone(), whole, "", "", 2},
		"edited":    {s.keys, wiretest.Anyone(), swap(`"content":"look"`, `"content":"today: look"`), "", "", 2},
		"thread": {s.keys, wiretest.Anyone(), swap(`"threadId":"thread"`, `"threadId":"other"`), "sealed_foreign",
			"messages[1].encryptedValue", 0},
		"call": {s.keys, wiretest.Anyone(), strings.ReplaceAll(whole, call, "elsewhere"), "sealed_foreign",
			"messages[1].encryptedValue", 0},
		"user": {s.keys, wiretest.Anyone(), swap(`"role":"user"`, `"encryptedValue":"`+value+`","role":"user"`),
			"sealed_foreign", "messages[0].encryptedValue", 2},
		"tool": {s.keys, wiretest.Anyone(), swap(`"role":"tool"`, `"encryptedValue":"`+value+`","role":"tool"`),
			"sealed_foreign", "messages[3].encryptedValue", 2},
		"activity":  {s.keys, anyone, carried("activity"), "sealed_foreign", "messages[4].encryptedValue", 2},
		"developer": {s.keys, anyone, carried("developer"), "sealed_foreign", "messages[4].encryptedValue", 2},
		"no assistant": {s.keys, wiretest.Anyone(), input(tool, history[1], user("7")), "sealed_foreign",
			"messages[0].encryptedValue", 0},
		"repeated": {s.keys, wiretest.Anyone(), input(tool, append(history, history[1], history[2], history[3])...),
			"sealed_repeated", "messages[4].encryptedValue", 2},
		"principal": {s.keys, another, whole, "sealed_foreign", "messages[1].encryptedValue", 0},
		"altered": {s.keys, wiretest.Anyone(), swap(value, string(altered)), "sealed_tampered",
			"messages[1].encryptedValue", 1},
		"cut": {s.keys, wiretest.Anyone(), swap(value, value[:200]), "sealed_tampered",
			"messages[1].encryptedValue", 1},
		"no value": {s.keys, wiretest.Anyone(), swap(value, "x"), "sealed_tampered", "messages[1].encryptedValue", 1},
		"outdated": {s.keys, wiretest.Anyone(), swap(value, "AQ"+value[2:]), "sealed_tampered",
			"messages[1].encryptedValue", 1},
		"other keys": {unknown, wiretest.Anyone(), whole, "sealed_unknown_key", "messages[1].encryptedValue", 0},
	} {
		t.Run(name, func(t *testing.T) {
			at := s
			at.url = wiretest.Serve(t, New(s.Models, Config{Seal: c.keys}), c.principal).URL
			got, body := at.run(t, c.body)
			warned := strings.Count(body, `"name":"warning","value":{"code":"sealed_dropped"`)
			if got.last.Type != "RUN_FINISHED" || (c.code != "") != (warned == 1) || !strings.Contains(body, c.code) ||
				!strings.Contains(body, c.param) {
				t.Errorf("%s", body)
			}
			restored := 0
			for _, m := range s.Last().Messages {
				if m.Reasoning != "" {
					restored++
				}
			}
			if restored != min(c.left, 1) {
				t.Errorf("%d messages have reasoning", restored)
			}
			at.url = wiretest.Serve(t, New(s.Models, Config{Seal: c.keys, StrictSeal: true}), c.principal).URL
			got, body = at.run(t, c.body)
			if c.code == "" {
				if got.last.Type != "RUN_FINISHED" {
					t.Errorf("strict: %s", body)
				}
				return
			}
			if got.last.Type != "RUN_ERROR" || got.last.Code != c.code || !strings.HasPrefix(got.last.Message, c.param) ||
				strings.Count(body, "data: ") != 1 {
				t.Errorf("strict: %s", body)
			}
		})
	}
}

// counted counts errors, as the server's writer does.
type counted struct {
	*httptest.ResponseRecorder
	codes []string
}

func (c *counted) Refused(code string) { c.codes = append(c.codes, code) }

// TestErrorsAreCounted checks that both kinds of answers to refused requests are counted.
func TestErrorsAreCounted(t *testing.T) {
	a := New(nil, Config{})
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{wire.Invalid("runId", "it is required"), http.StatusBadRequest, "application/json"},
		{&wire.Error{Status: http.StatusBadRequest, Code: "sealed_foreign", Err: seal.ErrForeign}, http.StatusOK,
			"text/event-stream; charset=utf-8"},
	} {
		w := &counted{ResponseRecorder: httptest.NewRecorder()}
		a.WriteError(w, c.err)
		if kind := w.Header().Get("Content-Type"); w.Code != c.status || kind != c.kind {
			t.Errorf("%v is answered with %d and %s", c.err, w.Code, kind)
		}
		if want := wire.FromError(c.err, nil).Code; !slices.Equal(w.codes, []string{want}) {
			t.Errorf("%v is counted as %q", c.err, w.codes)
		}
	}
}

func TestRefused(t *testing.T) {
	modest := &wire.Principal{ID: "modest", Scopes: wire.Scopes(nil), Reasoning: reasoning.VisibilitySummary}
	s := serve(t, fake.Config{}, modest, fake.Reply{Say: ""})
	ask := user("a")
	long := strings.Repeat("x", 1025)
	for _, c := range []struct {
		body   string
		status int
		param  string
	}{
		{`{`, 400, ""}, {`[]`, 400, ""}, {`{"runId":"r","messages":[]}`, 400, "threadId"},
		{`{"threadId":"t","messages":[]}`, 400, "runId"},
		{`{"threadId":"t","runId":"r"}`, 400, "messages"}, {input(""), 400, "messages"}, {`{"threadId":7}`, 400, "threadId"},
		{strings.Replace(input("", ask), `"thread"`, `"`+long+`"`, 1), 400, "threadId"},
		{input(`,"parentRunId":"`+long+`"`, ask), 400, "parentRunId"},
		{input(`,"resume":[{"interruptId":"i","status":"resolved"}]`, ask), 400, "resume[0].interruptId"},
		{input("", `{"role":"user","content":"a"}`), 400, "messages[0].id"},
		{input("", `{"id":"1","role":"robot","content":"a"}`), 400, "messages[0].role"},
		{input("", `{"id":"1","role":"user"}`), 400, "messages[0].content"},
		{input("", `{"id":"1","role":"user","content":7}`), 400, "messages[0].content"},
		{input("", `{"id":"1","role":"user","content":[{"type":"image","source":{}}]}`), 400, "messages[0].content[0].type"},
		{input("", `{"id":"1","role":"user","content":[{"type":"text"}]}`), 400, "messages[0].content[0].text"},
		{input("", ask, `{"id":"1","role":"tool","content":"a"}`), 400, "messages[1].toolCallId"},
		{input("", ask, `{"id":"1","role":"assistant","toolCalls":[{"id":"c","function":{"arguments":"{}"}}]}`), 400,
			"messages[1].toolCalls[0].function.name"},
		{input("", ask, `{"id":"1","role":"assistant","toolCalls":[{"function":{"name":"f"}}]}`), 400,
			"messages[1].toolCalls[0].id"},
		{input("", `{"id":"1","role":"activity","content":{}}`), 400, "messages"},
		{input("", `{"id":"1","role":"reasoning","content":"a"}`), 400, "messages"},
		{input(`,"tools":[{"name":"f","parameters":[]}]`, ask), 400, "tools[0].parameters"},
		{input(`,"tools":[{"name":"","description":""}]`, ask), 400, "tools[0].name"},
		{input(`,"context":"x"`, ask), 400, "context"}, {input(`,"forwardedProps":"x"`, ask), 400, "forwardedProps"},
		{input(props(`"model":"nothing"`), ask), 404, "model"}, {input(props(`"reasoning":"full"`), ask), 403,
			"forwardedProps.reasoning"},
		{input(props(`"reasoning":"all"`), ask), 400, "forwardedProps.reasoning"}, {input(props(`"reasoning":7`), ask), 400,
			"forwardedProps.reasoning"},
		{input(props(`"reasoning":{"effort":7}`), ask), 400, "forwardedProps.reasoning.effort"},
		{input(props(`"reasoning":{"summary":"long"}`), ask), 400, "forwardedProps.reasoning.summary"},
		{input(props(`"reasoning":{"summary":"auto","exclude":true}`), ask), 400, "forwardedProps.reasoning.exclude"},
		{input(props(`"reasoning":{"effort":"low"},"reasoning_effort":"high"`), ask), 400, "forwardedProps.reasoning_effort"},
		{input(props(`"reasoning":{"max_tokens":1},"reasoning_budget":2`), ask), 400, "forwardedProps.reasoning_budget"},
		{input(props(`"reasoning_effort":"much"`), ask), 400, "forwardedProps.reasoning_effort"},
		{input(props(`"reasoning_budget":-2`), ask), 400, "forwardedProps.reasoning_budget"},
		{input(props(`"reasoning":"none","include_reasoning":true`), ask), 400, "forwardedProps.include_reasoning"},
		{input(props(`"reasoning_strategy":"guess"`), ask), 400, "forwardedProps.reasoning_strategy"},
		{input(props(`"reasoning_encrypt":true`), ask), 400, "forwardedProps.reasoning_encrypt"},
		{input(props(`"chunks":true,"legacy_thinking":true`), ask), 400, "forwardedProps.chunks"},
		{input(props(`"reasoning_seal":true,"legacy_thinking":true`), ask), 400, "forwardedProps.reasoning_seal"},
		{input(props(`"max_tokens":0`), ask), 400, "forwardedProps.max_tokens"}, {input(props(`"temperature":3`), ask), 400,
			"forwardedProps.temperature"},
		{input(props(`"top_p":-1`), ask), 400, "forwardedProps.top_p"}, {input(props(`"seed":9007199254740992`), ask), 400,
			"forwardedProps.seed"},
		{input(props(`"stop":[""]`), ask), 400, "forwardedProps.stop[0]"}, {input(props(`"tool_choice":"get"`), ask), 400,
			"forwardedProps.tool_choice"},
		{input(props(`"tool_choice":"required"`), ask), 400, "forwardedProps.tool_choice"},
		{input(props(`"response_schema":7`), ask), 400, "forwardedProps.response_schema"},
		{input(props(`"response_schema":{"type":"xml","schema":{}}`), ask), 400, "forwardedProps.response_schema.type"},
		{input(props(`"response_schema":{"type":"json"}`), ask), 400, "forwardedProps.response_schema.schema"},
		{input(props(`"response_schema":{"type":"json","schema":{"$dynamicRef":"#x"}}`), ask), 400,
			"forwardedProps.response_schema"},
	} {
		status, answer := s.post(t, c.body)
		var e wire.PlainError
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != c.status || e.Param != c.param ||
			e.Code == "" || !strings.HasPrefix(e.Message, c.param) {
			t.Errorf("%.200s: %d %s, want %d about %s", c.body, status, answer, c.status, c.param)
		}
	}
	if _, answer := s.post(t, input(props(`"reasoning":"full"`), ask)); !strings.Contains(answer, "reasoning:full") {
		t.Errorf("the permission is not named: %s", answer)
	}
}

func TestErrorsDuringARun(t *testing.T) {
	s := serve(t, fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step > 4 {
			return errors.New("the engine broke at " + canary)
		}
		return nil
	}}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("sum"), Say: wiretest.Think(canary, "four")})
	c, body := s.run(t, input("", user("sum")))
	if c.last.Type != "RUN_ERROR" || c.last.Code != wire.CodeInternal ||
		!strings.HasPrefix(body, `data: {"type":"RUN_STARTED"`) || strings.Contains(body, "zebras") {
		t.Errorf("%s", body)
	}
}

// A client that goes away ends its run.
func TestCancel(t *testing.T) {
	stepped := make(chan struct{}, 1)
	s := serve(t, fake.Config{Fail: func(int, []backend.Input) error {
		select {
		case stepped <- struct{}{}:
		default:
		}
		time.Sleep(time.Millisecond)
		return nil
	}}, wiretest.Anyone(), fake.Reply{After: wiretest.Ask("count"), Say: wiretest.Think("", strings.Repeat("one ", 5000))})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/agui",
		strings.NewReader(input("", user("count"))))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-stepped
	cancel()
	for range 500 {
		if s.Idle() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the run goes on")
}

// FuzzDecode: every request is decoded, or refused with a 4xx status. What is decoded can be checked and rendered
// without harm.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(input(tool+props(`"reasoning":{"effort":"low","summary":"auto"},"reasoning_seal":true,"stop":["a"]`),
		user("a"))))
	f.Add([]byte(strings.Replace(input("", user("a")), `"state":{}`, `"state":[{"a": [1,{}]}]`, 1)))
	f.Add([]byte(input(`,"context":[{"description":"a","value":"b"}]`, user("a"),
		`{"id":"r","role":"reasoning","content":"b","encryptedValue":"AQ"}`,
		`{"id":"m","role":"assistant","toolCalls":[{"id":"c","function":{"name":"f","arguments":"x"},`+
			`"encryptedValue":"AQ"}]}`, result("c"))))
	f.Add([]byte(input("", `{"id":"1","role":"system","content":"a"}`, `{"id":"2","role":"activity"}`,
		`{"id":"3","role":"user","content":[{"type":"text","text":null}]}`)))
	models := wiretest.New(f, fake.Config{})
	a := New(models, Config{})
	refused := func(t *testing.T, err error) {
		e := wire.FromError(err, fields)
		if e.Status != http.StatusBadRequest || e.Message == "" {
			t.Fatalf("refused with %v", err)
		}
		var out frames
		if err := NewEncoder(config(FormStandard), out.send).Fail(e); err != nil {
			t.Fatal(err)
		}
		if _, err := fold(out); err != nil {
			t.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body RunAgentInput
		err := wire.Unmarshal(data, &body)
		var p *prompt
		if err == nil {
			p, err = a.decode(wiretest.Anyone(), &body)
		}
		if err == nil {
			_, _, err = contract.Bind(a.cfg.Seal, seal.Scope{Principal: wire.Local, Model: seal.Model{Digest: "digest"}}, true,
				&p.req, p.values)
		}
		if err == nil {
			_, err = models.Engine.Prompt(t.Context(), "", p.req)
		}
		if err != nil {
			refused(t, err)
			return
		}
		var out frames
		cfg := config(p.form)
		cfg.ThreadID, cfg.RunID, cfg.ParentRunID = body.ThreadID, body.RunID, body.ParentRunID
		enc := NewEncoder(cfg, out.send)
		for _, e := range wiretest.Run(reasoning.Result{Finish: reasoning.FinishStop}) {
			if err := enc.Push(0, &e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fold(out); err != nil {
			t.Fatal(err)
		}
	})
}

// Calls interrupt a run if the client wants that, and resume answers all of them.
func TestInterrupts(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(),
		fake.Reply{After: wiretest.Ask("look"), Say: wiretest.Call(canary, "", "get", `{"a": 1}`)},
		fake.Reply{After: wiretest.Ask("both"), Say: wiretest.Call(canary, "", "get", `{"a": 2}`)})
	asked := tool + props(`"interrupts":true`)
	c, body := s.run(t, input(asked, user("look")))
	var ids []string
	for id := range c.arguments {
		ids = append(ids, id)
	}
	if len(ids) != 1 || !reflect.DeepEqual(c.last.Outcome, &Outcome{Type: "interrupt",
		Interrupts: []Interrupt{{ids[0], "tool_call", ids[0]}}}) {
		t.Fatalf("%s", body)
	}
	for _, r := range []struct{ entries, result, wrong string }{
		{`{"interruptId":%q,"status":"resolved","payload":"two\nlines"}`, "two\nlines", ""},
		{`{"interruptId":%q,"status":"resolved","payload":{"approved":false}}`, `{"approved":false}`, ""},
		{`{"interruptId":%q,"status":"cancelled"}`, "Error: the user cancelled the call", ""},
		{`{"interruptId":%[1]q,"status":"cancelled"},{"interruptId":%[1]q,"status":"cancelled"}`, "",
			"resume[1].interruptId"},
		{`{"interruptId":%q,"status":"expired"}`, "", "resume[0].status"},
	} {
		more := fmt.Sprintf(asked+`,"resume":[`+r.entries+`]`, ids[0])
		status, body := s.post(t, input(more, append([]string{user("look")}, c.history()...)...))
		if r.wrong != "" {
			if status != http.StatusBadRequest || !strings.Contains(body, r.wrong) {
				t.Errorf("%s: %d: %s", r.entries, status, body)
			}
			continue
		}
		told := s.Last().Messages
		last := told[len(told)-1]
		if status != http.StatusOK || last.Role != chattemplate.ToolRole || last.ToolCallID != ids[0] ||
			last.Content != r.result {
			t.Errorf("%s: %d: %+v", r.entries, status, last)
		}
	}
	two := `{"id":"a","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"get",` +
		`"arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"get","arguments":"{}"}}]}`
	status, body := s.post(t, input(tool+`,"resume":[{"interruptId":"c1","status":"cancelled"}]`, user("look"), two))
	if status != http.StatusBadRequest || !strings.Contains(body, "all calls") {
		t.Errorf("%d: %s", status, body)
	}
}

// Parts of results that are not text become a note, so that a client can send its history again. In the last message
// of the user they are refused.
func TestResultsAsParts(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone())
	image := `{"type":"image","source":{"type":"url","value":"https://example.com/x.png"}}`
	call := `{"id":"a","role":"assistant","toolCalls":[{"id":"c1","type":"function",` +
		`"function":{"name":"get","arguments":"{}"}}]}`
	result := `{"id":"t","role":"tool","toolCallId":"c1",` +
		`"content":[{"type":"text","id":"p","text":"one","metadata":{"a":1}},` +
		image + `,{"type":"hologram"}]}`
	c, body := s.run(t, input(tool, user("look"), call, result))
	told := s.Last().Messages
	const note = ": left out, because only text can be read here]"
	if got := told[len(told)-1].Content; got != "one\n\n[image"+note+"\n\n[hologram"+note {
		t.Errorf("the result is %q", got)
	}
	if !strings.Contains(body, contract.CodeMediaSkipped) {
		t.Errorf("no warning: %+v\n%s", c.last, body)
	}
	empty := `{"id":"t","role":"tool","toolCallId":"c1","content":[]}`
	if _, body := s.run(t, input(tool, user("look"), call, empty)); body == "" {
		t.Error("an empty list of parts is refused")
	}
}
