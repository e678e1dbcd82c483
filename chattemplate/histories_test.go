package chattemplate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/conformance"
)

// Whatever a client keeps of a conversation, every template renders it and shows the last question. Many templates
// demand an order of roles, or arguments that are objects.
func TestEveryTemplateTakesEveryHistory(t *testing.T) {
	say := func(role chattemplate.Role, text string) chattemplate.Message {
		return chattemplate.Message{Role: role, Content: text}
	}
	call := func(arguments string) chattemplate.Message {
		return chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{
			{ID: "abcdefgh1", Name: chattemplate.ProbeTool, Arguments: arguments}}}
	}
	result := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "abcdefgh1", Content: "r"}
	user, answer, system := chattemplate.User, chattemplate.Assistant, chattemplate.System
	q, a, last := say(user, "q"), say(answer, "a"), say(user, chattemplate.ProbeUser)
	histories := map[string][]chattemplate.Message{
		"a result and the user":              {q, call("{}"), result, last},
		"a result, a reminder and the user":  {q, call("{}"), result, say(system, "s"), last},
		"a reminder between call and result": {q, call("{}"), say(system, "s"), result, a, last},
		"the user between call and result":   {q, call("{}"), say(user, "u"), result, a, last},
		"two answers":                        {q, a, say(answer, "b"), last},
		"an answer and a call":               {q, a, call("{}"), result, say(answer, "b"), last},
		"a call and an answer":               {q, call("{}"), say(answer, "b"), last},
		"two calls":                          {q, call("{}"), result, call("{}"), result, a, last},
		"a call without result":              {q, call("{}"), last},
		"a greeting":                         {say(answer, "g"), last},
		"a greeting after the prompt":        {say(system, "s"), say(answer, "g"), last},
		"two questions":                      {q, say(user, "p"), last},
		"prompts everywhere": {say(system, "s"), q, say(system, "t"), a, say(system, "u"), last,
			say(system, "v")},
		"a result without its call": {q, a, result, last},
		"a result at the start":     {result, last},
		"a result after a prompt":   {say(system, "s"), result, a, last},
		"an empty answer":           {q, say(answer, ""), last},
	}
	for name, arguments := range map[string]string{"nothing": "", "null": "null", "a list": "[1]",
		"a cut object": `{"a": "b`, "text": "abc"} {
		histories["arguments are "+name] = []chattemplate.Message{q, call(arguments), result, a, last}
	}
	paths, err := filepath.Glob(filepath.Join(conformance.Dir(t, "tool_calls"), "tpl", "*.jinja"))
	if err != nil || len(paths) < 50 {
		t.Fatalf("%d templates, %v", len(paths), err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		family := mustNew(t, thinkConfig(string(source)))
		render := func(messages []chattemplate.Message, tools []chattemplate.Tool) (chattemplate.Prompt, error) {
			return family.Render(chattemplate.Conversation{Messages: messages, Tools: tools, Now: time.Unix(1e9, 0)})
		}
		offered := [][]chattemplate.Tool{nil}
		if family.About().Tools {
			offered = append(offered, chattemplate.ProbeTools)
		}
		if _, err := render([]chattemplate.Message{q, a, last}, nil); err != nil {
			t.Logf("%s takes no history at all: %v", filepath.Base(path), err)
			continue
		}
		for name, messages := range histories {
			for _, tools := range offered {
				p, err := render(messages, tools)
				if err != nil {
					t.Errorf("%s, %s, %d tools: %v", filepath.Base(path), name, len(tools), err)
				} else if !strings.Contains(p.Text, chattemplate.ProbeUser) {
					t.Errorf("%s, %s: the last question is not in %q", filepath.Base(path), name, p.Text)
				}
			}
		}
	}
}

// thinkConfig has a template for the vocabulary of package fake.
func thinkConfig(source string) chattemplate.Config {
	m := fake.New(fake.Config{Vocab: fake.Think()})
	return chattemplate.Config{Source: source, Vocab: fake.Think(), Tokenize: m.Tokenize}
}
