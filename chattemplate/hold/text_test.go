package hold_test

import (
	"testing"

	"runner/backend"
	"runner/chattemplate/hold"
)

// TestTextEndsAtItsMark checks the boundary between free text and what follows it: a token may end the reasoning, but
// not go on with text that a form would not see. Line breaks after the mark belong to it.
func TestTextEndsAtItsMark(t *testing.T) {
	pieces := []string{"a", "</", "think", ">", "</think>", "</think>\n", ">\n\n", ">x", "</think>x", "> ", "k>\nx", "end",
		"header"}
	kinds := make([]backend.TokenKind, len(pieces))
	for i := range kinds {
		kinds[i] = backend.Normal
	}
	end, header := backend.Token(len(pieces)-2), backend.Token(len(pieces)-1)
	kinds[end], kinds[header] = backend.Control, backend.Control
	v, err := backend.NewVocab(backend.VocabConfig{Pieces: pieces, Kinds: kinds, BOS: backend.NoToken, EOS: end,
		EOG: []backend.Token{end}})
	if err != nil {
		t.Fatal(err)
	}
	token := func(piece string) backend.Token {
		for i, p := range pieces {
			if p == piece {
				return backend.Token(i)
			}
		}
		t.Fatalf("no token %q", piece)
		return 0
	}
	always := []string{"a", "</", "think", ">", "</think>", "</think>\n", ">\n\n"}
	for _, c := range []struct {
		before  []string
		marked  bool
		allowed []string // of the tokens that are not always allowed
	}{
		{nil, true, []string{">x", "> ", "k>\nx"}},
		{[]string{"a", "</"}, true, []string{">x", "> ", "k>\nx"}},
		{[]string{"a", "</", "think"}, true, []string{"k>\nx"}},
		{[]string{"</", "think", "a"}, true, []string{">x", "> ", "k>\nx"}},
		{[]string{"</", "think"}, false, []string{">x", "</think>x", "> ", "k>\nx"}},
	} {
		x := hold.NewText(v, header)
		x.EndsWith("</think>")
		x.Begin(c.marked)
		for _, piece := range c.before {
			x.Accept(token(piece))
		}
		mask := backend.NewMask(v.Len())
		x.Fill(mask)
		for i, piece := range pieces {
			want := false
			for _, p := range append(always, c.allowed...) {
				want = want || p == piece
			}
			if tok := backend.Token(i); x.Allows(tok) != want || mask.Has(tok) != want {
				t.Errorf("after %q, marked %t: %q is allowed %t, in the mask %t, want %t", c.before, c.marked, piece,
					x.Allows(tok), mask.Has(tok), want)
			}
		}
	}
}

// TestTextCopies looks ahead with copies: each is where its own tokens lead, and the original stays where it is.
func TestTextCopies(t *testing.T) {
	pieces := []string{"a", "</", "think", ">", ">x", "end"}
	kinds := make([]backend.TokenKind, len(pieces))
	for i := range kinds {
		kinds[i] = backend.Normal
	}
	v, err := backend.NewVocab(backend.VocabConfig{Pieces: pieces, Kinds: kinds, BOS: backend.NoToken, EOS: 5,
		EOG: []backend.Token{5}})
	if err != nil {
		t.Fatal(err)
	}
	const spans = 4 // ends the mark and goes on
	x := hold.NewText(v)
	x.EndsWith("</think>")
	x.Begin(true)
	x.Accept(1)
	ahead := x.Copy(nil)
	ahead.Accept(2)
	further := ahead.Copy(nil)
	further.Accept(0)
	mask := backend.NewMask(v.Len())
	for _, c := range []struct {
		name  string
		of    hold.Hold
		spans bool
	}{{"the original", x, true}, {"the copy", ahead, false}, {"the copy's copy", further, true},
		{"a reused copy", x.Copy(further), true}, {"the copy, still", ahead, false}} {
		if c.of.Fill(mask); c.of.Allows(spans) != c.spans || mask.Has(spans) != c.spans || mask.Has(5) {
			t.Errorf("%s allows the token: %t, in the mask: %t, want %t", c.name, c.of.Allows(spans), mask.Has(spans), c.spans)
		}
	}
}
