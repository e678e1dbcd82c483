package chattemplate_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/chattemplate/readertest"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
	"runner/reasoning"
)

const chatMLSource = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}` +
	`{% endfor %}` +
	`{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func jinjaTemplate(t testing.TB, source string, control ...string) family.Family {
	return mustNew(t, chattemplate.Config{Vocab: vocabtest.New(t, control...), Tokenize: vocabtest.Tokenize,
		Source: source})
}

func TestWithoutTemplate(t *testing.T) {
	_, err := families.Open(chattemplate.Config{Vocab: vocabtest.New(t, "<s>"), Tokenize: vocabtest.Tokenize})
	if !errors.Is(err, chattemplate.ErrNoTemplate) {
		t.Errorf("err = %v, want ErrNoTemplate", err)
	}
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Error("the error has no hint")
	}
	tmpl := jinjaTemplate(t, "", "<|im_start|>", "<|im_end|>")
	p := mustRender(t, tmpl, messages(system("S"), user("Q"), assistant("", "A"), user("R")))
	const want = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n" +
		"<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n"
	if p.Text != want {
		t.Errorf("ChatML gives %q", p.Text)
	}
}

func TestHarmonyVocabulary(t *testing.T) {
	vocab := vocabtest.New(t, append(vocabtest.Harmony(), "<|im_start|>", "<|im_end|>")...)
	for _, force := range []bool{false, true} {
		tmpl := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: chatMLSource,
			ForceJinja: force})
		if native := isHarmony(tmpl); native == force {
			t.Errorf("ForceJinja %v: Format() = %+v", force, readertest.FormatOf(tmpl))
		}
	}
}

// TestHarmonyOpenings checks that if a template opens a message for the model, the prompt starts in that message,
// unless a user wrote the header.
func TestHarmonyOpenings(t *testing.T) {
	const (
		chat = `{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}` +
			`<|start|>assistant`
		analysis = "<|channel|>analysis<|message|>"
		final    = "<|channel|>final<|message|>"
	)
	vocab := vocabtest.New(t, vocabtest.Harmony()...)
	for source, want := range map[string]chattemplate.Start{
		chat:            chattemplate.StartTurn,
		chat + analysis: chattemplate.StartReasoning,
		chat + final:    chattemplate.StartAnswer,
		chat + analysis + "<|end|><|start|>assistant":         chattemplate.StartTurn,
		chat + analysis + "<|end|><|start|>assistant" + final: chattemplate.StartAnswer,
		chat + `{% if fast %}` + final + `{% endif %}`:        chattemplate.StartAnswer,
		chat + final + "\n": chattemplate.StartAnswer,
		chat + `{{ fast }}`: chattemplate.StartTurn,
	} {
		tmpl := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: source, ForceJinja: true})
		c := messages(user("Q"))
		c.Args = map[string]any{"fast": final}
		if p := mustRender(t, tmpl, c); !isHarmony(tmpl) || p.Start != want {
			t.Errorf("%s: %+v, %q starts at %d, want %d", source, readertest.FormatOf(tmpl), p.Text, p.Start, want)
		}
		c.Effort = reasoning.EffortNone
		p := mustRender(t, tmpl, c)
		if headers := controls(vocab, p.Tokens); p.Start != chattemplate.StartAnswer ||
			!strings.HasSuffix(headers, "<|channel|>.<|message|>") ||
			strings.HasSuffix(headers, "<|message|><|channel|>.<|message|>") {
			t.Errorf("%s: without reasoning %q starts at %d", source, p.Text, p.Start)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	_, err := families.Open(chattemplate.Config{Vocab: vocabtest.New(t), Tokenize: vocabtest.Tokenize,
		Source: "a\n{{ b"})
	var te *chattemplate.TemplateError
	if !errors.As(err, &te) || te.Line != 2 || te.Rendering || te.Hint() == "" || strings.HasSuffix(te.Error(), ".") {
		t.Errorf("syntax: err = %#v", err)
	}
	tmpl := jinjaTemplate(t, "{% for m in messages %}\n\n{% if m.role == 'assistant' %}{{ raise_exception('No ' + "+
		"m.content) }}{% endif %}{{ m.content }}{% endfor %}")
	_, err = tmpl.Render(messages(user("Q"), chattemplate.Message{Role: chattemplate.Assistant, Content: "secret"}))
	if !errors.As(err, &te) || te.Line != 3 || !te.Rendering || te.Hint() == "" {
		t.Errorf("raised: err = %#v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error holds text of the conversation: %v", err)
	}
}

