package ollama

import (
	"encoding/json"
	"net/http"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

// FuzzDecode checks that any request is decoded or refused with a 4xx status. What is decoded must survive validation
// and rendering.
func FuzzDecode(f *testing.F) {
	f.Add(
		[]byte(chat("a",
			tool+
				`,"think":"low","format":{"type":"object"},"keep_alive":"5m","options":{"stop":["c"],"seed":1,"num_predict":-1}`)))
	f.Add(
		[]byte(generate("a", `,"raw":true,"logprobs":true,"top_logprobs":2,"options":{"temperature":0.1,"repeat_last_n":0}`)))
	f.Add(
		[]byte(
			`{"model":"m","messages":[{"role":"assistant","thinking":"t","tool_calls":[{"function":{"name":"n",` +
				`"arguments":"x"}}]},{"role":"tool","content":"c"}]}`))
	f.Add([]byte(`{"model":"m","input":["a"],"dimensions":3,"format":"json","think":null,"options":null}`))
	models := wiretest.New(f, fake.Config{})
	a := New(models, Config{})
	refused := func(t *testing.T, err error) {
		t.Helper()
		e := wire.FromError(err, fields)
		if e.Status != http.StatusBadRequest || e.Message == "" {
			t.Fatalf("refused with %v", err)
		}
		if _, err := json.Marshal(errorResponse(e)); err != nil {
			t.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c ChatRequest
		var g GenerateRequest
		var e EmbedRequest
		if wire.Unmarshal(data, &e) == nil {
			if _, err := readInput(e.Input); err != nil {
				refused(t, err)
			}
		}
		for _, decode := range []func() (*prompt, error){
			func() (*prompt, error) {
				if err := wire.Unmarshal(data, &c); err != nil {
					return nil, err
				}
				return a.decodeChat(wiretest.Anyone(), &c)
			},
			func() (*prompt, error) {
				if err := wire.Unmarshal(data, &g); err != nil {
					return nil, err
				}
				return a.decodeGenerate(wiretest.Anyone(), &g)
			},
		} {
			p, err := decode()
			if err != nil {
				refused(t, err)
				continue
			}
			if p.empty {
				continue
			}
			if _, err := models.Engine.Prompt(t.Context(), "", p.req); err != nil {
				refused(t, err)
			}
		}
	})
}

// FuzzCall checks that the arguments of a call are always an object.
func FuzzCall(f *testing.F) {
	for _, s := range []string{"", " ", "{}", `{"a":1}`, `{"a":`, "[]", "\xff", `"a"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		c, ok := callOf(reasoning.Call{ID: "id", Name: "f"}, arguments)
		if !ok {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(c.Function.Arguments, &object); err != nil {
			t.Fatalf("%q becomes %s", arguments, c.Function.Arguments)
		}
	})
}
