package openai

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/server/wiretest"
)

const (
	// asSpecialist is in every specialist's prompt and in no other.
	asSpecialist = "What you write is internal"
	lookTool     = `"tools":[{"type":"function","function":{"name":"look"}}]`
)

// TestSpecialistOfTheUser checks that the specialist's text shows only with visibility full or if it is to be shown,
// and that an answer and a stream have the same text.
func TestSpecialistOfTheUser(t *testing.T) {
	f := start(t, Config{}, nil,
		fake.Reply{Prompt: asSpecialist, After: wiretest.Ask("q"), Say: wiretest.Think("canary thinks", "canary works")},
		fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Think("hm", "four")},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
			Say: "Counted.<|return|>"})
	for _, c := range []struct{ fields, thoughts, content string }{
		{`"reasoning":"none"`, "", "four"},
		{`"reasoning":"summary"`, "", "four"},
		{`"reasoning":"full"`, "canary thinks\n\ncanary works\n\nhm", "four"},
		{`"reasoning":"none","mark":false`, "", "canary works\n\nfour"},
	} {
		specialist := `"delegation":{"agent_prompt":"canary checks"}`
		if strings.Contains(c.fields, "mark") {
			specialist = `"delegation":{"agent_prompt":"canary checks","mark_intermediate":false}`
		}
		whole := f.post("/v1/chat/completions", body("q", c.fields+","+specialist))
		stream := f.post("/v1/chat/completions", body("q", c.fields+","+specialist+`,"stream":true`))
		shows := c.thoughts != "" || strings.Contains(c.content, "canary")
		if strings.Contains(whole.body, "canary") != shows {
			t.Errorf("%s shows %s", c.fields, whole.body)
		}
		var answer ChatCompletion
		decode(t, whole.body, &answer)
		streamed := assemble(t, framesOf(t, stream.body))
		for _, a := range []*ChatCompletion{&answer, streamed} {
			text, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			m := a.Choices[0].Message
			if m.Reasoning != c.thoughts || m.Content == nil || *m.Content != c.content || len(m.Delegations) != 1 ||
				m.Intermediate || m.Instructions != nil ||
				strings.Contains(string(text), "canary") != shows {
				t.Errorf("%s: %s", c.fields, pretty(t, m))
			}
			if d := m.Delegations[0]; d.By != "user" || d.Outcome != reasoning.DelegationReturned ||
				d.Length != len("canary checks") || d.Steps != 1 {
				t.Errorf("%+v", d)
			}
		}
	}
}

// TestInstructionsCarryADelegation checks that a run that ends in a specialist's calls says so. If its message is sent
// back unchanged, the specialist continues; without the message, the original prompt answers.
func TestInstructionsCarryADelegation(t *testing.T) {
	result := "found<|end|><|start|>assistant"
	f := start(t, Config{}, nil,
		fake.Reply{Prompt: "canary saw it", After: wiretest.Ask("q"), Say: wiretest.Think("", "together")},
		fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Call("", "", "delegate_internal_reasoning",
			`{"agent_prompt":"canary looks"}`)},
		fake.Reply{After: "</delegate-reasoning><|end|><|start|>assistant", Say: wiretest.Call("", "", "look", "{}")},
		fake.Reply{Prompt: asSpecialist, After: result, Say: wiretest.Think("", "canary saw it")},
		fake.Reply{After: result, Say: wiretest.Think("", "alone")})
	for _, visibility := range []string{"none", "full"} {
		fields := lookTool + `,"delegation":{"allow":true},"reasoning":"` + visibility + `"`
		first := f.ask("q", fields)
		m := first.Choices[0].Message
		if !m.Intermediate || len(m.ToolCalls) != 1 || m.ToolCalls[0].Function.Name != "look" {
			t.Fatalf("%s", pretty(t, m))
		}
		streamed := assemble(t, framesOf(t, f.post("/v1/chat/completions",
			body("q", fields+`,"stream":true`)).body)).Choices[0].Message
		if !reflect.DeepEqual(streamed.Instructions, m.Instructions) || !streamed.Intermediate {
			t.Errorf("streamed: %s", pretty(t, streamed))
		}
		carried, want := string(m.Instructions[0]), `{"type":"intermediate_reasoning"}`
		answer := "alone"
		if visibility == "full" {
			want, answer = `{"type":"delegate_reasoning","agentPrompt":"canary looks","markIntermediate":true}`, "together"
		}
		if carried != want {
			t.Errorf("%s carries %s", visibility, carried)
		}
		said, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		next := f.post("/v1/chat/completions",
			fmt.Sprintf(`{"messages":[{"role":"user","content":"q"},%s,{"role":"tool","tool_call_id":%q,"content":"found"}],%s}`,
				said, m.ToolCalls[0].ID, fields))
		var second ChatCompletion
		decode(t, next.body, &second)
		if got := second.Choices[0].Message; got.Content == nil || *got.Content != answer {
			t.Errorf("%s: %s", visibility, pretty(t, got))
		}
	}
}

func TestDelegationsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	for fields, param := range map[string]string{
		`"delegation":{"agent_prompt":" "}`: "delegation.agent_prompt", `"delegation":{"work":"burn"}`: "delegation.work",
		`"delegation":{"mark_intermediate":true}`: "delegation.mark_intermediate",
		`"delegation":{"agent_prompt":"` + strings.Repeat("x",
			50_001) + `"}`: "delegation.agent_prompt",
		`"tool_choice":{"type":"function","function":{"name":"return_control"}}`:                         "tool_choice",
		`"delegation":{"allow":true},"tools":[{"type":"function","function":{"name":"return_control"}}]`: "tools",
	} {
		a := f.post("/v1/chat/completions", body("q", fields))
		if a.status != 400 || !strings.Contains(a.body, `"param":"`+param) {
			t.Errorf("%.80s: %d, %s", fields, a.status, a.body)
		}
	}
	for instructions, param := range map[string]string{
		`[{"type":"delegate_reasoning","agentPrompt":"\n"}]`: "messages[0].instructions[0].agentPrompt",
		`[{"type":"delegate_reasoning","agentPrompt":"a"},` +
			`{"type":"delegate_reasoning","agentPrompt":"b"}]`: "messages[0].instructions[1]",
		`[3]`: "messages[0].instructions[0]",
	} {
		a := f.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"q","instructions":`+instructions+`}]}`)
		if a.status != 400 || !strings.Contains(a.body, `"param":"`+param+`"`) {
			t.Errorf("%s: %d, %s", instructions, a.status, a.body)
		}
	}
}

// What is written reads back: a specialist that calls functions in two answers is named in the first only, because a
// second delegation would be refused.
func TestASpecialistCallsTwice(t *testing.T) {
	after := func(result string) string { return result + "<|end|><|start|>assistant" }
	f := start(t, Config{}, nil,
		fake.Reply{Prompt: "canary saw it", After: wiretest.Ask("q"), Say: wiretest.Think("", "together")},
		fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Call("", "", "delegate_internal_reasoning",
			`{"agent_prompt":"canary looks"}`)},
		fake.Reply{After: after("</delegate-reasoning>"), Say: wiretest.Call("", "", "look", "{}")},
		fake.Reply{Prompt: asSpecialist, After: after("one"), Say: wiretest.Call("", "", "look", "{}")},
		fake.Reply{Prompt: asSpecialist, After: after("two"), Say: wiretest.Think("", "canary saw it")})
	fields := lookTool + `,"delegation":{"allow":true},"reasoning":"full"`
	messages := `{"role":"user","content":"q"}`
	for _, result := range []string{"one", "two", ""} {
		a := f.post("/v1/chat/completions", `{"messages":[`+messages+`],`+fields+`}`)
		if a.status != 200 {
			t.Fatalf("before %q: %d, %s", result, a.status, a.body)
		}
		var got ChatCompletion
		decode(t, a.body, &got)
		m := got.Choices[0].Message
		if result == "" {
			if m.Content == nil || *m.Content != "together" {
				t.Errorf("%s", pretty(t, m))
			}
			return
		}
		if len(m.ToolCalls) != 1 {
			t.Fatalf("before %q: %s", result, pretty(t, m))
		}
		said, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		messages += fmt.Sprintf(`,%s,{"role":"tool","tool_call_id":%q,"content":%q}`, said, m.ToolCalls[0].ID, result)
	}
}

// Instructions of unknown types are skipped with a warning. Bare names of classes are read.
func TestUnknownInstructions(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Think("hm", "plain")})
	a := f.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"q","instructions":[{"type":"elsewhere"},`+
		`{"type":"ReturnControl"}]}]}`)
	if a.status != 200 || !strings.Contains(a.body, `"code":"instruction_skipped"`) ||
		!strings.Contains(a.body, "messages[0].instructions[0] was left out") || !strings.Contains(a.body, "plain") {
		t.Errorf("%d, %s", a.status, a.body)
	}
}
