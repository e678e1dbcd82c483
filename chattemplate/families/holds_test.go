package families_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/chattemplate/vocabtest"
	"runner/grammar"
	"runner/reasoning"
)

var update = flag.Bool("update", false, "write the golden files again")

// holdTemplate is a chat template with tags around the reasoning and calls in the text.
const holdTemplate = `{% for t in tools or [] %}{{ t.function.name }}{% endfor %}` +
	`{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}` +
	`{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// holdCase is what a turn owes and what it is offered.
type holdCase struct {
	name string
	cfg  func(*family.TurnConfig)
}

// TestWhatMayCome compares what may come at each place of a turn with a table, the golden file. The table has every
// combination of what a turn can owe and what it can be offered. It names the kind of hold that applies, and which of
// some tokens the hold allows: the end of the turn, a letter, a brace, and the marks of the family. Text that must come
// follows the word "then".
func TestWhatMayCome(t *testing.T) {
	form := func(c *family.TurnConfig) { c.Form = grammar.JSONSchema([]byte(`{"type":"object"}`)) }
	owed := []holdCase{
		{"nothing", func(*family.TurnConfig) {}},
		{"a form", form},
		{"a call", func(c *family.TurnConfig) { c.MustCall = true }},
		{"a form or a call", func(c *family.TurnConfig) { form(c); c.MustCall = true }},
		{"a report", func(c *family.TurnConfig) {
			c.Native = false
			c.Report = &chattemplate.Tool{Name: reasoning.ReportReasoningName, Parameters: []byte(`{"type":"object"}`)}
		}},
		{"a form after markers", func(c *family.TurnConfig) { form(c); c.Markers, c.Native = true, false }},
	}
	tool := []chattemplate.Tool{{Name: "f", Parameters: []byte(`{"type":"object"}`)}}
	offered := []holdCase{
		{"nothing", func(*family.TurnConfig) {}},
		{"a tool", func(c *family.TurnConfig) { c.Tools = tool }},
		{"one call", func(c *family.TurnConfig) { c.Tools, c.SingleCall = tool, true }},
		{"a tool not to be called", func(c *family.TurnConfig) { c.Tools, c.NoCalls = tool, true }},
	}
	var table strings.Builder
	for _, f := range []struct {
		name   string
		config chattemplate.Config
		probes []string
		places [][2]string
	}{
		{
			"channels", chattemplate.Config{Vocab: vocabtest.With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: 261,
				EOG: []backend.Token{261, 262}}, vocabtest.Harmony()...), Tokenize: vocabtest.Tokenize},
			[]string{"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"},
			[][2]string{
				{"the start", ""}, {"a channel", "<|channel|>"}, {"analysis", "<|channel|>analysis<|message|>x"},
				{"after analysis", "<|channel|>analysis<|message|>x<|end|>"},
				{"a channel then", "<|channel|>analysis<|message|>x<|end|><|channel|>"},
				{"commentary", "<|channel|>commentary<|message|>x"},
				{"a call", "<|channel|>commentary to=functions.f<|message|>"}, {"final", "<|channel|>final<|message|>"},
				{"after final", "<|channel|>final<|message|>{}<|end|>"},
			},
		},
		{
			"tags", chattemplate.Config{Vocab: vocabtest.With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: 257,
				EOG: []backend.Token{257}}, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
				Tokenize: vocabtest.Tokenize, Source: holdTemplate},
			[]string{"<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"},
			[][2]string{
				{"the start", ""}, {"thinking", "<think>x"}, {"after thinking", "<think>x</think>"}, {"a call", "<tool_call>"},
				{"after a call", "<tool_call>\n" + `{"name": "f", "arguments": {}}` + "\n</tool_call>"},
			},
		},
	} {
		model, err := families.Open(f.config)
		if err != nil {
			t.Fatal(err)
		}
		grammars := grammar.NewCache(grammar.NewVocabulary(f.config.Vocab, f.config.Tokenize), 0)
		for _, owes := range owed {
			for _, offers := range offered {
				cfg := family.TurnConfig{Grammars: grammars, Native: true,
					FormAt: func(p reader.Place) bool { return p == reader.PlaceAnswer }}
				owes.cfg(&cfg)
				offers.cfg(&cfg)
				if cfg.MustCall && (len(cfg.Tools) == 0 || cfg.NoCalls) {
					continue
				}
				fmt.Fprintf(&table, "%s: %s is owed, %s offered\n", f.name, owes.name, offers.name)
				for _, place := range f.places {
					turn := begin(t, model, &f.config, cfg)
					for _, tok := range spell(f.config.Vocab, place[1]) {
						pushAllowed(turn, tok)
						for _, next := range turn.Follow() {
							turn.Force(next)
						}
					}
					fmt.Fprintf(&table, "\t%-15s %s\n", place[0], allowed(turn, f.config.Vocab, f.probes))
				}
			}
		}
	}
	golden := filepath.Join("testdata", "holds.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := table.String(); got != string(want) {
		for i, line := range strings.Split(got, "\n") {
			if lines := strings.Split(string(want), "\n"); i >= len(lines) || lines[i] != line {
				t.Fatalf("line %d of the table differs from %[3]s:\n%[2]s", i+1, line, golden)
			}
		}
		t.Fatalf("the table has fewer lines than %s", golden)
	}
}

// begin starts a turn after a prompt that ends where the turn starts.
func begin(t *testing.T, model family.Family, c *chattemplate.Config, cfg family.TurnConfig) family.Turn {
	t.Helper()
	turn, err := model.Turn(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := chattemplate.Prompt{Start: chattemplate.StartTurn}
	if err := turn.Open(&p, false); err != nil {
		t.Fatal(err)
	}
	if err := turn.Begin(reader.Config{
		Vocab: c.Vocab, Start: p.Start, Emit: func(reasoning.Event) {}, Markers: cfg.Markers, Report: cfg.Report != nil,
		Formed: !cfg.Form.IsZero(),
	}); err != nil {
		t.Fatal(err)
	}
	return turn
}

// pushAllowed gives a turn a token. If the token is allowed it comes from the model, otherwise from the caller.
func pushAllowed(turn family.Turn, tok backend.Token) {
	if h := turn.Hold(); h == nil || h.Allows(tok) {
		turn.Push(tok)
	} else {
		turn.Force(tok)
	}
}

// spell returns the tokens of a text in a vocabulary of bytes and control tokens.
func spell(v *backend.Vocab, text string) (tokens []backend.Token) {
	for text != "" {
		n := 1
		for name, t := range v.Specials {
			if strings.HasPrefix(text, name) {
				tokens, n = append(tokens, t), len(name)
			}
		}
		if n == 1 {
			tokens = append(tokens, backend.Token(text[0]))
		}
		text = text[n:]
	}
	return tokens
}

// allowed describes what may come next: the kind of hold, the probes that it allows, and what is forced.
func allowed(turn family.Turn, v *backend.Vocab, probes []string) string {
	h := turn.Hold()
	kind := map[bool]string{true: "anything"}[h == nil]
	switch h.(type) {
	case *hold.OneOf:
		kind = "header"
	case *hold.Text:
		kind = "text"
	case *hold.Form:
		kind = "form"
	}
	words := []string{kind}
	if h != nil {
		mask := backend.NewMask(v.Len())
		h.Fill(mask)
		for _, probe := range slices.Concat([]string{"a", "c", "f", "{", "<", " ", "\n"}, probes) {
			tok := spell(v, probe)[0]
			if mask.Has(tok) != h.Allows(tok) {
				words = append(words, "MASK DIFFERS AT "+probe)
			}
			if h.Allows(tok) {
				words = append(words, fmt.Sprintf("%q", probe))
			}
		}
	}
	if forced := turn.Forced(); len(forced) > 0 {
		var b strings.Builder
		for _, tok := range forced {
			b.WriteString(v.Piece(tok))
		}
		words = append(words, fmt.Sprintf("then %q", b.String()))
	}
	return strings.Join(words, " ")
}
