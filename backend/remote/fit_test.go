package remote_test

import (
	"fmt"
	"testing"

	"runner/backend"
	"runner/backend/remote"
)

// A vocabulary loses the control tokens that an engine's model does not have, and nothing else.
func TestFit(t *testing.T) {
	const text, control, unused = backend.Normal, backend.Control, backend.Unused
	for _, c := range []struct {
		kinds    []backend.TokenKind
		eos      backend.Token
		eog      []backend.Token
		n, want  int
		describe string
	}{
		{[]backend.TokenKind{text, control, control, unused}, 1, nil, 2, 2, "control tokens"},
		{[]backend.TokenKind{text, control, control}, 1, nil, 0, 3, "a size that is not known"},
		{[]backend.TokenKind{text, control, control}, 1, nil, 4, 3, "a larger engine"},
		{[]backend.TokenKind{text, control, text}, 1, nil, 2, 3, "text"},
		{[]backend.TokenKind{text, control, backend.UserDefined}, 1, nil, 2, 3, "text that is matched whole"},
		{[]backend.TokenKind{text, control, control}, 2, nil, 2, 3, "the end of a sequence"},
		{[]backend.TokenKind{text, control, control}, 1, []backend.Token{1, 2}, 2, 3, "the end of a generation"},
	} {
		config := backend.VocabConfig{Kinds: c.kinds, BOS: backend.NoToken, EOS: c.eos, EOG: c.eog, AddBOS: true}
		for i := range c.kinds {
			config.Pieces = append(config.Pieces, fmt.Sprint("piece ", i))
		}
		v, err := backend.NewVocab(config)
		if err != nil {
			t.Fatal(err)
		}
		got := remote.Fit(v, c.n)
		if got.Len() != c.want {
			t.Errorf("%s: %d tokens, want %d", c.describe, got.Len(), c.want)
		}
		for i := range got.Len() {
			k := backend.Token(i)
			if got.Piece(k) != v.Piece(k) || got.Kind(k) != v.Kind(k) || got.EndsGeneration(k) != v.EndsGeneration(k) {
				t.Errorf("%s: token %d is another one", c.describe, i)
			}
		}
		if got.EOS() != v.EOS() || got.BOS() != v.BOS() || got.AddBOS() != v.AddBOS() {
			t.Errorf("%s: other ends", c.describe)
		}
	}
}
