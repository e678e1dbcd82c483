package chattemplate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
	"runner/reasoning"
)

func nativeTemplate(t testing.TB) family.Family {
	return mustNew(t, chattemplate.Config{Vocab: vocabtest.New(t, vocabtest.Harmony()...), Tokenize: vocabtest.Tokenize})
}

// messages returns a conversation of the given messages.
func messages(msgs ...chattemplate.Message) chattemplate.Conversation {
	return chattemplate.Conversation{Messages: msgs}
}

func system(s string) chattemplate.Message {
	return chattemplate.Message{Role: chattemplate.System, Content: s}
}

func user(s string) chattemplate.Message {
	return chattemplate.Message{Role: chattemplate.User, Content: s}
}

func assistant(reasoning, content string) chattemplate.Message {
	return chattemplate.Message{Role: chattemplate.Assistant, Reasoning: reasoning, Content: content}
}

func calls(reasoning string, c ...chattemplate.ToolCall) chattemplate.Message {
	return chattemplate.Message{Role: chattemplate.Assistant, Reasoning: reasoning, ToolCalls: c}
}

func result(id, content string) chattemplate.Message {
	return chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: id, Content: content}
}

// afterSystem returns the prompt without its system message.
func afterSystem(t *testing.T, p chattemplate.Prompt) string {
	t.Helper()
	_, rest, ok := strings.Cut(p.Text, "every message.")
	if !ok {
		t.Fatalf("no system message in %q", p.Text)
	}
	_, rest, _ = strings.Cut(rest, "<|end|>")
	return rest
}

