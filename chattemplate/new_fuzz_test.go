package chattemplate_test

import (
	"errors"
	"testing"

	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/readertest"
	"runner/chattemplate/vocabtest"
)

// FuzzNew uses any text as a template. It must be refused, or render or fail without a panic. Its tokens must print as
// its text.
func FuzzNew(f *testing.F) {
	f.Add(chatMLSource)
	f.Add(`{% for m in messages %}{% if m.thinking %}<r>{{ m.thinking }}</r>{% endif %}{{ m.content }}{% endfor %}<think>`)
	vocab := vocabtest.New(f, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<r>")
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 4096 {
			return
		}
		tmpl, err := families.Open(chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: source})
		if err != nil {
			return
		}
		if f := readertest.FormatOf(tmpl); (f.Open == "") != (f.Close == "") {
			t.Errorf("a family without marks: %+v", f)
		}
		p, err := tmpl.Render(messages(system("S"), user("Q"), assistant("T", "A"), user("R")))
		if err == nil && print(vocab, p.Tokens) != p.Text {
			t.Errorf("tokens print as %q, Text is %q", print(vocab, p.Tokens), p.Text)
		}
		_, _ = tmpl.SummaryTurn("S")
	})
}

// TestEndlessTemplate checks that a template that would run for hours is stopped, both in New's probes and in Render.
func TestEndlessTemplate(t *testing.T) {
	tmpl := jinjaTemplate(t,
		`{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a * b %}{% endfor %}{% endfor %}`)
	_, err := tmpl.Render(messages(user("Q")))
	var te *chattemplate.TemplateError
	if !errors.As(err, &te) {
		t.Errorf("err = %v, want a *TemplateError", err)
	}
}
