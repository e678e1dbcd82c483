package responses

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// calling is a model that calls look when it is asked to, and answers when it has the output.
func calling() []fake.Reply {
	return []fake.Reply{
		{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "", "look", `{}`)},
		{After: "the sky<|end|><|start|>assistant", Say: wiretest.Think("", "You see the sky.")},
	}
}

var look = []any{object{"type": "function", "name": "look"}}

// carried makes a response with a sealed value. It returns the response and the input of the next turn.
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

// A sealed value restores the reasoning of its turn while calls are pending: with and without a store, with and
// without ids of items, and whatever the client changed before it.
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
		for name, input := range map[string][]any{
			"without ids":    next,
			"edited":         append([]any{object{"role": "user", "content": "Today: call it."}}, next[1:]...),
			"cut":            next[1:],
			"with one more":  append([]any{next[0], object{"role": "user", "content": "Also."}}, next[1:]...),
			"with two turns": append([]any{next[0], object{"role": "assistant", "content": "Yes."}}, next[1:]...),
		} {
			request["input"] = input
			if got := f.post(t, body(t, request)); got["warnings"] != nil {
				t.Errorf("%s, stored %v: %v", name, stored, got["warnings"])
			}
			if prompt := f.prompt(t, request); !strings.Contains(prompt, kept) {
				t.Errorf("%s, stored %v: prompt %q", name, stored, prompt)
			}
		}
	}
}

// With a store, the next turn has its reasoning without a value. So has a turn that names the item.
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
			named := object{"input": []any{object{"role": "user", "content": "Call it."},
				object{"type": "item_reference", "id": item(made, 0)["id"]}, call, output}, "tools": look}
			if prompt := f.prompt(t, named); strings.Count(prompt, kept) != 1 {
				t.Errorf("by reference: prompt %q", prompt)
			}
			named["input"].([]any)[1] = object{"type": "reasoning", "id": item(made, 0)["id"], "summary": []any{}}
			if prompt := f.prompt(t, named); strings.Count(prompt, kept) != 1 {
				t.Errorf("emptied: prompt %q", prompt)
			}
		}
		// The input of a turn counts in later turns too.
		second := f.post(t, body(t, next))
		prompt := f.prompt(t, object{"input": "Next.", "previous_response_id": second["id"], "keep_reasoning": true})
		if strings.Count(prompt, kept) != 1 {
			t.Errorf("%s: kept prompt %q", visibility, prompt)
		}
	}
}

// Reasoning from a sealed value is available to turns that continue from the response.
func TestCarriedReasoningGoesOn(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	_, next := carried(t, f, object{"store": false})
	second := f.post(t, body(t, object{"input": next, "tools": look}))
	prompt := f.prompt(t, object{"input": "Next.", "previous_response_id": second["id"],
		"reasoning": object{"context": "all_turns"}})
	if strings.Count(prompt, kept) != 1 {
		t.Errorf("prompt %q", prompt)
	}
	if prompt := f.prompt(t,
		object{"input": "Next.", "previous_response_id": second["id"]}); strings.Contains(prompt, secret) {
		t.Errorf("the reasoning of a finished turn is in the prompt %q", prompt)
	}
}

// Restored reasoning enters the prompt only where the format keeps it. It gives the same tokens as reasoning that
// never left the prompt.
func TestRestoredTokens(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	_, next := carried(t, f, object{"store": false})
	plain := append([]any(nil), next...)
	plain[1] = object{"type": "reasoning", "summary": []any{},
		"content": []any{object{"type": "reasoning_text", "text": thoughts}}}
	got, want := f.prompt(t, object{"input": next, "tools": look}), f.prompt(t, object{"input": plain, "tools": look})
	if got != want {
		t.Errorf("restored %q, pending %q", got, want)
	}
	none := append(append([]any{}, next[:1]...), next[2:]...)
	end := []any{object{"role": "assistant", "content": "Done."}, object{"role": "user", "content": "Next."}}
	if got, want := f.prompt(t, object{"input": append(next, end...), "tools": look}),
		f.prompt(t, object{"input": append(none, end...), "tools": look}); got != want {
		t.Errorf("finished %q, without %q", got, want)
	}
	if got := f.prompt(t,
		object{"input": append(next, end...), "tools": look, "keep_reasoning": true}); !strings.Contains(got, kept) {
		t.Errorf("with keep_reasoning %q", got)
	}
	for _, keep := range []bool{false, true} {
		got := f.prompt(t, object{"input": append(plain, end...), "tools": look, "keep_reasoning": keep})
		if strings.Contains(got, secret) != keep {
			t.Errorf("plain reasoning of a finished turn, kept %v: %q", keep, got)
		}
	}
}

