// Command site serves invented models with the page, for the tests in the folder above. Their answers are scripted:
// among them are hostile ones, long ones, and calls of tools. It listens on loopback, prints its address, and ends when
// its standard input does.
//
//	site [-port N] [-keys FILE] [-most none|summary|full]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/reasoning/seal"
	"runner/runner"
	"runner/runner/delegate"
	"runner/server"
	"runner/server/keys"
	"runner/server/ollama"
	"runner/server/pool"
	"runner/server/web"
	"runner/server/wire"
)

// hostile is an answer that wants to harm its reader.
const hostile = "<script>window.harmed=1</script>\n\n<img src=x onerror=\"window.harmed=1\">\n\n" +
	"[click](javascript:window.harmed=1) [data](data:text/html,<script>alert(1)</script>) " +
	"![picture](http://127.0.0.1:9/phone-home.png)\n\n<svg onload=\"window.harmed=1\"></svg>\n\n" +
	"\u202egnp.exe\u202c\n\n<style>body{display:none}</style>\n\n<iframe src=\"/web/session\"></iframe>\n\n" +
	"```html\"><script>window.harmed=1</script>\nx\n```\n\n[ok](https://example.org/)\n"

// styled has every kind of block.
const styled = "## Adding\n\nThe sum is **42**, because `17 + 25 = 42`.\n\n" +
	"1. Add the units: 7 + 5 = 12.\n2. Add the tens: 1 + 2 + 1 = 4.\n\n" +
	"| step | result |\n|---|--:|\n| units | 12 |\n| tens | 4 |\n\n" +
	"```python\ndef add(a, b):\n    \"\"\"Return the sum.\"\"\"\n    return a + b  # plain\n```\n\n" +
	"> A quote, and a [link](https://example.org/)."

func replies() []fake.Reply {
	ask := func(question string) string { return question + "<|end|><|start|>assistant" }
	final := "<|channel|>final<|message|>"
	think := func(thoughts, answer string) string {
		return "<|channel|>analysis<|message|>" + thoughts + "<|end|><|start|>assistant" + final + answer + "<|return|>"
	}
	calls := func(thoughts, name, arguments string) string {
		return "<|channel|>analysis<|message|>" + thoughts + "<|end|><|start|>assistant<|channel|>commentary to=functions." +
			name + " <|constrain|>json<|message|>" + arguments + "<|call|>"
	}
	call := calls("I look it up.", "get_weather", `{"city":"Oslo"}`)
	why := `I assume that it is about today. <rationale call="1">{"why":"the weather ` + "\u202e" + `changes"}</rationale>`
	thoughts := "I add the units first.\n\n- 7 + 5 = 12\n- 1 + 2 + 1 = 4\n\nSo it is 42."
	return []fake.Reply{
		{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant" + final, Say: "It adds the digits.<|return|>"},
		{After: ask("styled"), Say: think(thoughts, styled)},
		{After: ask("hostile"), Say: think(hostile, hostile)},
		{After: ask("hostile") + final, Say: hostile + "<|return|>"},
		{After: ask("long"), Say: think(strings.Repeat("I think about it. ", 40), strings.Repeat(styled+"\n\n", 12))},
		{After: ask("endless"), Say: think("Hm.", strings.Repeat("word ", 3000))},
		{After: ask("line"), Say: think("Hm.", strings.Repeat("x", 4000))},
		{After: ask("schema"), Say: think("I count.", `{"sum": 42, "unit": "apples"}`)},
		{Prompt: "<rationale call=", After: ask("weather"),
			Say: calls(why, "get_weather", `{"city":"Oslo"}`)},
		{After: ask("weather"), Say: call},
		{After: ask("delegate"), Say: calls("I ask one who knows.", "delegate_internal_reasoning",
			`{"agent_prompt":"You know the weather."}`)},
		{After: "</delegate-reasoning><|end|><|start|>assistant",
			Say: calls("The specialist looks it up.", "get_weather", `{"city":"Oslo"}`)},
		{After: "Cloudy.<|end|><|start|>assistant", Say: think("The specialist sees clouds.", "It is cloudy.")},
		{After: "agent</return-control><|end|><|start|>assistant", Say: think("So I know.", "Clouds over Oslo.")},
		{After: "Sunny.<|end|><|start|>assistant", Say: final + "It is sunny in Oslo.<|return|>"},
		{After: "You are careful.<|end|>", Say: think("The specialist thinks.", "The specialist says it is fine.")},
		{After: "<|start|>assistant", Say: think("Hello.", "You said something.")},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run() error {
	port := flag.Int("port", 0, "the port to listen on; 0 takes a free one")
	keyFile := flag.String("keys", "", "a file of API keys")
	most := flag.String("most", "full", "the most reasoning that anybody may see")
	flag.Parse()
	visibility, err := reasoning.ParseVisibility(*most)
	if err != nil {
		return err
	}
	names := []string{"demo", "fast"}
	cfg := server.Config{MaxReasoning: &visibility, Version: "test", DrainTimeout: time.Second}
	var entries []pool.Entry
	for _, name := range names {
		entries = append(entries, pool.Entry{Name: name})
		cfg.Cards = append(cfg.Cards, wire.Card{Name: name, Size: 1 << 20})
	}
	if *keyFile != "" {
		if cfg.Keys, err = keys.Load(*keyFile); err != nil {
			return err
		}
	}
	cfg.Pool = pool.New(pool.Config{Models: entries, Open: func(_ context.Context, name string) (wire.Loaded, error) {
		c := fake.Config{Name: name, ContextSize: 32 << 10, Script: fake.Replies(fake.Harmony(), replies()...)}
		if name == "demo" { // 200 tokens a second
			c.Delay = func(int) time.Duration { return 5 * time.Millisecond }
		}
		return runner.New(fake.New(c), runner.Config{CallMemory: runner.NewCallMemory(64, time.Hour),
			Loops: []generation.Loop{delegate.Loop{}}})
	}})
	s := server.New(cfg)
	s.Mount(ollama.New(s, ollama.Config{}))
	s.Mount(web.New(s, web.Config{Config: wire.Config{Seal: seal.NewKeyring()}, Figures: s.Figures}))
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return s.Serve(ctx, listener)
}
