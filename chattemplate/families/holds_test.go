package families_test

import (
	"errors"
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

// holdCase is what a turn owes or what it is offered.
type holdCase struct {
	name string
	cfg  func(*family.TurnConfig)
	json bool // the answer is the object of strategy json
}

// holdPlace is a place of a turn and the way there.
type holdPlace struct {
	name string
	// text is what the turn has written since start. skip is the argument of Open.
	text  string
	start chattemplate.Start
	skip  bool
	// step is done after text; nil does nothing. It returns what the family writes, and false if it cannot be done.
	step func(family.Turn) ([]backend.Token, bool)
	// then is what the turn writes after step.
	then string
	// report says that the place exists only if a report is owed, and json only for the object of strategy json.
	report, json bool
}

// applies reports whether the place exists.
func (p *holdPlace) applies(cfg *family.TurnConfig, json bool) bool {
	return (!p.report || cfg.Report != nil) && (!p.json || json)
}

// endReasoning closes the reasoning as a limit does.
func endReasoning(turn family.Turn) ([]backend.Token, bool) {
	end, open, err := turn.EndReasoning()
	written := slices.Clone(end)
	force := func(tokens []backend.Token) {
		for _, tok := range tokens {
			turn.Force(tok)
		}
	}
	force(end)
	follow := turn.Follow()
	force(follow)
	force(open)
	return slices.Concat(written, follow, open), err == nil
}

// endObject closes the reasoning in an object as a limit does.
func endObject(turn family.Turn) ([]backend.Token, bool) {
	tokens, ok := turn.EndObject()
	for _, tok := range tokens {
		turn.Push(tok)
	}
	return tokens, ok
}

// resumeAt goes on after a report. The prompt with its result ends at start.
func resumeAt(start chattemplate.Start) func(family.Turn) ([]backend.Token, bool) {
	return func(turn family.Turn) ([]backend.Token, bool) {
		p := chattemplate.Prompt{Start: start}
		err := turn.Resume(&p)
		return p.Tokens, err == nil
	}
}

// TestWhatMayCome compares what may come at each place of a turn with a table, the golden file. The table has every
// combination of what a turn can owe and what it can be offered. Combinations with the same rows share them.
//
// A row names the kind of hold that applies, and which of some tokens it allows: the end of the turn, some bytes, and
// the marks of the family. Text that must come follows the word "then". Text that the family writes follows "writes".
func TestWhatMayCome(t *testing.T) {
	form := func(c *family.TurnConfig) { c.Form = grammar.JSONSchema([]byte(`{"type":"object"}`)) }
	call := func(c *family.TurnConfig) { c.MustCall = true }
	report := func(c *family.TurnConfig) {
		c.Native = false
		c.Report = &chattemplate.Tool{Name: reasoning.ReportReasoningName, Strict: true,
			Parameters: []byte(`{"type":"object","properties":{"reasoning":{"type":"string"}},"required":["reasoning"]}`)}
	}
	both := func(a, b func(*family.TurnConfig)) func(*family.TurnConfig) {
		return func(c *family.TurnConfig) { a(c); b(c) }
	}
	owed := []holdCase{
		{name: "nothing", cfg: func(*family.TurnConfig) {}},
		{name: "a form", cfg: form},
		{name: "a call", cfg: call},
		{name: "a form or a call", cfg: both(form, call)},
		{name: "a report", cfg: report},
		{name: "a report and a form", cfg: both(report, form)},
		{name: "a report and a call", cfg: both(report, call)},
		{name: "a form after markers", cfg: func(c *family.TurnConfig) { form(c); c.Markers, c.Native = true, false }},
		{name: "an object with reasoning", json: true, cfg: func(c *family.TurnConfig) {
			c.Native = false
			c.Form = grammar.JSONSchema([]byte(`{"type":"object","properties":{"reasoning":{"type":"string"},"answer":` +
				`{"type":"string"}},"required":["reasoning","answer"],"additionalProperties":false}`))
		}},
	}
	tool := []chattemplate.Tool{{Name: "f", Parameters: []byte(`{"type":"object"}`)}}
	strict := []chattemplate.Tool{{Name: "f", Strict: true, Parameters: []byte(`{"type":"object","properties":` +
		`{"c":{"type":"integer"}},"required":["c"],"additionalProperties":false}`)}}
	two := append(slices.Clone(tool), chattemplate.Tool{Name: "g", Parameters: []byte(`{"type":"object"}`)})
	offered := []holdCase{
		{name: "nothing", cfg: func(*family.TurnConfig) {}},
		{name: "a tool", cfg: func(c *family.TurnConfig) { c.Tools = tool }},
		{name: "one call", cfg: func(c *family.TurnConfig) { c.Tools, c.SingleCall = tool, true }},
		{name: "a tool not to be called", cfg: func(c *family.TurnConfig) { c.Tools, c.NoCalls = tool, true }},
		{name: "a strict tool", cfg: func(c *family.TurnConfig) { c.Tools = strict }},
		{name: "two tools", cfg: func(c *family.TurnConfig) { c.Tools = two }},
		{name: "two tools and the second not admitted", cfg: func(c *family.TurnConfig) {
			c.Tools, c.Admits = two, func(name string) bool { return name == "f" }
		}},
	}
	const (
		analysis, toF    = "<|channel|>analysis<|message|>x", "<|channel|>commentary to=functions.f<|message|>"
		final            = "<|channel|>final<|message|>"
		toReport         = "<|channel|>commentary to=functions.report_reasoning<|message|>"
		thought          = `"reasoning": "x`
		called           = toReport + "{" + thought + `"}<|call|>`
		tagged, reported = "<tool_call>\n" + `{"name": "f", "arguments": {`,
			"<tool_call>\n" + `{"name": "report_reasoning", "arguments": {`
		answered = reported + thought + "\"}}\n</tool_call>"
	)
	inReasoning, inAnswer := chattemplate.StartReasoning, chattemplate.StartAnswer
	var table strings.Builder
	for _, f := range []struct {
		name   string
		config chattemplate.Config
		probes []string
		places []holdPlace
	}{
		{
			"channels", chattemplate.Config{Vocab: vocabtest.With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: 261,
				EOG: []backend.Token{261, 262}}, vocabtest.Harmony()...), Tokenize: vocabtest.Tokenize},
			[]string{"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"},
			[]holdPlace{
				{name: "the start", text: ""}, {name: "a channel", text: "<|channel|>"}, {name: "analysis", text: analysis},
				{name: "after analysis", text: analysis + "<|end|>"},
				{name: "a channel then", text: analysis + "<|end|><|channel|>"},
				{name: "commentary", text: "<|channel|>commentary<|message|>x"},
				{name: "a recipient", text: "<|channel|>commentary to=functions."},
				{name: "a call", text: toF}, {name: "its arguments", text: toF + "{"},
				{name: "after a call", text: toF + `{"c":1}<|call|>`},
				{name: "final", text: final},
				{name: "after final", text: final + "{}<|end|>"},
				{name: "markers", text: final + reasoning.MarkerOpen + "x"},
				{name: "after markers", text: final + reasoning.MarkerOpen + "x" + reasoning.MarkerClose},
				{name: "analysis closed", text: analysis, step: endReasoning},
				{name: "closed, a channel", text: analysis, step: endReasoning, then: "<|channel|>"},
				{name: "a prompt in analysis", start: inReasoning},
				{name: "it closed", start: inReasoning, text: "x", step: endReasoning},
				{name: "a prompt in final", start: inAnswer},
				{name: "no reasoning", skip: true}, {name: "none, a channel", text: "<|channel|>", skip: true},
				{name: "none in analysis", start: inReasoning, skip: true},
				{name: "none in final", start: inAnswer, skip: true},
				{name: "an object closed", text: final + "{" + thought, step: endObject, json: true},
				{name: "a report", text: toReport, report: true},
				{name: "a report closed", text: toReport + "{" + thought, step: endObject, report: true},
				{name: "reported", text: called, step: resumeAt(0), report: true},
				{name: "reported, a channel", text: called, step: resumeAt(0),
					then: "<|channel|>", report: true},
				{name: "reported, analysis", text: called, step: resumeAt(inReasoning),
					report: true},
				{name: "reported, final", text: called, step: resumeAt(inAnswer), report: true},
			},
		},
		{
			"tags", chattemplate.Config{Vocab: vocabtest.With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: 257,
				EOG: []backend.Token{257}}, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
				Tokenize: vocabtest.Tokenize, Source: holdTemplate},
			[]string{"<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"},
			[]holdPlace{
				{name: "the start", text: ""}, {name: "thinking", text: "<think>x"},
				{name: "after thinking", text: "<think>x</think>"}, {name: "a call", text: "<tool_call>"},
				{name: "a function", text: "<tool_call>\n" + `{"name": "`}, {name: "its arguments", text: tagged},
				{name: "after a call", text: tagged + "\"c\": 1}}\n</tool_call>"},
				{name: "a call after thinking", text: "<think>x</think><tool_call>"},
				{name: "markers", text: reasoning.MarkerOpen + "x"},
				{name: "after markers", text: reasoning.MarkerOpen + "x" + reasoning.MarkerClose},
				{name: "thinking closed", text: "<think>x", step: endReasoning},
				{name: "a prompt in thinking", start: inReasoning},
				{name: "it closed", start: inReasoning, text: "x", step: endReasoning},
				{name: "a prompt in the answer", start: inAnswer},
				{name: "no reasoning", skip: true}, {name: "none in thinking", start: inReasoning, skip: true},
				{name: "none in the answer", start: inAnswer, skip: true},
				{name: "an object closed", text: "{" + thought, step: endObject, json: true},
				{name: "a report", text: reported, report: true},
				{name: "a report closed", text: reported + thought, step: endObject, report: true},
				{name: "reported", text: answered, step: resumeAt(0), report: true},
				{name: "reported, a call", text: answered, step: resumeAt(0), then: "<tool_call>", report: true},
				{name: "reported, thinking", text: answered, step: resumeAt(inReasoning), report: true},
				{name: "reported, the answer", text: answered, step: resumeAt(inAnswer), report: true},
			},
		},
	} {
		model, err := families.Open(f.config)
		if err != nil {
			t.Fatal(err)
		}
		grammars := grammar.NewCache(grammar.NewVocabulary(f.config.Vocab, f.config.Tokenize), 0)
		var blocks []string
		titles := make(map[string]string)
		for _, owes := range owed {
			for _, offers := range offered {
				cfg := family.TurnConfig{Grammars: grammars, Native: true,
					FormAt: func(p reader.Place) bool { return p == reader.PlaceAnswer }}
				owes.cfg(&cfg)
				offers.cfg(&cfg)
				if cfg.MustCall && (len(cfg.Tools) == 0 || cfg.NoCalls) {
					continue
				}
				var rows strings.Builder
				for _, place := range f.places {
					if place.applies(&cfg, owes.json) {
						fmt.Fprintf(&rows, "\t%-22s %s\n", place.name, whatMayCome(t, model, &f.config, cfg, &place, owes.json, f.probes))
					}
				}
				block := rows.String()
				if titles[block] == "" {
					blocks = append(blocks, block)
				}
				titles[block] += fmt.Sprintf("%s: %s is owed, %s offered\n", f.name, owes.name, offers.name)
			}
		}
		for _, block := range blocks {
			table.WriteString(titles[block] + block)
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

// whatMayCome takes a turn to a place and describes what may come there.
func whatMayCome(t *testing.T, model family.Family, c *chattemplate.Config, cfg family.TurnConfig, place *holdPlace,
	json bool, probes []string) string {
	t.Helper()
	if place.skip {
		cfg.Effort = reasoning.EffortNone
	}
	turn, err := model.Turn(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := chattemplate.Prompt{Start: place.start}
	if err := turn.Open(&p, place.skip); err != nil {
		refused := &family.RefusedError{}
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return "refused: " + refused.Field
	}
	read := reader.Config{
		Vocab: c.Vocab, Start: p.Start, Emit: func(reasoning.Event) {}, Markers: cfg.Markers, Report: cfg.Report != nil,
		Formed: !cfg.Form.IsZero(),
	}
	if json {
		read.JSON = &reader.JSONConfig{}
	}
	if err := turn.Begin(read); err != nil {
		t.Fatal(err)
	}
	write(turn, c.Vocab, place.text)
	written := p.Tokens
	if place.step != nil {
		tokens, ok := place.step(turn)
		if !ok {
			return "impossible"
		}
		written = tokens
	}
	write(turn, c.Vocab, place.then)
	row := allowed(turn, c.Vocab, probes)
	if len(written) > 0 {
		row = fmt.Sprintf("writes %q, %s", pieces(c.Vocab, written), row)
	}
	return row
}

// pieces returns the text of tokens.
func pieces(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	for _, tok := range tokens {
		b.WriteString(v.Piece(tok))
	}
	return b.String()
}

// write gives a turn the tokens of a text, and the tokens that the family adds to them.
func write(turn family.Turn, v *backend.Vocab, text string) {
	for _, tok := range spell(v, text) {
		pushAllowed(turn, tok)
		for _, next := range turn.Follow() {
			turn.Force(next)
		}
	}
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
		for _, probe := range slices.Concat([]string{"a", "c", "f", "g", "{", "}", `"`, "<", " ", "\n"}, probes) {
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
		words = append(words, fmt.Sprintf("then %q", pieces(v, forced)))
	}
	return strings.Join(words, " ")
}