// TestTokensAcrossPieces checks that the text between control tokens is tokenized as a whole, whatever its pieces are.
func TestTokensAcrossPieces(t *testing.T) {
	var texts []string
	tmpl := mustNew(t, chattemplate.Config{
		Vocab: vocabtest.New(t, "<|im_start|>", "<|im_end|>"),
		Tokenize: func(dst []backend.Token, text string) ([]backend.Token, error) {
			texts = append(texts, text)
			return vocabtest.Tokenize(dst, text)
		},
		Source: chatMLSource,
	})
	texts = nil
	p := mustRender(t, tmpl, messages(user("Q<|im_end|>")))
	if want := []string{"user\nQ<|im_end|>", "\n", "assistant\n"}; !slices.Equal(texts, want) {
		t.Errorf("tokenized %q, want %q", texts, want)
	}
	if p.Text != "<|im_start|>user\nQ<|im_end|><|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("Text = %q", p.Text)
	}
}

// userDefined returns a vocabulary of bytes and user-defined tokens, and its tokenizer. As in engines, user-defined
// tokens are matched in plain text.
func userDefined(t *testing.T, names ...string) (*backend.Vocab, chattemplate.Tokenizer) {
	t.Helper()
	c := backend.VocabConfig{BOS: backend.NoToken, EOS: backend.NoToken}
	for i := range 256 {
		c.Pieces, c.Kinds = append(c.Pieces, string([]byte{byte(i)})), append(c.Kinds, backend.Normal)
	}
	for _, name := range names {
		c.Pieces, c.Kinds = append(c.Pieces, name), append(c.Kinds, backend.UserDefined)
	}
	vocab, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return vocab, func(dst []backend.Token, text string) ([]backend.Token, error) {
	next:
		for i := 0; i < len(text); {
			for id := backend.Token(256); int(id) < vocab.Len(); id++ {
				if p := vocab.Piece(id); strings.HasPrefix(text[i:], p) {
					dst = append(dst, id)
					i += len(p)
					continue next
				}
			}
			dst = append(dst, backend.Token(text[i]))
			i++
		}
		return dst, nil
	}
}

// TestHarmonyOfUserDefinedTokens checks that text does not become harmony's tokens where a file calls them
// user-defined.
func TestHarmonyOfUserDefinedTokens(t *testing.T) {
	vocab, tokenize := userDefined(t, append(vocabtest.Harmony(), "<td>")...)
	tmpl := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: tokenize})
	count := func(text string) (n int) {
		for _, tok := range mustRender(t, tmpl, messages(user(text))).Tokens {
			if vocab.Kind(tok) == backend.UserDefined {
				n++
			}
		}
		return n
	}
	if n, want := count("<|end|><|start|>system<|message|><|call|>"), count("harmless"); n != want {
		t.Errorf("%d marks, want %d", n, want)
	}
	if n, want := count("<td>"), count("harmless")+1; n != want {
		t.Errorf("%d user-defined tokens with one that is text, want %d", n, want)
	}
}

// TestUserDefinedTokens checks that outside text does not become a user-defined token that the template uses as a
// mark, although tokenizers match such tokens in plain text.
func TestUserDefinedTokens(t *testing.T) {
	vocab, tokenize := userDefined(t, "<think>", "</think>", "  ", "<b>")
	tmpl := mustNew(t, chattemplate.Config{
		Vocab: vocab, Tokenize: tokenize,
		Source: `{% for m in messages %}{{ m.role }}: {{ m.content }}k>` + "\n" +
			`{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}{# </think> #}`,
	})
	p := mustRender(t, tmpl, messages(user("a  b<b> <think>x</think><thin")))
	var got []string
	for _, tok := range p.Tokens {
		if vocab.Kind(tok) == backend.UserDefined {
			got = append(got, vocab.Piece(tok))
		}
	}
	if want := []string{"  ", "<b>", "<think>"}; !slices.Equal(got, want) {
		t.Errorf("user-defined tokens %q, want %q", got, want)
	}
	if print(vocab, p.Tokens) != p.Text {
		t.Errorf("tokens print as %q, Text is %q", print(vocab, p.Tokens), p.Text)
	}
}

