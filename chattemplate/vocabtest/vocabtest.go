// Package vocabtest makes vocabularies for tests of templates: the 256 bytes, whose ids are their values, and
// control tokens from id 256 on. Only tests import it.
package vocabtest

import (
	"testing"

	"runner/backend"
)

// Harmony returns the names of the control tokens of the harmony format.
func Harmony() []string {
	return []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"}
}

// New returns a vocabulary of the bytes and the control tokens named, without special roles.
func New(t testing.TB, control ...string) *backend.Vocab {
	t.Helper()
	return With(t, backend.VocabConfig{BOS: backend.NoToken, EOS: backend.NoToken}, control...)
}

// With returns the vocabulary of New with the special roles of c. c.Pieces must be empty.
func With(t testing.TB, c backend.VocabConfig, control ...string) *backend.Vocab {
	t.Helper()
	for i := range 256 {
		c.Pieces = append(c.Pieces, string([]byte{byte(i)}))
		c.Kinds = append(c.Kinds, backend.Normal)
	}
	for _, name := range control {
		c.Pieces = append(c.Pieces, name)
		c.Kinds = append(c.Kinds, backend.Control)
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Tokenize appends the tokens of text, which are its bytes. The error is always nil.
func Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	for i := range len(text) {
		dst = append(dst, backend.Token(text[i]))
	}
	return dst, nil
}
