package responses

import (
	"errors"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/seal"
	"runner/server/wire"
	"runner/server/wiretest"
)

// calling is a model that calls look when it is asked to, and answers when it has the output.
func calling() []fake.Reply {
	return []fake.Reply{
		{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "", "look", `{}`)},
		{After: "the sky<|end|><|start|>assistant", Say: wiretest.Think("", "You see the sky.")},
	}
}

var look = []any{object{"type": "function", "name": "look"}}

// carried makes a response with a sealed value and returns it with the input of the next turn.
func carried(t *testing.T, f *fixture, more object) (made object, next []any) {
	t.Helper()
	request := object{"input": "Call it.", "tools": look, "include": []string{"reasoning.encrypted_content"}}
	for k, v := range more {
		request[k] = v
	}
	made = f.post(t, body(t, request))
	if encode(t, items(made)) != `["reasoning","function_call"]` {
		t.Fatalf("response %v", made)
	}
	call := item(made, 1)
	return made, []any{object{"role": "user", "content": "Call it."}, item(made, 0), call,
		object{"type": "function_call_output", "call_id": call["call_id"], "output": "the sky"}}
}

const kept = "<|channel|>analysis<|message|>" + thoughts

// A sealed value restores the reasoning of its turn while calls are pending, with a store and without, with ids and, without a store, also
// where the client drops them.
func TestSealedValuesRestoreReasoning(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	for _, stored := range []bool{true, false} {
		_, next := carried(t, f, object{"store": stored})
		request := object{"input": next, "tools": look, "store": stored}
		if prompt := f.prompt(t, request); !strings.Contains(prompt, kept) {
			t.Errorf("stored %v: prompt %q", stored, prompt)
		}
		if got := f.post(t, body(t, request)); partText(item(got, 0), "content", 0) != "You see the sky." {
			t.Errorf("response %v", got)
		}
		for _, x := range next[1:] {
			delete(x.(object), "id")
		}
		if stored {
			if e := f.refused(t, "POST", "/v1/responses", body(t, request), 400); e["code"] != "sealed_foreign" {
				t.Errorf("error %v", e)
			}
		} else if prompt := f.prompt(t, request); !strings.Contains(prompt, kept) {
			t.Errorf("without ids: prompt %q", prompt)
		}
	}
}

// With a store the next turn has its reasoning without a value, and so has one that names the item.
func TestTheStoreRestoresReasoning(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	for _, visibility := range []string{"none", "full"} {
		made := f.post(t, body(t, object{"input": "Call it.", "tools": look, "reasoning": visibility}))
		call := item(made, len(items(made))-1)
		output := object{"type": "function_call_output", "call_id": call["call_id"], "output": "the sky"}
		next := object{"input": []any{output}, "previous_response_id": made["id"], "tools": look}
		if prompt := f.prompt(t, next); strings.Count(prompt, kept) != 1 {
			t.Errorf("%s: prompt %q", visibility, prompt)
		}
		if visibility == "full" {
			named := object{"input": []any{object{"role": "user", "content": "Call it."}, object{"type": "item_reference", "id": item(made, 0)["id"]}, call, output}, "tools": look}
			if prompt := f.prompt(t, named); strings.Count(prompt, kept) != 1 {
				t.Errorf("by reference: prompt %q", prompt)
			}
			named["input"].([]any)[1] = object{"type": "reasoning", "id": item(made, 0)["id"], "summary": []any{}}
			if prompt := f.prompt(t, named); strings.Count(prompt, kept) != 1 {
				t.Errorf("emptied: prompt %q", prompt)
			}
		}
		// What a turn brought in counts in the turns after it too.
		second := f.post(t, body(t, next))
		prompt := f.prompt(t, object{"input": "Next.", "previous_response_id": second["id"], "keep_reasoning": true})
		if strings.Count(prompt, kept) != 1 {
			t.Errorf("%s: kept prompt %q", visibility, prompt)
		}
	}
}

// Reasoning that came in as a sealed value is there for the turns that go on from the response.
func TestCarriedReasoningGoesOn(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	_, next := carried(t, f, object{"store": false})
	second := f.post(t, body(t, object{"input": next, "tools": look}))
	prompt := f.prompt(t, object{"input": "Next.", "previous_response_id": second["id"], "reasoning": object{"context": "all_turns"}})
	if strings.Count(prompt, kept) != 1 {
		t.Errorf("prompt %q", prompt)
	}
	if prompt := f.prompt(t, object{"input": "Next.", "previous_response_id": second["id"]}); strings.Contains(prompt, secret) {
		t.Errorf("the reasoning of a finished turn is in the prompt %q", prompt)
	}
}

// Restored reasoning enters the prompt only where the format keeps it, and gives the same tokens as reasoning that was never away.
func TestRestoredTokens(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	_, next := carried(t, f, object{"store": false})
	plain := append([]any(nil), next...)
	plain[1] = object{"type": "reasoning", "summary": []any{}, "content": []any{object{"type": "reasoning_text", "text": thoughts}}}
	if got, want := f.prompt(t, object{"input": next, "tools": look}), f.prompt(t, object{"input": plain, "tools": look}); got != want {
		t.Errorf("restored %q, pending %q", got, want)
	}
	none := append(append([]any{}, next[:1]...), next[2:]...)
	end := []any{object{"role": "assistant", "content": "Done."}, object{"role": "user", "content": "Next."}}
	if got, want := f.prompt(t, object{"input": append(next, end...), "tools": look}), f.prompt(t, object{"input": append(none, end...), "tools": look}); got != want {
		t.Errorf("finished %q, without %q", got, want)
	}
	if got := f.prompt(t, object{"input": append(next, end...), "tools": look, "keep_reasoning": true}); !strings.Contains(got, kept) {
		t.Errorf("with keep_reasoning %q", got)
	}
	if got := f.prompt(t, object{"input": append(plain, end...), "tools": look, "keep_reasoning": true}); strings.Contains(got, secret) {
		t.Errorf("plain reasoning of a finished turn is in %q", got)
	}
}