func TestNativeEqualsReference(t *testing.T) {
	dir := conformance.Dir(t, "harmony")
	raw, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			File, Kind string
			Messages   []struct {
				Role, Content, Effort, Instructions string
				Channels                            []string
				CurrentDate                         string   `json:"current_date"`
				KnowledgeCutoff                     string   `json:"knowledge_cutoff"`
				BuiltinTools                        []string `json:"builtin_tools"`
				Functions                           []chattemplate.Tool
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	tmpl := nativeTemplate(t)
	ran := 0
	for _, c := range file.Cases {
		// The format's cases that an API's conversation can express: a system message with the default channels.
		if c.Kind != "render" || c.Messages[0].Role != "system" || c.Messages[0].Channels != nil || len(c.Messages) < 2 {
			continue
		}
		ran++
		t.Run(c.File, func(t *testing.T) {
			conv := chattemplate.Conversation{}
			for _, m := range c.Messages {
				switch m.Role {
				case "system":
					conv.Effort = reasoning.Effort(m.Effort)
					conv.Now, _ = time.Parse(time.DateOnly, m.CurrentDate)
					if m.BuiltinTools != nil {
						list := []any{}
						for _, b := range m.BuiltinTools {
							list = append(list, b)
						}
						conv.Args = map[string]any{"builtin_tools": list}
					}
				case "developer":
					conv.Tools = m.Functions
					conv.Messages = append(conv.Messages, system(m.Instructions))
				case "user":
					conv.Messages = append(conv.Messages, user(m.Content))
				}
			}
			want, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			p := mustRender(t, tmpl, conv)
			if want := strings.TrimSpace(string(want)); p.Text != want {
				t.Errorf("got\n%s\nwant\n%s", p.Text, want)
			}
		})
	}
	if ran < 9 {
		t.Errorf("only %d cases apply", ran)
	}
}

func TestNativeMessages(t *testing.T) {
	add := chattemplate.ToolCall{ID: "1", Name: "add", Arguments: `{"a":1}`}
	sub := chattemplate.ToolCall{ID: "2", Name: "sub", Arguments: `{}`}
	const open = "<|start|>assistant"
	for _, tt := range []struct {
		name string
		conv chattemplate.Conversation
		want string
	}{
		{"system prompts are joined", messages(system("A"), system(""), chattemplate.Message{Role: chattemplate.Developer,
			Content: "B"}, user("Q")),
			"<|start|>developer<|message|># Instructions\n\nA\n\nB<|end|><|start|>user<|message|>Q<|end|>" + open},
		{"a later system prompt keeps its place", messages(user("Q"), assistant("", "A"), system("S"), user("R")),
			"<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>final<|message|>A<|end|>" +
				"<|start|>developer<|message|># Instructions\n\nS<|end|><|start|>user<|message|>R<|end|>" + open},
		{"names", messages(chattemplate.Message{Role: chattemplate.User, Name: "ann", Content: "Q"}),
			"<|start|>user:ann<|message|>Q<|end|>" + open},
		{"answered reasoning is dropped", messages(user("Q"), assistant("T", "A"), user("R"), assistant("U", "B"), user("S")),
			"<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>final<|message|>A<|end|>" +
				"<|start|>user<|message|>R<|end|><|start|>assistant<|channel|>final<|message|>B<|end|>" +
				"<|start|>user<|message|>S<|end|>" + open},
		{"a pending call keeps its reasoning, answered turns do not", messages(user("Q"), assistant("T", "A"), user("R"),
			calls("U", add), result("1", "2")),
			"<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>final<|message|>A<|end|>" +
				"<|start|>user<|message|>R<|end|>" +
				"<|start|>assistant<|channel|>analysis<|message|>U<|end|>" +
				`<|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>` +
				"<|start|>functions.add to=assistant<|channel|>commentary<|message|>2<|end|>" + open},
		{"an answered call drops its reasoning", messages(user("Q"), calls("U", add), result("1", "2"), assistant("V", "A"),
			user("R")),
			"<|start|>user<|message|>Q<|end|>" +
				`<|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>` +
				"<|start|>functions.add to=assistant<|channel|>commentary<|message|>2<|end|>" +
				"<|start|>assistant<|channel|>final<|message|>A<|end|><|start|>user<|message|>R<|end|>" + open},
		{"two calls and a preamble", messages(user("Q"), chattemplate.Message{
			Role: chattemplate.Assistant, Preamble: "P", ToolCalls: []chattemplate.ToolCall{add, sub},
		}, result("2", "x"), result("1", "y")),
			"<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>commentary<|message|>P<|end|>" +
				`<|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>` +
				`<|start|>assistant to=functions.sub<|channel|>commentary <|constrain|>json<|message|>{}<|call|>` +
				"<|start|>functions.add to=assistant<|channel|>commentary<|message|>y<|end|>" +
				"<|start|>functions.sub to=assistant<|channel|>commentary<|message|>x<|end|>" + open},
		{"results without ids", messages(user("Q"), calls("", add, sub), result("", "x"), result("", "y")),
			"<|start|>user<|message|>Q<|end|>" +
				`<|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>` +
				`<|start|>assistant to=functions.sub<|channel|>commentary <|constrain|>json<|message|>{}<|call|>` +
				"<|start|>functions.add to=assistant<|channel|>commentary<|message|>x<|end|>" +
				"<|start|>functions.sub to=assistant<|channel|>commentary<|message|>y<|end|>" + open},
		{"content beside calls is a preamble", messages(user("Q"), chattemplate.Message{
			Role: chattemplate.Assistant, Content: "C", ToolCalls: []chattemplate.ToolCall{sub},
		}),
			"<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>commentary<|message|>C<|end|>" +
				`<|start|>assistant to=functions.sub<|channel|>commentary <|constrain|>json<|message|>{}<|call|>` + open},
		{"no generation prompt keeps the last turn whole", func() chattemplate.Conversation {
			c := messages(user("Q"), assistant("T", "A"))
			c.NoGenerationPrompt = true
			return c
		}(), "<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>analysis<|message|>T<|end|>" +
			"<|start|>assistant<|channel|>final<|message|>A<|end|>"},
		{"KeepReasoning", func() chattemplate.Conversation {
			c := messages(user("Q"), assistant("T", "A"), user("R"))
			c.KeepReasoning = true
			return c
		}(), "<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>analysis<|message|>T<|end|>" +
			"<|start|>assistant<|channel|>final<|message|>A<|end|><|start|>user<|message|>R<|end|>" + open},
		{"response format", func() chattemplate.Conversation {
			c := messages(user("Q"))
			c.ResponseFormat = &chattemplate.ResponseFormat{Name: "n", Description: "d",
				Schema: json.RawMessage(`{ "z": 1, "a": "<&>" }`)}
			return c
		}(), "<|start|>developer<|message|># Response Formats\n\n## n\n\n// " +
			"d\n{\"z\":1,\"a\":\"<&>\"}<|end|><|start|>user<|message|>Q<|end|>" + open},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustRender(t, nativeTemplate(t), tt.conv)
			if got := afterSystem(t, p); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if p.Start != chattemplate.StartTurn {
				t.Errorf("Start = %d", p.Start)
			}
		})
	}
}

