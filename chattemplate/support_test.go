package chattemplate_test

import (
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/chattemplate/readertest"
)

// print joins the pieces of tokens.
func print(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(v.Piece(t))
	}
	return b.String()
}

// controls returns the control tokens among tokens, with a mark for each section of text between them.
func controls(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	text := false
	for _, t := range tokens {
		if v.Kind(t) == backend.Control {
			b.WriteString(v.Piece(t))
			text = false
		} else if !text {
			b.WriteByte('.')
			text = true
		}
	}
	return b.String()
}

func mustNew(t testing.TB, c chattemplate.Config) family.Family {
	t.Helper()
	tmpl, err := families.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func mustRender(t testing.TB, tmpl family.Family, c chattemplate.Conversation) chattemplate.Prompt {
	t.Helper()
	p, err := tmpl.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func isHarmony(f family.Family) bool { return readertest.FormatOf(f) == readertest.HarmonyFormat }

// endReasoning returns the tokens that lead from reasoning to the next choice of the model.
func endReasoning(f family.Family) []backend.Token {
	tokens := f.OpenAnswer(chattemplate.StartReasoning)
	if isHarmony(f) {
		tokens = tokens[:len(tokens)-len(f.OpenAnswer(chattemplate.StartTurn))]
	}
	return tokens
}
