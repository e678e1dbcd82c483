package chattemplate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/markup"
	"runner/chattemplate/readertest"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
	"runner/reasoning"
)

// TestDetection checks the family for styles that the reference templates do not have.
func TestDetection(t *testing.T) {
	const (
		chat = `{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}`
		open = `{% if add_generation_prompt %}[assistant]{% endif %}`
	)
	around := func(open, close string) string {
		return chat[:len(chat)-len(`{{ m.content }}{% endfor %}`)] + `{% if m.reasoning_content %}` + open +
			`{{ m.reasoning_content }}` + close +
			`{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`
	}
	think := func(open, close string, skip bool) markup.Format {
		return markup.Format{Open: open, Close: close, CanSkip: skip}
	}
	for _, tt := range []struct {
		name, source string
		vocab        []string
		want         markup.Format
		start, none  chattemplate.Start
	}{
		{"nothing", chat + open, nil, markup.Format{}, 0, 0},
		{"only a comment", chat + open + `{# strips </think> #}`, nil, markup.Format{}, 0, 0},
		{"only the vocabulary", chat + open, []string{"<think>", "</think>"}, think("<think>", "</think>", false),
			chattemplate.StartTurn, chattemplate.StartAnswer},
		{"half in the vocabulary", chat + open, []string{"<think>"}, markup.Format{}, 0, 0},
		{"brackets", around("[THINK]", "[/THINK]"), []string{"[THINK]", "[/THINK]"}, think("[THINK]", "[/THINK]", false), 0,
			chattemplate.StartAnswer},
		{"brackets in a system prompt", `[SYSTEM]Write your thoughts as [THINK]...[/THINK].[/SYSTEM]` + chat + open, nil,
			think("[THINK]", "[/THINK]", false), 0, chattemplate.StartAnswer},
		{"unknown tags in the history", around("<reflect>\n", "\n</reflect>\n\n"), nil,
			think("<reflect>", "</reflect>", false), 0, chattemplate.StartAnswer},
		{"unlike tags in the history", around("{{ '<|mull|>' }}", "{{ '<|speak|>' }}"), nil,
			think("<|mull|>", "<|speak|>", false), 0, chattemplate.StartAnswer},
		{"tags named for thinking",
			chat + `{% if add_generation_prompt %}[assistant]<ling_thinking>{% endif %}{% set x = '</ling_thinking>' %}`, nil,
			think("<ling_thinking>", "</ling_thinking>", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"seed",
			chat + open + `{% if thinking_budget is defined and thinking_budget == 0 %}<seed:think></seed:think>{% endif %}`,
			nil, think("<seed:think>", "</seed:think>", true), chattemplate.StartTurn, chattemplate.StartAnswer},
		{"granite's sentences",
			chat + `{% if thinking %}Write your thoughts after "Here is my thought process:" ` +
				`and your response after "Here is my response:".{% endif %}` + open,
			nil, think("Here is my thought process:", "Here is my response:", true),
			chattemplate.StartTurn, chattemplate.StartTurn},
		{"an effort of none", `{% if reasoning_effort == 'none' %}off{% else %}{{ reasoning_effort }}{% endif %}` + chat +
			open + `{% set x = '[/THINK]' %}`, nil, think("[THINK]", "[/THINK]", true), chattemplate.StartTurn,
			chattemplate.StartTurn},
		{"an effort without none", `{{ reasoning_effort }}` + chat + open + `{% set x = '</think>' %}`, nil,
			think("<think>", "</think>", false), chattemplate.StartTurn, chattemplate.StartAnswer},
		{"only the opening mark at the end of the prompt", chat + `{% if add_generation_prompt %}[assistant]<think>` + "\n" +
			`{% endif %}`, nil, think("<think>", "</think>", false), chattemplate.StartReasoning,
			chattemplate.StartAnswer},
		{"only an opening mark in brackets", chat + `{% if add_generation_prompt %}[assistant][THINK]{% endif %}`, nil,
			think("[THINK]", "[/THINK]", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"only seed's opening mark", chat + `{% if add_generation_prompt %}[assistant]<seed:think>{% endif %}`,
			[]string{"<seed:think>"}, think("<seed:think>", "</seed:think>", false), chattemplate.StartReasoning,
			chattemplate.StartAnswer},
		{"only kimi's opening mark", chat + `{% if add_generation_prompt %}[assistant]◁think▷{% endif %}`, nil,
			think("◁think▷", "◁/think▷", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"only an opening mark with a start", chat + `{% if add_generation_prompt %}[assistant]<|think_start|>{% endif %}`,
			nil, think("<|think_start|>", "<|think_end|>", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"only an opening mark named for thinking", chat + `{% if add_generation_prompt %}[assistant]<my_thoughts>` + "\n\n" +
			`{% endif %}`, nil, think("<my_thoughts>", "</my_thoughts>", false), chattemplate.StartReasoning,
			chattemplate.StartAnswer},
		{"only an opening mark of any name", chat + `{% if add_generation_prompt %}[assistant]<scratchpad>{% endif %}`, nil,
			think("<scratchpad>", "</scratchpad>", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"an opening mark whose closing mark is in the vocabulary",
			chat + `{% if add_generation_prompt %}[assistant]<|ponder|>{% endif %}`, []string{"<|ponder|>", "<|/ponder|>"},
			think("<|ponder|>", "<|/ponder|>", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
		{"only an opening mark that a variable switches on",
			chat + `{% if add_generation_prompt %}[assistant]{% if enable_thinking %}<think>{% endif %}{% endif %}`, nil,
			think("<think>", "</think>", true), chattemplate.StartTurn, chattemplate.StartTurn},
		{"only an opening mark that a variable switches off", chat + `{% if add_generation_prompt %}[assistant]` +
			`{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}{% endif %}`, nil,
			think("<think>", "</think>", true), chattemplate.StartReasoning, chattemplate.StartTurn},
		{"a mark around the answer", chat + `{% if add_generation_prompt %}[assistant]<answer>{% endif %}`, nil,
			markup.Format{}, 0, 0},
		{"a mark that begins every answer", `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}` +
			`{% if add_generation_prompt %}<assistant>{% endif %}`, nil, markup.Format{}, 0, 0},
		{"kimi", chat + `{% if add_generation_prompt %}[assistant]◁think▷{% endif %}{% set x = '◁/think▷' %}`, nil,
			think("◁think▷", "◁/think▷", false), chattemplate.StartReasoning, chattemplate.StartAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tmpl := jinjaTemplate(t, tt.source, tt.vocab...)
			if got := readertest.FormatOf(tmpl); got != tt.want {
				t.Fatalf("Format() = %+v\nwant       %+v", got, tt.want)
			}
			c := messages(user("Q"))
			if p := mustRender(t, tmpl, c); p.Start != tt.start {
				t.Errorf("Start = %d, want %d: %q", p.Start, tt.start, p.Text)
			}
			c.Effort = reasoning.EffortNone
			if p := mustRender(t, tmpl, c); p.Start != tt.none {
				t.Errorf("with effort none Start = %d, want %d: %q", p.Start, tt.none, p.Text)
			}
		})
	}
}

// TestOpeningMarksOfSomePrompts checks templates that open reasoning in some prompts only and never write the closing
// mark. The mark is found, and each prompt starts where it ends.
func TestOpeningMarksOfSomePrompts(t *testing.T) {
	tools := []chattemplate.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}}
	system := func(c *chattemplate.Conversation) {
		c.Messages = append([]chattemplate.Message{{Role: chattemplate.System, Content: "S"}}, c.Messages...)
	}
	effort := func(e reasoning.Effort) func(*chattemplate.Conversation) {
		return func(c *chattemplate.Conversation) { c.Effort = e }
	}
	arg := func(name string, is any) func(*chattemplate.Conversation) {
		return func(c *chattemplate.Conversation) { c.Args = map[string]any{name: is} }
	}
	for _, c := range []struct {
		when string
		with func(*chattemplate.Conversation)
	}{
		{`tools`, func(c *chattemplate.Conversation) { c.Tools = tools }},
		{`messages[0].role == 'system'`, system},
		{`tools and messages[0].role == 'system'`, func(c *chattemplate.Conversation) { system(c); c.Tools = tools }},
		{`messages | length > 2`, func(c *chattemplate.Conversation) {
			c.Messages = append(c.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: "A"}, user("R"))
		}},
		{`messages[-1].role == 'tool'`, func(c *chattemplate.Conversation) {
			c.Tools = tools
			c.Messages = append(c.Messages, chattemplate.Message{Role: chattemplate.Assistant,
				ToolCalls: []chattemplate.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}},
				chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "1", ToolName: "f", Content: "R"})
		}},
		{`reasoning_effort == 'high'`, effort(reasoning.EffortHigh)},
		{`reasoning_effort == 'medium'`, effort(reasoning.EffortMedium)},
		{`reasoning_effort == 'low'`, effort(reasoning.EffortLow)},
		{`tools and enable_thinking`, func(c *chattemplate.Conversation) {
			c.Tools, c.Args = tools, map[string]any{"enable_thinking": true}
		}},
		{`thinking and messages[0].role == 'system'`, func(c *chattemplate.Conversation) {
			system(c)
			c.Args = map[string]any{"thinking": true}
		}},
		{`thinking_budget and thinking_budget > 0`, arg("thinking_budget", 100.0)},
	} {
		for _, open := range []string{"<think>", "<my_thoughts>", "<scratchpad>"} {
			tmpl := jinjaTemplate(t, `{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}`+
				`[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}`+
				`{% endfor %}{% if add_generation_prompt %}[assistant]{% if `+c.when+` %}`+open+"\n"+`{% endif %}{% endif %}`)
			if got := readertest.FormatOf(tmpl).Open; got != open {
				t.Errorf("%s: the mark is %q, want %q", c.when, got, open)
				continue
			}
			conv := messages(user("Q"))
			if p := mustRender(t, tmpl, conv); p.Start != chattemplate.StartTurn {
				t.Errorf("%s: without it Start = %d: %q", c.when, p.Start, p.Text)
			}
			c.with(&conv)
			if p := mustRender(t, tmpl, conv); p.Start != chattemplate.StartReasoning {
				t.Errorf("%s: Start = %d: %q", c.when, p.Start, p.Text)
			}
		}
	}
	tmpl := jinjaTemplate(t, `{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]`+
		`{% if mode == 'deep' %}<think>{% endif %}`)
	conv := messages(user("Q"))
	arg("mode", "deep")(&conv)
	if p := mustRender(t, tmpl, conv); p.Start != chattemplate.StartReasoning {
		t.Errorf("with a variable of the caller Start = %d: %q", p.Start, p.Text)
	}
}

// TestStartIsTrusted checks that a mark that a user typed at the end of a prompt does not count.
func TestStartIsTrusted(t *testing.T) {
	tmpl := jinjaTemplate(t, `{{ messages[-1].content }}{% set x = '</think>' %}`, "<think>", "</think>")
	for _, text := range []string{"Q <think>", "Q </think>"} {
		if p := mustRender(t, tmpl, messages(user(text))); p.Start != chattemplate.StartTurn {
			t.Errorf("%q starts at %d", text, p.Start)
		}
	}
}

// TestEffortVariables checks which variables an effort sets.
func TestEffortVariables(t *testing.T) {
	source := `{{ messages[0].content }} {{ enable_thinking }} {{ thinking }} {{ reasoning_effort }}` +
		`{% if enable_thinking %}<think>{% endif %}{% set x = '</think>' %}`
	tmpl := jinjaTemplate(t, source)
	for effort, want := range map[reasoning.Effort]string{
		reasoning.EffortDefault: "Q   ", reasoning.EffortNone: "Q False False ",
		reasoning.EffortMinimal: "Q True True low<think>",
		reasoning.EffortLow:     "Q True True low<think>", reasoning.EffortHigh: "Q True True high<think>",
	} {
		c := messages(user("Q"))
		c.Effort = effort
		if p := mustRender(t, tmpl, c); p.Text != want {
			t.Errorf("effort %q gives %q, want %q", effort, p.Text, want)
		}
	}
}

func TestNewNeedsVocabulary(t *testing.T) {
	for _, c := range []chattemplate.Config{
		{Tokenize: vocabtest.Tokenize, Source: "x"},
		{Vocab: vocabtest.New(t), Source: "x"},
	} {
		if _, err := families.Open(c); err == nil {
			t.Error("New takes a config without a vocabulary or a tokenizer")
		}
	}
}

// TestReferenceFormatsAreDetected renders the template of every reference format with the marks that its vocabulary
// has. If the format says that its template forces the model to reason, the prompt ends in reasoning.
func TestReferenceFormatsAreDetected(t *testing.T) {
	dir := conformance.Dir(t, "tool_calls")
	raw, err := os.ReadFile(filepath.Join(dir, "formats.json"))
	if err != nil {
		t.Fatal(err)
	}
	var formats map[string]struct {
		Template    string
		Control     []string
		UserDefined []string `json:"user_defined"`
		Thinks      *string
	}
	if err := json.Unmarshal(raw, &formats); err != nil {
		t.Fatal(err)
	}
	thinking := 0
	for name, f := range formats {
		source, err := os.ReadFile(filepath.Join(dir, "tpl", f.Template))
		if err != nil {
			t.Fatal(err)
		}
		special := append(slices.Clone(f.Control), f.UserDefined...)
		if f.Thinks == nil || name == "harmony" {
			continue
		}
		thinking++
		vocab := vocabtest.With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: 257, EOG: []backend.Token{257}}, special...)
		model := mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: string(source)})
		format := readertest.FormatOf(model)
		if format.Open == "" || format.Close == "" {
			t.Errorf("%s: no marks were found", name)
			continue
		}
		c := messages(user("Hi"))
		c.Effort, c.Now = reasoning.EffortHigh, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if p := mustRender(t, model, c); *f.Thinks == "forced" && p.Start != chattemplate.StartReasoning {
			t.Errorf("%s: the model is forced to reason between %s and %s, but starts at %d: ...%q", name, format.Open,
				format.Close, p.Start, p.Text[max(0, len(p.Text)-60):])
		}
	}
	if thinking < 30 {
		t.Errorf("only %d formats", thinking)
	}
}
