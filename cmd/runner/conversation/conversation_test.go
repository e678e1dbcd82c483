package conversation

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"runner/chattemplate"
)

// talk is a conversation with everything that one can have.
func talk() Conversation {
	call := chattemplate.ToolCall{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Paris"}`}
	return fromMessages([]chattemplate.Message{
		{Role: chattemplate.System, Content: "Be <brief> & kind."},
		{Role: chattemplate.User, Content: "What is 17 + 25?\n\"\\ 世界"},
		{Role: chattemplate.Assistant, Reasoning: "17 plus 25 makes 42.", Content: "42"},
		{Role: chattemplate.User, Name: "ada", Content: "The weather?"},
		{Role: chattemplate.Assistant, Preamble: "Let me look.", ToolCalls: []chattemplate.ToolCall{call}},
		{Role: chattemplate.ToolRole, ToolCallID: "call_1", ToolName: "get_weather", Content: "sunny"},
		{Role: chattemplate.Assistant, Content: "Sunny."},
	})
}

func TestJSONIsReadAsItWasWritten(t *testing.T) {
	c := talk()
	data, err := c.JSON("demo")
	if err != nil {
		t.Fatal(err)
	}
	got, model, err := Parse(data)
	if err != nil || model != "demo" || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v, %q, %v\nwant %+v", got, model, err, c)
	}
	for _, want := range []string{`"content": "Be <brief> & kind."`, `"tool_call_id": "call_1"`, `"name": "get_weather"`,
		`"type": "function"`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("no %s in\n%s", want, data)
		}
	}
	if len(got.Turns) != 2 || len(got.Turns[1].Messages) != 4 {
		t.Errorf("turns: %+v", got.Turns)
	}
}

func TestParseRefuses(t *testing.T) {
	messages := func(list string) string { return `{"messages":[` + list + `]}` }
	const user, call = `{"role":"user","content":"secret"}`, `{"role":"assistant","content":"","tool_calls":[{"id":"a",` +
		`"type":"function","function":{"name":"f","arguments":"{}"}}]}`
	const roles = "the roles are system, developer, user, assistant and tool"
	const nameIt = "give the tool's name, or the id of a call that an assistant message before it makes"
	const result = `{"role":"tool","tool_call_id":"a","content":"secret"}`
	for _, c := range []struct{ text, want string }{
		{"", "it is not JSON: its end is missing"},
		{"hello", "it is not JSON: error at byte 1"},
		{`{"messages":[`, "it is not JSON: its end is missing"},
		{`[]`, "it is a JSON array, not an object with messages"},
		{`{"messages":{}}`, "messages cannot be a JSON object (byte 13)"},
		{`{"messages":[]} {}`, "it has more than one JSON object"},
		{`{}`, "it has no messages"},
		{`{"message":[]}`, `it has an unknown field "message"`},
		{"{\"messages\":[\"\xff\"]}", "it is not UTF-8 text"},
		{`{"` + strings.Repeat("x", 100) + `":1}`, "it has an unknown field"},
		{messages(`{"role":"user","content":["secret"]}`), "messages.content cannot be a JSON array (byte 39)"},
		{messages(user + `,{"role":"robot"}`), "messages[1]: unknown role; " + roles},
		{messages(`{"role":"assistant","content":"a"}`), "messages[0]: the user has to begin"},
		{messages(user + `,{"role":"system"}`), "messages[1]: a system message can only come first"},
		{messages(user + `,` + result), "messages[1]: tool result does not match a call; " + nameIt},
		{messages(user + `,` + call), "the last call has no result"},
		{messages(user + `,` + call + `,` + user), "messages[2]: a call before it has no result"},
		{messages(user + `,` + call + `,` + result + `,` + result),
			"messages[3]: no call before it waits for this result"},
		{messages(`{"role":"user","reasoning":"secret"}`),
			"messages[0]: only an assistant has reasoning, a preamble and calls"},
		{messages(`{"role":"user","tool_call_id":"a"}`), "messages[0]: only the result of a tool has a tool_call_id"},
		{messages(user + `,` + strings.Replace(call, `"function",`, `"custom",`, 1)),
			"messages[1]: a call's type can only be function"},
		{messages(strings.Repeat(user+`,`, MaxMessages) + user), "it has 10001 messages, and 10000 are allowed"},
		{strings.Repeat(" ", MaxBytes+1), "it is larger than 16 MiB"},
	} {
		if _, _, err := Parse([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%.200q: %v, want %s", c.text, err, c.want)
		}
	}
	two := strings.Replace(call, `]}`, `,{"id":"a","type":"function","function":{"name":"g","arguments":""}}]}`, 1)
	_, _, err := Parse([]byte(messages(user + `,` + two)))
	if err == nil || !strings.Contains(err.Error(), "the same id") {
		t.Error(err)
	}
}

func TestUndo(t *testing.T) {
	c := talk()
	c.Turns = append(c.Turns, Turn{Shown: []Part{{HeadingUser, "forgotten"}}})
	if !c.Undo() || len(c.Messages()) != 3 || len(c.Turns) != 1 {
		t.Errorf("after one: %+v", c)
	}
	if !c.Undo() || c.Undo() || len(c.Messages()) != 1 {
		t.Errorf("after all: %+v", c)
	}
}

func TestMarkdown(t *testing.T) {
	c := talk()
	text := string(c.Markdown("the demo"))
	for _, want := range []string{"# Conversation with the demo\n", "\n## You\n\nThe weather?\n",
		"\n## Reasoning\n\n17 plus",
		"\n## Before the call\n\nLet me look.\n", "\n## Call of get_weather\n\n{\"city\":\"Paris\"}\n",
		"\n## Result of get_weather\n\nsunny\n", "\n## Answer\n\nSunny.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What is read can be written and read again, and a chat can go on from it.
func FuzzParse(f *testing.F) {
	c := talk()
	data, err := c.JSON("demo")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"},{"role":"user","content":""}]}`))
	f.Add([]byte(`{"messages":[{"role":"developer","content":"\ud800"}]}`))
	f.Add([]byte(`{"messages":[{"role":"tool","name":"f","content":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, model, err := Parse(data)
		if err != nil {
			return
		}
		again, err := c.JSON(model)
		if err != nil {
			t.Fatal(err)
		}
		d, m, err := Parse(again)
		if err != nil || m != model || !reflect.DeepEqual(c, d) {
			t.Fatalf("%q is read again as %+v, %q, %v, want %+v", again, d, m, err, c)
		}
		for i, turn := range c.Turns {
			if turn.Messages[0].Role != chattemplate.User {
				t.Fatalf("turn %d begins with %v", i, turn.Messages[0])
			}
		}
	})
}