func TestNativeEffort(t *testing.T) {
	tmpl := nativeTemplate(t)
	tool := []chattemplate.Tool{{Name: "f"}}
	for _, tt := range []struct {
		effort   reasoning.Effort
		tools    []chattemplate.Tool
		says     string
		ends     string
		start    chattemplate.Start
		variable string
	}{
		{"", nil, "medium", "<|start|>assistant", chattemplate.StartTurn, ""},
		{"low", nil, "low", "<|start|>assistant", chattemplate.StartTurn, ""},
		{"minimal", nil, "low", "<|start|>assistant", chattemplate.StartTurn, ""},
		{"high", tool, "high", "<|start|>assistant", chattemplate.StartTurn, ""},
		{"none", nil, "low", "<|start|>assistant<|channel|>final<|message|>", chattemplate.StartAnswer, ""},
		{"none", tool, "low", "<|start|>assistant", chattemplate.StartTurn, ""},
		{"", nil, "high", "<|start|>assistant", chattemplate.StartTurn, "high"},
		{"high", nil, "high", "<|start|>assistant", chattemplate.StartTurn, "high"},
	} {
		c := messages(user("Q"))
		c.Effort, c.Tools = tt.effort, tt.tools
		if tt.variable != "" {
			c.Args = map[string]any{"reasoning_effort": tt.variable}
		}
		p := mustRender(t, tmpl, c)
		c.Tools, c.Args = nil, map[string]any{"builtin_tools": []any{"python"}}
		if tt.effort == "none" && mustRender(t, tmpl, c).Start != chattemplate.StartTurn {
			t.Error("a builtin tool cannot be called")
		}
		if !strings.Contains(p.Text, "\n\nReasoning: "+tt.says+"\n\n") || !strings.HasSuffix(p.Text, tt.ends) ||
			p.Start != tt.start {
			t.Errorf("effort %q, %d tools: Start %d, %q", tt.effort, len(tt.tools), p.Start, p.Text)
		}
	}
}

func TestNativeBuiltinTools(t *testing.T) {
	c := messages(user("Q"), calls("T", chattemplate.ToolCall{ID: "1", Name: "browser.search",
		Arguments: `{"query":"x"}`}), result("1", "R"))
	c.Args = map[string]any{"builtin_tools": []any{"browser"}, "model_identity": "You are M."}
	p := mustRender(t, nativeTemplate(t), c)
	if !strings.HasPrefix(p.Text, "<|start|>system<|message|>You are M.\nKnowledge cutoff: 2024-06\n\nReasoning: "+
		"medium\n\n# Tools\n\n## browser\n\n") {
		t.Errorf("system message %q", p.Text[:200])
	}
	const want = `<|start|>assistant to=browser.search<|channel|>analysis code<|message|>{"query":"x"}<|call|>` +
		"<|start|>browser.search to=assistant<|channel|>analysis<|message|>R<|end|><|start|>assistant"
	if !strings.HasSuffix(p.Text, want) {
		t.Errorf("got\n%s\nwant the end\n%s", p.Text, want)
	}
	for _, bad := range []map[string]any{
		{"builtin_tools": "browser"}, {"builtin_tools": []any{"shell"}}, {"model_identity": 1}, {"reasoning_effort": "max"},
		{"reasoning_effort": 3},
	} {
		c.Args = bad
		var ce *chattemplate.ConversationError
		if _, err := nativeTemplate(t).Render(c); !errors.As(err, &ce) || bad[ce.Arg] == nil {
			t.Errorf("variables %v give %v", bad, err)
		}
	}
}