// dropped posts a request whose value must be dropped with a warning for a reason, and which must be refused under
// strict.
func dropped(t *testing.T, name string, f, strict *fixture, request object, code string) {
	t.Helper()
	got := f.post(t, body(t, request))
	warnings, _ := got["warnings"].([]any)
	var told string
	for _, w := range warnings {
		if w := w.(object); w["code"] == "sealed_dropped" {
			told += w["message"].(string)
		}
	}
	if !strings.Contains(told, "].encrypted_content was left out ("+code+"): ") ||
		strings.Contains(f.models.Prompt(t), secret) {
		t.Errorf("%s: warnings %v", name, warnings)
	}
	streamed := object{"stream": true}
	maps.Copy(streamed, request)
	_, text := f.do(t, "POST", "/v1/responses", body(t, streamed))
	if !strings.Contains(text, `{"code":"sealed_dropped"`) || !strings.Contains(text, "response.completed") {
		t.Errorf("%s: the stream is %s", name, text)
	}
	e := strict.refused(t, "POST", "/v1/responses", body(t, request), 400)
	if e["code"] != code || !strings.HasSuffix(e["param"].(string), "].encrypted_content") {
		t.Errorf("%s: strict: %v", name, e)
	}
}

// A value that was moved or altered, of another principal, or under an unknown key is dropped with a warning. Under
// strict it is refused.
func TestSealedValuesStayInTheirPlace(t *testing.T) {
	testenv.SkipRaced(t)
	keys := seal.NewKeyring()
	f := start(t, Config{Config: wire.Config{Seal: keys}}, fake.Config{}, calling()...)
	strict := start(t, Config{Config: wire.Config{Seal: keys, StrictSeal: true}}, fake.Config{}, calling()...)
	for _, stored := range []bool{true, false} {
		_, next := carried(t, f, object{"store": stored})
		_, other := carried(t, f, object{"store": stored})
		value := item(object{"output": next}, 1)["encrypted_content"].(string)
		refuse := func(name string, f, strict *fixture, input []any, code string) {
			t.Helper()
			dropped(t, name, f, strict, object{"input": input, "tools": look, "store": stored}, code)
		}
		with := func(at int, x any) []any {
			list := append([]any(nil), next...)
			list[at] = x
			return list
		}
		reasoning := func(value string) object {
			return object{"type": "reasoning", "id": item(object{"output": next}, 1)["id"], "summary": []any{},
				"encrypted_content": value}
		}
		refuse("beside another call", f, strict, append([]any{next[0], next[1]}, other[2:]...), "sealed_foreign")
		refuse("without its call, after another question", f, strict, []any{object{"role": "user", "content": "Other."},
			next[1], object{"role": "assistant", "content": "x"}, object{"role": "user", "content": "the sky"}},
			"sealed_foreign")
		swapped := "A"
		if value[100] == 'A' {
			swapped = "B"
		}
		refuse("altered", f, strict, with(1, reasoning(value[:100]+swapped+value[101:])), "sealed_tampered")
		refuse("cut", f, strict, with(1, reasoning(value[:50])), "sealed_tampered")
		refuse("no value", f, strict, with(1, reasoning("gAAAAABnothing of ours")), "sealed_tampered")
		refuse("outdated", f, strict, with(1, reasoning("AQ"+value[2:])), "sealed_tampered")
		refuse("too long", f, strict, with(1, reasoning(strings.Repeat("A", 2*seal.MaxText))), "sealed_tampered")
		stranger := wiretest.Anyone()
		stranger.ID = "stranger"
		refuse("of another principal", f.as(t, stranger), strict.as(t, stranger), next, "sealed_foreign")
		ids := keys.IDs()
		keys.Rotate(4)
		if prompt := f.prompt(t, object{"input": next, "tools": look}); !strings.Contains(prompt, kept) {
			t.Error("a value under an older key is not restored")
		}
		if err := keys.Drop(ids[0]); err != nil {
			t.Fatal(err)
		}
		refuse("under a dropped key", f, strict, next, "sealed_unknown_key")
	}
}