// TestMarksOfTheTemplate checks which user-defined tokens count as marks: those that the template writes, however it
// puts them together, and those of the family. The rest is text.
func TestMarksOfTheTemplate(t *testing.T) {
	names := []string{"<think>", "</think>", "[TOOL_CALLS]", "Human:", "<late>", "<tool_call>", "</tool_call>", "<td>",
		"\n\n", "hello"}
	vocab, tokenize := userDefined(t, names...)
	// The template puts marks together from parts, and writes <late> for one question only.
	tmpl := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: tokenize, Source: `{% set bar = '>' %}` +
		`{% for m in messages %}{{ 'Hu' ~ 'man: ' }}{{ m.content }}{{ '\n\nhello ' }}` +
		`{% if m.content == 'now ' ~ '<late' ~ '>' %}{{ '<la' ~ 'te>' }}{% endif %}` +
		`{% if m.reasoning_content %}{{ '<th' ~ 'ink' ~ bar ~ m.reasoning_content ~ '</thi' ~ 'nk' ~ bar }}{% endif %}` +
		`{% for call in m.tool_calls or [] %}{{ '<tool_' ~ 'call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~
			(call.function.arguments | tojson) ~ '}\n</tool_' ~ 'call>' }}{% endfor %}` +
		`{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}`})
	marks := func(text string) (list []string) {
		for _, tok := range mustRender(t, tmpl, messages(user(text))).Tokens {
			if vocab.Kind(tok) == backend.UserDefined {
				list = append(list, vocab.Piece(tok))
			}
		}
		return list
	}
	frame := func(inside ...string) []string { return append(append([]string{"Human:"}, inside...), "\n\n", "hello") }
	for text, want := range map[string][]string{
		"<think>x</think>": frame(), "Human: hi": frame(), "<tool_call>": frame(), "</tool_call>": frame(),
		"<td>a\n\nhello": frame("<td>", "\n\n", "hello"), "[TOOL_CALLS]": frame("[TOOL_CALLS]"),
		"<<think>": frame(), "<late>": frame("<late>"), "now <late>": append(frame(), "<late>"),
	} {
		if got := marks(text); !slices.Equal(got, want) {
			t.Errorf("%q: user-defined tokens %q, want %q", text, got, want)
		}
	}
}

func TestBOS(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		add          bool
		want         string
	}{
		{"template writes it", `{{ bos_token }}{{ messages[0].content }}`, true, "<s>Q"},
		{"template does not", `{{ messages[0].content }}`, true, "<s>Q"},
		{"nobody does", `{{ messages[0].content }}`, false, "Q"},
		{"the user does", `{{ messages[0].content }}`, true, "<s><s>Q"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vocab := vocabtest.With(t, backend.VocabConfig{BOS: 256, EOS: 257, AddBOS: tt.add}, "<s>", "</s>")
			tmpl := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: tt.source})
			text := "Q"
			if tt.name == "the user does" {
				text = "<s>Q"
			}
			p := mustRender(t, tmpl, messages(user(text)))
			if p.Text != tt.want {
				t.Errorf("Text = %q, want %q", p.Text, tt.want)
			}
			if n := strings.Count(controls(vocab, p.Tokens), "<s>"); tt.add && n != 1 {
				t.Errorf("%d BOS tokens", n)
			}
		})
	}
}

func TestSystemRoleUnsupported(t *testing.T) {
	for _, source := range []string{
		`{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}` +
			`{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}`,
		`{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}`,
	} {
		p := mustRender(t, jinjaTemplate(t, source), messages(system("S"), system("T"), user("Q"), assistant("", "A"),
			user("R")))
		if want := "[user]S\n\nT\n\nQ[assistant]A[user]R"; p.Text != want {
			t.Errorf("Text = %q, want %q", p.Text, want)
		}
	}
}

