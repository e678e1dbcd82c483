package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/seal"
	"runner/server/wiretest"
)

// The shown prompt equals that of a chat completion of the same request.
func TestAppliedTemplatesAreThePromptsOfCompletions(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{Say: wiretest.Think("hm", "so")})
	const call = `{"role":"assistant","content":null,"reasoning":"the plan","tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"look","arguments":"{\"at\":1}"}}]}`
	for _, c := range []struct{ request, holds string }{
		{body("hi", ""), "hi"},
		{body("hi", `"reasoning_effort":"none"`), "hi"},
		{body("hi", `"chat_template_kwargs":{"enable_thinking":false}`), "hi"},
		{body("hi", `"reasoning_effort":"high"`), "Reasoning: high"},
		{body("hi", `"response_format":{"type":"json_schema","json_schema":{"name":"sum","schema":{"type":"object"}}}`),
			"sum"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]}`, "one\ntwo"},
		{`{"messages":[{"role":"user","content":"hi"},` + call + `,{"role":"tool","tool_call_id":"c1","content":"found"}],` +
			lookTool + `}`, "the plan"},
		{`{"messages":[{"role":"user","content":"hi"},` + call + `,{"role":"tool","tool_call_id":"c1","content":"found"}],` +
			lookTool + `}`, `{"at":1}`},
		{`{"messages":[{"role":"user","content":"hi"},` + call + `,{"role":"tool","tool_call_id":"c1","content":"found"}],` +
			lookTool + `,"tool_choice":"none"}`, "found"},
	} {
		var applied AppliedTemplate
		var completion ChatCompletion
		shown, made := f.post("/apply-template", c.request), f.post("/v1/chat/completions", c.request)
		if err := json.Unmarshal([]byte(shown.body), &applied); err != nil || shown.status != http.StatusOK {
			t.Fatalf("%s: %d %s", c.request, shown.status, shown.body)
		}
		if err := json.Unmarshal([]byte(made.body), &completion); err != nil || made.status != http.StatusOK {
			t.Fatalf("%s: %d %s", c.request, made.status, made.body)
		}
		if applied.Tokens == 0 || applied.Tokens != completion.Usage.PromptTokens ||
			!strings.Contains(applied.Prompt, c.holds) {
			t.Errorf("%s: %d tokens where a completion has %d, %s", c.request, applied.Tokens, completion.Usage.PromptTokens,
				applied.Prompt)
		}
	}
	for _, request := range []string{`{"messages":[]}`, body("hi", `"tool_choice":"nothing"`),
		`{"messages":[{"role":"wizard","content":"hi"}]}`} {
		if got := f.post("/apply-template", request); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
}

// A sealed value is not opened where its content would show.
func TestAppliedTemplatesShowNothingSealed(t *testing.T) {
	f := start(t, Config{Seal: seal.NewKeyring()}, nil,
		fake.Reply{After: wiretest.Ask("hi"), Say: wiretest.Call("the canary plan", "", "look", `{}`)})
	var made struct {
		Choices []struct{ Message json.RawMessage }
	}
	got := f.post("/v1/chat/completions", body("hi", lookTool+`,"reasoning_seal":true`))
	if json.Unmarshal([]byte(got.body), &made) != nil || !strings.Contains(got.body, "reasoning_encrypted_content") {
		t.Fatalf("%s", got.body)
	}
	got = f.post("/apply-template", `{"messages":[{"role":"user","content":"hi"},`+string(made.Choices[0].Message)+`],`+
		lookTool+`,"keep_reasoning":true}`)
	if got.status != http.StatusBadRequest ||
		!strings.Contains(got.body, `"param":"messages[1].reasoning_encrypted_content"`) ||
		strings.Contains(got.body, "canary") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