// A value counts once. If its item is repeated, the second is dropped.
func TestRepeatedItemsCountOnce(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	_, next := carried(t, f, object{"store": false})
	twice := slices.Concat(next, next[1:])
	request := object{"input": twice, "tools": look, "store": false}
	if prompt := f.prompt(t, request); strings.Count(prompt, kept) != 1 {
		t.Errorf("the prompt is %q", prompt)
	}
	if got := f.post(t, body(t, request)); !strings.Contains(encode(t, got["warnings"]),
		"input[4].encrypted_content was left out (sealed_repeated)") {
		t.Errorf("warnings %v", got["warnings"])
	}
}

// In a chain, the conversation is the chain's first response.
func TestSealedValuesBelongToTheirChain(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	first := f.post(t, body(t, object{"input": "Hello."}))
	_, next := carried(t, f, object{"previous_response_id": first["id"]})
	prompt := f.prompt(t, object{"input": next, "previous_response_id": first["id"], "tools": look})
	if !strings.Contains(prompt, kept) {
		t.Errorf("prompt %q", prompt)
	}
	other := f.post(t, body(t, object{"input": "Hello."}))
	for _, previous := range []any{nil, other["id"]} {
		request := object{"input": next, "previous_response_id": previous, "tools": look}
		if prompt := f.prompt(t, request); strings.Contains(prompt, secret) {
			t.Errorf("prompt %q", prompt)
		}
		if got := f.post(t, body(t, request)); !strings.Contains(encode(t, got["warnings"]), "sealed_foreign") {
			t.Errorf("warnings %v", got["warnings"])
		}
	}
	// A reference to the item does not move it elsewhere either.
	named := slices.Clone(next)
	named[1] = object{"type": "item_reference", "id": item(object{"output": next}, 1)["id"]}
	for previous, want := range map[any]bool{first["id"]: true, nil: false, other["id"]: false} {
		prompt := f.prompt(t, object{"input": named, "previous_response_id": previous, "tools": look})
		if strings.Contains(prompt, secret) != want {
			t.Errorf("after %v: prompt %q", previous, prompt)
		}
	}
}

// A conversation can continue with another model, but without the first model's reasoning.
func TestReasoningOfAnotherModelStaysOut(t *testing.T) {
	keys := seal.NewKeyring()
	one, two := seal.Model{Key: "one"}, seal.Model{Key: "two"}
	home := seal.Scope{Principal: "p", Model: one, Conversation: seal.ConversationID("response", "c")}
	value, err := keys.Begin(home, seal.Question{}).Seal(thoughts, seal.NoCalls)
	if err != nil {
		t.Fatal(err)
	}
	said := entry{item: &Message{Role: "assistant", Content: []Part{{Text: "a"}}}}
	// The digest comes while the conversation goes on.
	for model, want := range map[seal.Model]string{one: thoughts, {Key: "one", Digest: "d"}: thoughts, two: ""} {
		for _, e := range []entry{{item: &Reasoning{}, sealed: value, home: &home},
			{item: &Reasoning{ID: "rs_1", EncryptedContent: value}, home: &home}} {
			r := contract.NewRestorer(keys, seal.Scope{Principal: "p", Model: model}, true)
			got, err := messages([]entry{e, said}, &opener{r, model})
			if err != nil || len(got) != 1 || got[0].Reasoning != want {
				t.Errorf("model %s: %+v, %v", model, got, err)
			}
		}
	}
	carried := []entry{{item: &Reasoning{ID: "rs_1", EncryptedContent: value}, path: "input[0]"}}
	var e *wire.Error
	if _, err := messages(carried, &opener{contract.NewRestorer(keys, seal.Scope{Principal: "p", Model: two,
		Conversation: home.Conversation}, true), two}); !errors.As(err, &e) ||
		e.Code != "sealed_foreign" {
		t.Errorf("carried to another model: %v", err)
	}
}
