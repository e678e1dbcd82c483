package chattemplate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"runner/chattemplate"
	"runner/chattemplate/vocabtest"
)

// hostile returns text made of special tokens' names, whole and in halves, chosen by the fuzzed bytes.
func hostile(names []string, seed []byte) string {
	var b strings.Builder
	for _, c := range seed {
		if len(names) == 0 || c < 64 {
			b.WriteByte(' ' + c%95)
			continue
		}
		n := names[int(c)%len(names)]
		switch c % 4 {
		case 0:
			b.WriteString(n)
		case 1:
			b.WriteString(n[:len(n)/2])
		case 2:
			b.WriteString(n[len(n)/2:])
		case 3:
			b.WriteString(n + n[:1])
		}
	}
	return b.String()
}

// nativeShape is a conversation that uses every part of the format, with text in every place for text.
func nativeShape(text string) chattemplate.Conversation {
	quoted, _ := json.Marshal(text)
	schema := `{"type":"object","description":` + string(quoted) + `,"properties":{` + string(quoted) +
		`:{"type":"string","description":` +
		string(quoted) + `,"enum":[` + string(quoted) + `],"default":` + string(quoted) + `,"examples":[` +
		string(quoted) + `]}}}`
	return chattemplate.Conversation{
		Messages: []chattemplate.Message{
			{Role: chattemplate.System, Content: "s" + text},
			{Role: chattemplate.User, Content: "q" + text},
			{Role: chattemplate.Assistant, Reasoning: "r" + text, Preamble: "p" + text,
				ToolCalls: []chattemplate.ToolCall{{ID: text, Name: "f", Arguments: "a" + text}}},
			{Role: chattemplate.ToolRole, ToolCallID: text, Content: "t" + text},
			{Role: chattemplate.Assistant, Reasoning: "r" + text,
				ToolCalls: []chattemplate.ToolCall{{ID: "2", Name: "f", Arguments: "a" + text}}},
			{Role: chattemplate.ToolRole, ToolCallID: "2", Content: "t" + text},
		},
		Tools: []chattemplate.Tool{{Name: "f", Description: "d" + text, Parameters: json.RawMessage(schema)}},
		ResponseFormat: &chattemplate.ResponseFormat{Name: "n" + text, Description: "d" + text,
			Schema: json.RawMessage(schema)},
		Now:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Args: map[string]any{"model_identity": "i" + text, "unknown": text},
	}
}

// FuzzNativeControlTokens checks that no text becomes a control token. With any text, the control tokens of a
// conversation equal those with harmless text, and the text is unchanged.
func FuzzNativeControlTokens(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add([]byte{64, 65, 66, 67, 100, 101, 102, 103, 200, 201, 202, 203, 255, 254, 253, 252})
	vocab := vocabtest.New(f, vocabtest.Harmony()...)
	tmpl := nativeTemplate(f)
	want := controls(vocab, mustRender(f, tmpl, nativeShape("x")).Tokens)
	f.Fuzz(func(t *testing.T, seed []byte) {
		if len(seed) > 200 {
			return
		}
		text := hostile(vocabtest.Harmony(), seed)
		p, err := tmpl.Render(nativeShape(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := controls(vocab, p.Tokens); got != want {
			t.Errorf("text %q gives the control tokens\n%s\nwant\n%s", text, got, want)
		}
		if got := print(vocab, p.Tokens); got != p.Text {
			t.Errorf("tokens print as\n%s\nText is\n%s", got, p.Text)
		}
		for _, part := range []string{"s", "q", "r", "p", "a", "t", "d", "i"} {
			if !strings.Contains(p.Text, part+text) {
				t.Errorf("the text after %q is not in the prompt", part)
			}
		}
	})
}

// FuzzToolDefinitions uses arbitrary bytes as a tool's schema. It must be rendered as text or refused, without a
// panic.
func FuzzToolDefinitions(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":["integer","null"]}]}}}`))
	f.Add(
		[]byte(
			`{"type":"array","items":{"type":"object","properties":{"x":{"type":"boolean","default":false,"nullable":true}}}}`))
	f.Add([]byte(`[1,2,{"a":`))
	vocab := vocabtest.New(f, vocabtest.Harmony()...)
	tmpl := nativeTemplate(f)
	f.Fuzz(func(t *testing.T, schema []byte) {
		p, err := tmpl.Render(chattemplate.Conversation{
			Messages: messages(user("Q")).Messages,
			Tools:    []chattemplate.Tool{{Name: "f", Parameters: schema}},
		})
		if err != nil {
			return
		}
		if !json.Valid(schema) && len(strings.TrimSpace(string(schema))) > 0 {
			t.Errorf("schema %q is not JSON and was accepted", schema)
		}
		const want = "<|start|>.<|message|>.<|end|><|start|>.<|message|>.<|end|><|start|>.<|message|>.<|end|><|start|>."
		if got := controls(vocab, p.Tokens); got != want {
			t.Errorf("control tokens %s", got)
		}
	})
}