func TestNativeForcedSequences(t *testing.T) {
	vocab := vocabtest.New(t, vocabtest.Harmony()...)
	tmpl := nativeTemplate(t)
	if !isHarmony(tmpl) {
		t.Errorf("family %T", tmpl)
	}
	summary, err := tmpl.SummaryTurn("Sum <|end|> up")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"EndReasoning", controls(vocab, endReasoning(tmpl)), "<|end|><|start|>."},
		{"OpenAnswer(StartTurn)", print(vocab, tmpl.OpenAnswer(chattemplate.StartTurn)), "<|channel|>final<|message|>"},
		{"OpenAnswer(StartReasoning)", print(vocab, tmpl.OpenAnswer(chattemplate.StartReasoning)),
			"<|end|><|start|>assistant<|channel|>final<|message|>"},
		{"OpenAnswer(StartAnswer)", print(vocab, tmpl.OpenAnswer(chattemplate.StartAnswer)), ""},
		{"SummaryTurn", print(vocab, summary), "<|start|>developer<|message|>Sum <|end|> " +
			"up<|end|><|start|>assistant<|channel|>final<|message|>"},
		{"SummaryTurn's controls", controls(vocab, summary),
			"<|start|>.<|message|>.<|end|><|start|>.<|channel|>.<|message|>"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestRefusedConversations(t *testing.T) {
	tmpl := nativeTemplate(t)
	deep := json.RawMessage(`{"type":"object","properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 100) +
		`{}` + strings.Repeat(`}`, 100) + `}}`)
	for _, tt := range []struct {
		name string
		conv chattemplate.Conversation
		want string
	}{
		{"empty", chattemplate.Conversation{}, "conversation has no messages"},
		{"role", messages(chattemplate.Message{Role: "robot"}), "message 0: unknown role"},
		{"result of no call", messages(user("Q"), result("9", "x")), "message 1: tool result does not match a call"},
		{"more results than calls", messages(user("Q"), calls("", chattemplate.ToolCall{Name: "f"}), result("", "x"),
			result("", "y")), "message 3: tool result does not match a call"},
		{"author", messages(chattemplate.Message{Role: chattemplate.User, Name: "a b"}),
			"message 0: author name is not valid"},
		{"list author", messages(chattemplate.Message{Role: chattemplate.User, Name: "a[0]"}),
			"message 0: author name is not valid"},
		{"map tool", chattemplate.Conversation{Messages: messages(user("Q")).Messages,
			Tools: []chattemplate.Tool{{Name: "f{x}"}}}, "tool 0: its name is not valid"},
		{"called tool", messages(calls("", chattemplate.ToolCall{Name: "a<|end|>"})),
			"message 0: name of a called tool is not valid"},
		{"calling user", messages(chattemplate.Message{Role: chattemplate.User,
			ToolCalls: []chattemplate.ToolCall{{Name: "f"}}}), "message 0: tool calls in"},
		{"tool name", chattemplate.Conversation{Messages: messages(user("Q")).Messages,
			Tools: []chattemplate.Tool{{Name: "ok"}, {Name: ""}}}, "tool 1: its name is not valid"},
		{"effort", chattemplate.Conversation{Messages: messages(user("Q")).Messages, Effort: "max"},
			"unknown reasoning effort"},
		{"schema depth", chattemplate.Conversation{Messages: messages(user("Q")).Messages,
			Tools: []chattemplate.Tool{{Name: "f", Parameters: deep}}}, "tool 0: schema nests deeper than 64"},
		{"schema JSON", chattemplate.Conversation{Messages: messages(user("Q")).Messages,
			Tools: []chattemplate.Tool{{Name: "f", Parameters: json.RawMessage(`{`)}}}, "tool 0: schema is not valid JSON"},
		{"shadowed variable", chattemplate.Conversation{Messages: messages(user("Q")).Messages,
			Args: map[string]any{"messages": 1}}, `template variable "messages": cannot be set`},
		{"contradicting effort", chattemplate.Conversation{Messages: messages(user("Q")).Messages, Effort: "low",
			Args: map[string]any{"reasoning_effort": "high"}}, `template variable "reasoning_effort": contradicts`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tmpl.Render(tt.conv)
			var ce *chattemplate.ConversationError
			if !errors.As(err, &ce) || !strings.HasPrefix(err.Error(), tt.want) || ce.Hint() == "" {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPromptsAreNoLongerThanAllowed checks that neither family tokenizes a prompt with more text than is allowed.
func TestPromptsAreNoLongerThanAllowed(t *testing.T) {
	for name, v := range map[string]*backend.Vocab{"native": vocabtest.New(t, vocabtest.Harmony()...),
		"jinja": vocabtest.New(t, "<|im_start|>", "<|im_end|>")} {
		tokenized := 0
		tpl, err := families.Open(chattemplate.Config{Vocab: v, MaxText: 1000,
			Tokenize: func(dst []backend.Token, text string) ([]backend.Token, error) {
				tokenized += len(text)
				return append(dst, 1), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int]error{10: nil, 2000: chattemplate.ErrTooLong, 8 << 20: chattemplate.ErrTooLong} {
			tokenized = 0
			_, err := tpl.Render(chattemplate.Conversation{Messages: []chattemplate.Message{{Role: chattemplate.User,
				Content: strings.Repeat("x", n)}}})
			if !errors.Is(err, want) || tokenized > 1000 {
				t.Errorf("%s, %d bytes: %v, %d bytes were tokenized", name, n, err, tokenized)
			}
		}
	}
}
