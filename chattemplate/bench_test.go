package chattemplate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/conformance"
)

// twenty is a conversation of 20 messages with two tools, about 10 kB of text.
func twenty() chattemplate.Conversation {
	text := strings.Repeat("A sentence of about fifty characters stands here. ", 10)
	c := messages(system("Be brief."))
	for range 6 {
		c.Messages = append(c.Messages, user(text), assistant(text, text))
	}
	for range 2 {
		c.Messages = append(c.Messages, user(text),
			calls(text, chattemplate.ToolCall{ID: "call00001", Name: "add", Arguments: `{"a":1,"b":2}`}),
			result("call00001", "3"))
	}
	c.Messages = append(c.Messages, user(text))
	schema := json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"number","description":"one"},"b":{"type":"number"}},` +
			`"required":["a","b"]}`)
	c.Tools = []chattemplate.Tool{{Name: "add", Description: "Adds.", Parameters: schema},
		{Name: "sub", Description: "Subtracts.", Parameters: schema}}
	c.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return c
}

func benchmarkRender(b *testing.B, tmpl family.Family) {
	b.Helper()
	c := twenty()
	b.SetBytes(int64(len(mustRender(b, tmpl, c).Text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(c); err != nil {
			b.Fatal(err)
		}
	}
}

// The benchmarks tokenize into bytes, to measure the rendering and not a tokenizer.

func BenchmarkRenderNative(b *testing.B) { benchmarkRender(b, nativeTemplate(b)) }

func BenchmarkRenderJinja(b *testing.B) {
	dir := conformance.Dir(b, "chat_templates")
	for _, name := range []string{"Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "meta-llama-Llama-3.1-8B-Instruct"} {
		b.Run(name, func(b *testing.B) {
			tmpl, _ := familyTemplate(b, readTemplate(b, dir, name))
			benchmarkRender(b, tmpl)
		})
	}
}

func BenchmarkNewJinja(b *testing.B) {
	dir := conformance.Dir(b, "chat_templates")
	source := readTemplate(b, dir, "Qwen-Qwen3-0.6B")
	for b.Loop() {
		familyTemplate(b, source)
	}
}