// A value that is moved, altered, of another principal or under an unknown key is refused, each with its code, and never skipped.
func TestSealedValuesStayInTheirPlace(t *testing.T) {
	keys := seal.NewKeyring()
	f := start(t, Config{Seal: keys}, fake.Config{}, calling()...)
	for _, stored := range []bool{true, false} {
		_, next := carried(t, f, object{"store": stored})
		_, other := carried(t, f, object{"store": stored})
		value := item(object{"output": next}, 1)["encrypted_content"].(string)
		refuse := func(name string, f *fixture, input []any, more object, code string) {
			t.Helper()
			request := object{"input": input, "tools": look, "store": stored}
			for k, v := range more {
				request[k] = v
			}
			e := f.refused(t, "POST", "/v1/responses", body(t, request), 400)
			if e["code"] != code || !strings.HasSuffix(e["param"].(string), "].encrypted_content") {
				t.Errorf("%s, stored %v: %v", name, stored, e)
			}
		}
		with := func(at int, x any) []any {
			list := append([]any(nil), next...)
			list[at] = x
			return list
		}
		reasoning := func(id, value string) object {
			return object{"type": "reasoning", "id": id, "summary": []any{}, "encrypted_content": value}
		}
		own := item(object{"output": next}, 1)["id"].(string)
		if stored {
			refuse("under another item", f, with(1, reasoning(item(object{"output": other}, 1)["id"].(string), value)), nil, "sealed_foreign")
		} else {
			refuse("after another message", f, append([]any{next[0], object{"role": "user", "content": "Also."}}, next[1:]...), nil, "sealed_foreign")
		}
		refuse("in another conversation", f, with(0, object{"role": "user", "content": "Call it!"}), nil, "sealed_foreign")
		swapped := "A"
		if value[100] == 'A' {
			swapped = "B"
		}
		refuse("altered", f, with(1, reasoning(own, value[:100]+swapped+value[101:])), nil, "sealed_tampered")
		refuse("cut", f, with(1, reasoning(own, value[:50])), nil, "sealed_tampered")
		refuse("no value", f, with(1, reasoning(own, "gAAAAABnothing of ours")), nil, "sealed_tampered")
		refuse("too long", f, with(1, reasoning(own, strings.Repeat("A", seal.MaxValue+1))), nil, "sealed_tampered")
		stranger := wiretest.Anyone()
		stranger.ID = "stranger"
		refuse("of another principal", f.as(t, stranger), next, nil, "sealed_foreign")
		ids := keys.IDs()
		keys.Rotate(4)
		if prompt := f.prompt(t, object{"input": next, "tools": look}); !strings.Contains(prompt, kept) {
			t.Error("a value under an older key is not restored")
		}
		if err := keys.Drop(ids[0]); err != nil {
			t.Fatal(err)
		}
		refuse("under a dropped key", f, next, nil, "sealed_unknown_key")
	}
}

// In a chain the conversation is the chain's first response.
func TestSealedValuesBelongToTheirChain(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	first := f.post(t, body(t, object{"input": "Hello."}))
	_, next := carried(t, f, object{"previous_response_id": first["id"]})
	if prompt := f.prompt(t, object{"input": next, "previous_response_id": first["id"], "tools": look}); !strings.Contains(prompt, kept) {
		t.Errorf("prompt %q", prompt)
	}
	other := f.post(t, body(t, object{"input": "Hello."}))
	for _, previous := range []any{nil, other["id"]} {
		if e := f.refused(t, "POST", "/v1/responses", body(t, object{"input": next, "previous_response_id": previous, "tools": look}), 400); e["code"] != "sealed_foreign" {
			t.Errorf("error %v", e)
		}
	}
}

// A conversation goes on with another model, but the thoughts of the first stay out.
func TestThoughtsOfAnotherModelStayOut(t *testing.T) {
	keys := seal.NewKeyring()
	home := seal.Binding{Principal: "p", Conversation: seal.ConversationID("c"), Entity: seal.EntityID("rs_1"), Model: "one"}
	value, err := keys.Seal(home, thoughts)
	if err != nil {
		t.Fatal(err)
	}
	entries := []entry{
		{item: &Reasoning{}, sealed: value, home: &home}, {item: &Message{Role: "assistant", Content: []Part{{Text: "a"}}}},
		{item: &Reasoning{ID: "rs_1", EncryptedContent: value}, place: &home}, {item: &Message{Role: "assistant", Content: []Part{{Text: "b"}}}},
	}
	for model, want := range map[string]string{"one": thoughts, "two": ""} {
		got, err := messages(entries, &opener{keys: keys, binding: seal.Binding{Principal: "p", Conversation: home.Conversation, Model: model}})
		if err != nil || len(got) != 2 || got[0].Reasoning != want || got[1].Reasoning != want {
			t.Errorf("model %s: %+v, %v", model, got, err)
		}
	}
	carried := []entry{{item: &Reasoning{ID: "rs_1", EncryptedContent: value}, path: "input[0]"}}
	var e *wire.Error
	if _, err := messages(carried, &opener{keys: keys, binding: seal.Binding{Principal: "p", Conversation: home.Conversation, Model: "two"}}); !errors.As(err, &e) ||
		e.Code != "sealed_foreign" {
		t.Errorf("carried to another model: %v", err)
	}
}
