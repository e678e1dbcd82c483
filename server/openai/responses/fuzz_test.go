package responses

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
	"runner/server/wiretest"
)

// refusal checks that an error tells the client what is wrong. It reports whether there was an error.
func refusal(t *testing.T, input string, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	var e *wire.Error
	if !errors.As(err, &e) || e.Status < 400 || e.Status >= 500 || e.Message == "" {
		t.Fatalf("%q: %v", input, err)
	}
	return true
}

var requestSeeds = []string{
	`{"input":"hi"}`,
	`{"input":[{"role":"user","content":"hi"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],` +
		`"tool_choice":"auto"}`,
	`{"input":[{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a"},` +
		`{"type":"refusal","refusal":"b"}]}]}`,
	`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",` +
		`"call_id":"c","output":[{"type":"input_text","text":"x"}]}]}`,
	`{"input":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],` +
		`"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":"AQ"}]}`,
	`{"input":[{"type":"item_reference","id":"msg_1"},{"id":"x"},{"type":"web_search_call"}],` +
		`"previous_response_id":"resp_1"}`,
	`{"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"},` +
		`"instructions":"x","include":["reasoning.encrypted_content"]}`,
	`{"input":"x","reasoning":{"effort":"low","summary":"auto"},"seed":18446744073709551615,"top_logprobs":3,` +
		`"metadata":{"a":"b"},"truncation":"auto"}`,
	`{"input":"x","tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]},` +
		`"background":true,"store":true,"stream":true}`,
}

// Any request is read or refused with a 4xx status. What is read can be rendered, or is refused then. Its conversation
// can be written and read back unchanged.
func FuzzRequest(f *testing.F) {
	for _, s := range requestSeeds {
		f.Add(s)
	}
	fix := start(f, Config{}, fake.Config{})
	principal := wiretest.Anyone()
	f.Fuzz(func(t *testing.T, body string) {
		var w CreateRequest
		if refusal(t, body, wire.Unmarshal([]byte(body), &w)) {
			return
		}
		turn, err := fix.prepare(wire.WithPrincipal(t.Context(), principal), &w)
		if refusal(t, body, err) {
			return
		}
		defer turn.model.Release()
		if _, err := json.Marshal(turn.response); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if r, ok := turn.record("x"); !ok || r.size < recordCost {
			t.Fatalf("%q: cannot be stored", body)
		}
		if _, err := turn.model.Prompt(t.Context(), "", turn.request); err != nil &&
			wire.FromError(err, params).Status >= http.StatusInternalServerError {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

// Any items become messages that follow the rules of conversations, or an error names the item. The store writes items
// that can be read back.
func FuzzItems(f *testing.F) {
	for _, s := range requestSeeds {
		var w CreateRequest
		if json.Unmarshal([]byte(s), &w) == nil && len(w.Input) > 0 && w.Input[0] == '[' {
			f.Add(string(w.Input))
		}
	}
	keys := seal.NewKeyring()
	open := func() *opener {
		m := seal.Model{Digest: "m"}
		return &opener{contract.NewRestorer(keys, seal.Scope{Principal: "p", Model: m}, false), m}
	}
	f.Fuzz(func(t *testing.T, list string) {
		if !json.Valid([]byte(list)) {
			return
		}
		q, err := read(&CreateRequest{Input: json.RawMessage(list)}, generation.Request{})
		if refusal(t, list, err) {
			return
		}
		for i := range q.items {
			if ref, ok := q.items[i].item.(*reference); ok {
				q.items[i].item = &Message{ID: ref.id, Type: typeMessage, Role: "assistant", Content: []Part{}}
			}
		}
		got, err := messages(q.items, open())
		if refusal(t, list, err) {
			return
		}
		for i, m := range got {
			if len(m.ToolCalls) > 0 && m.Role != chattemplate.Assistant || m.Reasoning != "" &&
				m.Role != chattemplate.Assistant || m.Role == chattemplate.ToolRole && m.ToolCallID == "" {
				t.Fatalf("%q: message %d is %+v", list, i, m)
			}
		}
		for _, shorter := range contract.Cuts(got) {
			c := shorter.Messages()
			if len(c) >= len(got) {
				t.Fatalf("%q: a cut of %d messages has %d", list, len(got), len(c))
			}
			if n := len(c); n > 0 && c[n-1].Content != got[len(got)-1].Content {
				t.Fatalf("%q: a cut does not end like the whole", list)
			}
		}
		items := make([]Item, len(q.items))
		for i, e := range q.items {
			items[i] = e.item
		}
		written, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(&CreateRequest{Input: written}, generation.Request{})
		if err != nil {
			t.Fatalf("%q: written %q: %v", list, written, err)
		}
		twice, err := messages(again.items, open())
		if err != nil || len(twice) != len(got) {
			t.Fatalf("%q: %d messages, then %d, %v", list, len(got), len(twice), err)
		}
	})
}
