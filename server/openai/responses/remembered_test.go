package responses

import (
	"testing"
	"time"

	"runner/backend/fake"
	"runner/runner"
	"runner/server/wiretest"
)

// The reasoning before a call is remembered for the call in its place, and forgotten with its response. Nothing is
// remembered of a response that is not stored.
func TestRememberedCallsGoWithTheirResponse(t *testing.T) {
	const after = "the sky<|end|><|start|>assistant"
	calls := runner.NewCallMemory(8, time.Hour)
	models := wiretest.NewRunner(t, fake.Config{}, runner.Config{CallMemory: calls},
		fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "", "look", `{}`)},
		fake.Reply{Prompt: secret, After: after, Say: wiretest.Think("", "I remember.")},
		fake.Reply{After: after, Say: wiretest.Think("", "I forgot.")})
	f := &fixture{models: models, API: New(models, Config{Calls: calls})}
	f.server = wiretest.Serve(t, f.API, wiretest.Anyone())
	stranger := wiretest.Anyone()
	stranger.ID = "stranger"
	for name, c := range map[string]struct {
		made    object
		changed func(made object, input []any) *fixture
		want    string
	}{
		"as it was":  {object{}, func(object, []any) *fixture { return f }, "I remember."},
		"not stored": {object{"store": false}, func(object, []any) *fixture { return f }, "I forgot."},
		"deleted": {object{}, func(made object, _ []any) *fixture {
			f.do(t, "DELETE", "/v1/responses/"+made["id"].(string), "")
			return f
		}, "I forgot."},
		"deleted in the background": {object{"background": true}, func(made object, _ []any) *fixture {
			f.do(t, "DELETE", "/v1/responses/"+made["id"].(string), "")
			return f
		}, "I forgot."},
		"in another conversation": {object{}, func(_ object, input []any) *fixture {
			input[0] = object{"role": "user", "content": "Another question."}
			return f
		}, "I forgot."},
		"with other arguments": {object{}, func(_ object, input []any) *fixture {
			input[1].(object)["arguments"] = `{"a":1}`
			return f
		}, "I forgot."},
		"of another key": {object{}, func(object, []any) *fixture { return f.as(t, stranger) }, "I forgot."},
	} {
		request := object{"input": "Call it.", "tools": look}
		for k, v := range c.made {
			request[k] = v
		}
		made := f.post(t, body(t, request))
		for made["status"] == statusQueued || made["status"] == statusInProgress {
			made = f.get(t, "/v1/responses/"+made["id"].(string))
		}
		call := item(made, len(items(made))-1)
		input := []any{object{"role": "user", "content": "Call it."}, call,
			object{"type": "function_call_output", "call_id": call["call_id"], "output": "the sky"}}
		got := c.changed(made, input).post(t, body(t, object{"input": input, "tools": look}))
		if text := partText(item(got, len(items(got))-1), "content", 0); text != c.want {
			t.Errorf("%s: %q", name, text)
		}
	}
}
