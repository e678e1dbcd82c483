package generation

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
)

// full returns a request in which every field is set.
func full(t *testing.T) *Request {
	t.Helper()
	seed := uint64(7)
	q := &Request{
		Principal: "p", Thread: "t", Messages: []chattemplate.Message{{Role: chattemplate.User, Content: "q"}}, Prompt: "p",
		PromptTokens: []backend.Token{1}, Tools: []chattemplate.Tool{{Name: "f"}}, ToolChoice: ToolChoiceNone, ToolName: "f",
		ResponseFormat: &chattemplate.ResponseFormat{Name: "n"}, Form: grammar.AnyObject(),
		Visibility: reasoning.VisibilityFull, MaySee: reasoning.VisibilityFull, SummaryTokens: 1,
		Effort: reasoning.EffortLow, Budget: 1, Strategy: reasoning.StrategyJSON, MaxTokens: 1, AnswerReserve: 1,
		Stop: []string{"s"}, Sampling: backend.Sampling{Temperature: 1}, PromptTop: 1, Seed: &seed,
		TemplateArgs: map[string]any{"a": 1}, Delegation: Delegation{Specialist: &delegation.Delegate{Prompt: "d"}},
	}
	all := reflect.ValueOf(q).Elem()
	for i := range all.NumField() {
		if f := all.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(true)
		} else if f.IsZero() {
			t.Errorf("%s is not set: give it a value here", all.Type().Field(i).Name)
		}
	}
	return q
}

// TestAPlanServesEqualRequests checks that a plan serves no request that differs in a field, except in those that no
// plan depends on. A field without a tag counts.
func TestAPlanServesEqualRequests(t *testing.T) {
	free := []string{"Messages", "Budget", "MaxTokens"}
	for i := range reflect.TypeFor[Request]().NumField() {
		name, other := reflect.TypeFor[Request]().Field(i).Name, full(t)
		reflect.ValueOf(other).Elem().Field(i).SetZero()
		if got := full(t).Alike(other); got != slices.Contains(free, name) {
			t.Errorf("a plan serves a request with another %s: %t", name, got)
		}
	}
	if !full(t).Alike(full(t)) {
		t.Error("a plan does not serve the same request")
	}
}

// TestNotRaw checks which fields do not work with a raw prompt, and that they can be cleared.
func TestNotRaw(t *testing.T) {
	q := full(t)
	var names []string
	for name := q.NotRaw(); name != ""; name = q.NotRaw() {
		names = append(names, name)
		reflect.ValueOf(q).Elem().FieldByName(name).SetZero()
	}
	want := "Messages Continues Tools ResponseFormat Visibility Effort Budget Strategy Rationale Score Seal TemplateArgs"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	other := full(t)
	if other.MakeRaw(); !reflect.DeepEqual(other, q) {
		t.Errorf("%+v, want %+v", other, q)
	}
	auto := Request{Strategy: reasoning.StrategyAuto, Tools: []chattemplate.Tool{}}
	if name := auto.NotRaw(); name != "" {
		t.Errorf("%s counts as set", name)
	}
}

// TestJSONHasEveryField checks that a request's JSON, which traces record, leaves out only what they have elsewhere.
func TestJSONHasEveryField(t *testing.T) {
	text, err := json.Marshal(full(t))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"Principal", "Form", "MaySee", "Phases", "Seal"}
	for f := range reflect.TypeFor[Request]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := members[name]; ok == slices.Contains(elsewhere, f.Name) || name == "" {
			t.Errorf("%s is in the JSON: %t", f.Name, ok)
		}
	}
}
