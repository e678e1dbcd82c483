package jinja

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"runner/conformance"
)

var benchTemplates = map[string]string{"gpt-oss": "openai-gpt-oss-120b", "qwen3": "Qwen-Qwen3-0.6B"}

func BenchmarkParse(b *testing.B) {
	dir := conformance.Dir(b, "chat_templates")
	for name, file := range benchTemplates {
		src, err := os.ReadFile(filepath.Join(dir, file+".jinja"))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, err := Parse(string(src), Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRender renders the shared conversations "multi_turn" (four messages) and "tool_pending" (two tools, a call
// and its result).
func BenchmarkRender(b *testing.B) {
	dir := conformance.Dir(b, "chat_templates")
	convs, now := loadConversations(b, dir)
	for name, file := range benchTemplates {
		src, err := os.ReadFile(filepath.Join(dir, file+".jinja"))
		if err != nil {
			b.Fatal(err)
		}
		tmpl, err := Parse(string(src), Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, conv := range []string{"multi_turn", "tool_pending"} {
			vars := convs.variables(b, conv)
			b.Run(name+"/"+conv, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := tmpl.Render(context.Background(), vars, RenderOptions{Now: now}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
