package chattemplate_test

import (
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
)

// harmonyNames are harmony's special tokens.
var harmonyNames = []string{
	"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>",
}

// byteVocab is a vocabulary of the 256 bytes and the control tokens named, from id 256.
func byteVocab(t testing.TB, control ...string) *backend.Vocab {
	t.Helper()
	return newVocab(t, backend.VocabConfig{BOS: backend.NoToken, EOS: backend.NoToken}, control...)
}

func newVocab(t testing.TB, c backend.VocabConfig, control ...string) *backend.Vocab {
	t.Helper()
	for i := range 256 {
		c.Pieces = append(c.Pieces, string([]byte{byte(i)}))
		c.Kinds = append(c.Kinds, backend.Normal)
	}
	for _, n := range control {
		c.Pieces = append(c.Pieces, n)
		c.Kinds = append(c.Kinds, backend.Control)
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// byBytes tokenizes text as its bytes.
func byBytes(dst []backend.Token, text string) ([]backend.Token, error) {
	for i := range len(text) {
		dst = append(dst, backend.Token(text[i]))
	}
	return dst, nil
}

// print joins the pieces of tokens.
func print(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(v.Piece(t))
	}
	return b.String()
}

// controls returns the control tokens among tokens, with a mark for each stretch of text between them.
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

func mustNew(t testing.TB, c chattemplate.Config) *chattemplate.Template {
	t.Helper()
	tmpl, err := chattemplate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func mustRender(t testing.TB, tmpl *chattemplate.Template, c chattemplate.Conversation) chattemplate.Prompt {
	t.Helper()
	p, err := tmpl.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
