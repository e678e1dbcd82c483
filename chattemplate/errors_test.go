package chattemplate_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/vocabtest"
)

// A hint follows "; " on the same line. Only the hint for a template that refuses a conversation mentions roles.
func TestTemplateHints(t *testing.T) {
	render := func(source string) error {
		_, err := jinjaTemplate(t, source).Render(messages(user("Q")))
		return err
	}
	_, syntax := families.Open(chattemplate.Config{Vocab: vocabtest.New(t), Tokenize: vocabtest.Tokenize,
		Source: "{{ b"})
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"none", chattemplate.ErrNoTemplate, "give a template"},
		{"syntax", syntax, "correct the template"},
		{"raised", render("{{ raise_exception('no') }}"), "check its roles"},
		{"type", render("{{ 1 + 'a' }}"), "correct the template"},
		{"undefined", render("{{ absent.field }}"), "correct the template"},
	} {
		var hinted interface{ Hint() string }
		if !errors.As(tt.err, &hinted) {
			t.Errorf("%s: %v has no hint", tt.name, tt.err)
			continue
		}
		hint := hinted.Hint()
		if !strings.Contains(hint, tt.want) || strings.HasSuffix(hint, ".") || unicode.IsUpper(rune(hint[0])) {
			t.Errorf("%s: hint %q, want %q in lower case without a full stop", tt.name, hint, tt.want)
		}
		if raised := tt.name == "raised"; strings.Contains(hint, "roles") != raised {
			t.Errorf("%s: hint %q", tt.name, hint)
		}
	}
}
