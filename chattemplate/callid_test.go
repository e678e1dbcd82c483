package chattemplate

import "testing"

// A model's next prompt has ids of the model's form, whatever the client's are, and a result has that of its call.
func TestCallIDs(t *testing.T) {
	for form, want := range map[idForm][]string{
		givenIDs: {"a", "b", "a", "a", "b", "a"},
		shortIDs: {"call00001", "call00002", "call00001", "call00003", "call00002", "call00003"},
		namedIDs: {"functions.f:0", "functions.g:1", "functions.f:0", "functions.f:2", "functions.g:1", "functions.f:2"},
		turnIDs:  {"functions.f:0", "functions.g:1", "functions.f:0", "functions.f:0", "functions.g:1", "functions.f:0"},
	} {
		c := callIDs{form: form, shown: map[string]string{}}
		call := func(id, name string) string { return c.call(&ToolCall{ID: id, Name: name}) }
		result := func(id string) string { return c.result(&Message{ToolCallID: id, ToolName: "f"}) }
		c.begin()
		got := []string{call("a", "f"), call("b", "g"), result("a")}
		c.begin() // the client gives the same id again
		got = append(got, call("a", "f"), result("b"), result("a"))
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("form %d: %v, want %v", form, got, want)
				break
			}
		}
		if form == namedIDs && result("unknown") != "functions.f:3" {
			t.Error("a result without a call has no id of the form")
		}
	}
}
