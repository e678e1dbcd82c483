package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
	"runner/server/wiretest"
)

// FuzzDecode checks that any request is decoded or refused with a 4xx status. What is decoded must survive validation
// and rendering.
func FuzzDecode(f *testing.F) {
	f.Add(
		[]byte(body("a",
			tool+`,"thinking":{"type":"adaptive"},"system":"b","stop_sequences":["c"],"tool_choice":{"type":"any"}`)))
	f.Add([]byte(history("a", []any{map[string]any{"type": "thinking", "thinking": "b", "signature": "AQ"}}, `"c"`)))
	f.Add([]byte(history("a", []any{map[string]any{"type": "tool_use", "id": "i", "name": "n", "input": "x"}},
		`[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"d"}]}]`)))
	f.Add(
		[]byte(
			`{"max_tokens":1,"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text",` +
				`"text":null}]}],"output_format":{"type":"json_schema","schema":{}}}`))
	models := wiretest.New(f, fake.Config{})
	a := New(models, Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var body MessagesRequest
		err := wire.Unmarshal(data, &body)
		var p *prompt
		if err == nil {
			p, err = a.decode(wiretest.Anyone(), &body, true)
		}
		if err == nil {
			_, _, err = contract.Bind(a.cfg.Seal, seal.Scope{Principal: wire.Local, Model: seal.Model{Digest: "digest"}}, true,
				&p.req, p.values)
		}
		if err != nil {
			var e *wire.Error
			if !errors.As(err, &e) || e.Status != http.StatusBadRequest || e.Message == "" {
				t.Fatalf("refused with %v", err)
			}
			if _, err := json.Marshal(errorResponse(e, "")); err != nil {
				t.Fatal(err)
			}
			return
		}
		if _, err := models.Engine.Prompt(t.Context(), "", p.req); err != nil {
			if e := wire.FromError(err, fields); e.Status != http.StatusBadRequest {
				t.Fatalf("not rendered: %v", err)
			}
		}
	})
}

// FuzzInput checks that the input of a call is always JSON, and that an object is unchanged.
func FuzzInput(f *testing.F) {
	for _, s := range []string{"", " ", "{}", `{"a":1}`, `{"a":`, "[]", "\xff", `"a"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		input := inputOf(string(arguments))
		if !json.Valid([]byte(input)) {
			t.Fatalf("%q becomes %q", arguments, input)
		}
		if input[0] == '{' && input != "{}" && contract.Arguments(json.RawMessage(input)) != input {
			t.Fatalf("%q comes back as %q", input, contract.Arguments(json.RawMessage(input)))
		}
	})
}
