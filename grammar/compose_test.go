package grammar

import (
	"strings"
	"testing"
)

// takes reports whether a text has a form. It feeds the text byte by byte, and again as a whole.
func takes(t *testing.T, g *Grammar, text string) bool {
	t.Helper()
	m, n := g.Matcher(), g.Matcher()
	ok := true
	for i := range len(text) {
		ok = ok && m.AllowsText(text[i:i+1]) && m.AcceptText(text[i:i+1])
	}
	if whole := n.AcceptText(text); whole != ok {
		t.Fatalf("%q byte by byte: %v, at once: %v", text, ok, whole)
	}
	return ok && m.Done() && n.Done()
}

func TestComposedForms(t *testing.T) {
	v := small(t)
	text := Choices
	list := Sequence(text("["), AnyOf(JSONSchema([]byte(`{"type":"integer","minimum":0}`)), text("x", "xy")),
		Repeat(Sequence(text(","), text("z"))), Optional(text("!")), text("]"))
	for _, c := range []struct {
		form     Source
		yes, not string // separated by spaces
	}{
		{list, "[0] [x] [xy,z] [12,z,z!]", "[] [x,] [y] [x!!] [x"},
		{Sequence(text("<v>"), Without("</v>"), text("</v>")), "<v></v> <v>a</</v> <v>é{</v/v></v>",
			"<v>a</v></v> <v>\xff</v> <v>"},
		{Repeat(text("ab")), "ab abab", "a aba"},
		{Sequence(Except(JSONSchema([]byte(`{"type":"array","items":{"type":"string"}}`)), "</v>"), text("</v>")),
			`[]</v> ["</v"]</v>`, `["</v>"]</v> ["</v>`},
	} {
		g := compile(t, v, c.form)
		for _, s := range strings.Fields(c.yes) {
			if !takes(t, g, s) {
				t.Errorf("%v refuses %q", c.form, s)
			}
		}
		for _, s := range strings.Fields(c.not) {
			if takes(t, g, s) {
				t.Errorf("%v takes %q", c.form, s)
			}
		}
	}
	m := compile(t, v, text("abc", "abd")).Matcher()
	for _, want := range "ab" {
		if b, ok := m.ForcedByte(); !ok || rune(b) != want || !m.AcceptText(string(want)) {
			t.Fatalf("forced %q, %v; want %q", b, ok, want)
		}
	}
	if _, ok := m.ForcedByte(); ok {
		t.Error("one of two ways is forced")
	}
}

func TestComposedFormsThatCannotBe(t *testing.T) {
	for _, form := range []Source{Sequence(), AnyOf(), Without(""), Repeat(Regex("("))} {
		if _, err := Compile(t.Context(), form, small(t)); err == nil || err.Error() == "" {
			t.Errorf("%v: %v", form, err)
		}
	}
}