func TestMessageForms(t *testing.T) {
	call := chattemplate.ToolCall{ID: "call_0123456789", Name: "f", Arguments: `{"b": 1, "a": "x"}`}
	conv := messages(user("Q"), chattemplate.Message{Role: chattemplate.Assistant,
		ToolCalls: []chattemplate.ToolCall{call}}, result("call_0123456789", "R"))
	conv.Tools = []chattemplate.Tool{{Name: "f"}}
	const loop = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %}` +
		`{% for c in m.tool_calls or [] %}`
	for _, tt := range []struct{ name, source, want string }{
		{"object arguments", `{% if tools %}{{ tools[0].function.name }}{% endif %}` + loop +
			`({{ c.function.arguments | tojson }}){% endfor %}{% endfor %}`, `fQ({"b": 1, "a": "x"})R`},
		{"string arguments", `{% if tools %}{{ tools[0].function.name }}{% endif %}` + loop +
			`({{ c.function.name + c.function.arguments }}){% endfor %}{% endfor %}`, `fQ(f{"b": 1, "a": "x"})R`},
		{"no content", `{% if tools %}{{ tools[0].function.name }}{% endif %}` +
			`{% for m in messages %}{% if m.content is none %}{{ m.tool_calls[0].function.arguments | tojson }}{% else %}` +
			`{{ m.content }}{% endif %}{% endfor %}`, `fQ{"b": 1, "a": "x"}R`},
		{"short ids", `{% if tools %}{{ tools[0].function.name }}{% endif %}` + loop +
			`{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}({{ c.id }}` +
			`{{ c.function.arguments | tojson }}){% endfor %}{% if m.role == 'tool' %}{{ m.tool_call_id }}{% endif %}` +
			`{% endfor %}`, `fQ(call00001{"b": 1, "a": "x"})Rcall00001`},
		{"no place for calls",
			`{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}{{ m.content }}|{% endfor %}`,
			`fQ|[{"name":"f","arguments":{"b":1,"a":"x"}}]|R|`},
		{"typed content",
			`{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}{% for part in m.content %}` +
				`{{ part.text }}{% endfor %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}` +
				`{% endfor %}`, `fQ{"b": 1, "a": "x"}R`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustRender(t, jinjaTemplate(t, tt.source), conv)
			if p.Text != tt.want {
				t.Errorf("Text = %q, want %q", p.Text, tt.want)
			}
		})
	}
	t.Run("no place for tools", func(t *testing.T) {
		_, err := jinjaTemplate(t, chatMLSource).Render(conv)
		var ce *chattemplate.ConversationError
		if !errors.As(err, &ce) || ce.Hint() == "" {
			t.Errorf("err = %v, want a *ConversationError", err)
		}
	})
}

func TestCallerVariables(t *testing.T) {
	tmpl := jinjaTemplate(t,
		`{{ messages[0].content }}{{ style }}`+
			`{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}`, "<think>", "</think>")
	c := messages(user("Q"))
	c.Args = map[string]any{"style": "<think>", "enable_thinking": false}
	p := mustRender(t, tmpl, c)
	vocab := vocabtest.New(t, "<think>", "</think>")
	if got := controls(vocab, p.Tokens); got != ".<think></think>" || p.Start != chattemplate.StartAnswer {
		t.Errorf("control tokens %s, Start %d", got, p.Start)
	}
	c.Effort = reasoning.EffortHigh
	var ce *chattemplate.ConversationError
	if _, err := tmpl.Render(c); !errors.As(err, &ce) || ce.Arg != "enable_thinking" {
		t.Errorf("a contradicting variable gives %v", err)
	}
	for _, name := range []string{"messages", "tools", "add_generation_prompt", "bos_token", "eos_token",
		"raise_exception", "strftime_now"} {
		c := messages(user("Q"))
		c.Args = map[string]any{name: "x"}
		if _, err := tmpl.Render(c); !errors.As(err, &ce) || ce.Arg != name {
			t.Errorf("variable %s: err = %v", name, err)
		}
	}
}

func TestThinkTagSequences(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	for _, tt := range []struct{ name, end, skip, summary string }{
		{"Qwen-Qwen3-0.6B", "\n</think>\n\n", "<think>\n\n</think>\n\n",
			"<|im_end|>\n<|im_start|>user\nSum</s> up<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
		{"deepseek-ai-DeepSeek-V3.1", "</think>", "<think></think>",
			"<｜end▁of▁sentence｜><｜User｜>Sum</s> up<｜Assistant｜><think></think>"},
		{"GLM-4.7-Flash", "</think>", "<think></think>", "<|user|>Sum</s> up<|assistant|></think>"},
		{"StepFun3.5-Flash", "\n</think>\n", "<think>\n\n</think>\n",
			"<|im_end|>\n<|im_start|>user\nSum</s> up<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n"},
		{"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "\n</think>\n\n", "<think>\n\n</think>\n\n",
			"<｜end▁of▁sentence｜><｜User｜>Sum</s> up<｜Assistant｜><think>\n\n</think>\n\n"},
		{"google-gemma-4-31B-it-interleaved", "<channel|>", "<|channel>thought\n<channel|>",
			"<turn|>\n<|turn>user\nSum</s> up<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"},
		{"Qwen-Qwen2.5-7B-Instruct", "", "", "<|im_end|>\n<|im_start|>user\nSum</s> up<|im_end|>\n<|im_start|>assistant\n"},
		{"openai-gpt-oss-120b", "<|end|><|start|>assistant", "<|channel|>final<|message|>",
			"<|start|>developer<|message|>Sum</s> up<|end|><|start|>assistant<|channel|>final<|message|>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, vocab := familyTemplate(t, readTemplate(t, dir, tt.name))
			summary, err := tmpl.SummaryTurn("Sum</s> up")
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []struct{ name, got, want string }{
				{"EndReasoning", print(vocab, endReasoning(tmpl)), tt.end},
				{"OpenAnswer(StartTurn)", print(vocab, tmpl.OpenAnswer(chattemplate.StartTurn)), tt.skip},
				{"SummaryTurn", print(vocab, summary), tt.summary},
			} {
				if got.got != got.want {
					t.Errorf("%s = %q, want %q", got.name, got.got, got.want)
				}
			}
			if slices.Contains(summary, vocab.EOS()) && !strings.Contains(strings.Replace(tt.summary, "Sum</s> up", "", 1),
				"</s>") {
				t.Error("the prompt's text became a control token")
			}
		})
	}
}

func TestForcedHarmony(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	tmpl, _ := familyTemplate(t, readTemplate(t, dir, "openai-gpt-oss-120b"))
	c := messages(user("Q"))
	c.Effort, c.Now = reasoning.EffortNone, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := mustRender(t, tmpl, c)
	native := mustRender(t, nativeTemplate(t), c)
	if p.Text != native.Text || p.Start != native.Start {
		t.Errorf("the template gives\n%s\nnative is\n%s", p.Text, native.Text)
	}
	c.Tools = []chattemplate.Tool{{Name: "f", Description: "d"}}
	if p := mustRender(t, tmpl, c); p.Start != chattemplate.StartTurn || !strings.HasSuffix(p.Text, "<|start|>assistant") {
		t.Errorf("with tools the prompt starts at %d and ends %q", p.Start, p.Text[len(p.Text)-40:])
	}
}

func TestToolsAsText(t *testing.T) {
	tmpl := jinjaTemplate(t, `{{ datetime }}|{{ functions }}|{{ messages[0].content }}`)
	c := messages(user("Q"))
	c.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.Tools = []chattemplate.Tool{{Name: "f", Parameters: []byte(`{"b":1,"a":2}`)}}
	want := "Jan 02 2026 03:04:05 UTC|[\n  {\n    \"name\": \"f\",\n    \"description\": \"\",\n    \"parameters\": " +
		"{\n      \"b\": 1,\n      \"a\": 2\n    }\n  }\n]|Q"
	if p := mustRender(t, tmpl, c); p.Text != want {
		t.Errorf("Text = %q\nwant   %q", p.Text, want)
	}
	for _, schema := range []string{`{"a":`, `"` + strings.Repeat("x", 1<<20) + `"`, strings.Repeat("[", 200) +
		strings.Repeat("]", 200)} {
		c.Tools[0].Parameters = []byte(schema)
		var ce *chattemplate.ConversationError
		if _, err := tmpl.Render(c); !errors.As(err, &ce) || ce.Tool != 0 {
			t.Errorf("a bad schema gives %v", err)
		}
	}
}

func TestKeepReasoning(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	for _, name := range []string{"GLM-4.7-Flash", "deepseek-ai-DeepSeek-V4"} {
		tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
		c := messages(user("Q"), assistant("Thought", "A"), user("R"))
		c.Effort = reasoning.EffortHigh
		for _, keep := range []bool{false, true} {
			c.KeepReasoning = keep
			if p := mustRender(t, tmpl, c); strings.Contains(p.Text, "Thought") != keep {
				t.Errorf("%s, KeepReasoning %v: %q", name, keep, p.Text)
			}
		}
	}
}

func TestConcurrentRender(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	tmpl, _ := familyTemplate(t, readTemplate(t, dir, "Qwen-Qwen3-0.6B"))
	c := messages(user("Q"), assistant("T", "A"), user("R"))
	c.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := mustRender(t, tmpl, c)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if p, err := tmpl.Render(c); err != nil || p.Text != want.Text {
					t.Errorf("concurrent rendering differs: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
