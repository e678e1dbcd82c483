package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
)

// TestRunes reads random bytes, valid or not, in random pieces. Invalid bytes become U+FFFD as when ranging over the
// whole string. A rune is sent with the token that completes it.
func TestRunes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	parts := []string{"a", "é", "中", "🙂", "\xf0", "\x9f\x99", "\xff", "\xc3", "\xe4\xb8", "\xed\xa0\x80", "\uFFFD",
		"\xf4\x90\x80\x80", "\x00"}
	for range 5000 {
		var in strings.Builder
		for range r.IntN(12) {
			in.WriteString(parts[r.IntN(len(parts))])
		}
		x := readertest.HarmonyLexicon()
		tokens := x.Encode(in.String(), readertest.Random(r))
		events := readertest.Read(t, readertest.Config{Format: readertest.HarmonyFormat,
			Config: reader.Config{Vocab: x.Vocab(t), Start: chattemplate.StartAnswer}}, tokens)
		if got, want := readertest.Texts(events)[reasoning.Answer], string([]rune(in.String())); got != want {
			t.Fatalf("%q is read as %q, want %q", in.String(), got, want)
		}
	}
	x := readertest.HarmonyLexicon()
	tokens := x.Encode("🙂b", readertest.ByBytes)
	var got readertest.Recorder
	s, err := readertest.NewReader(readertest.Config{Format: readertest.HarmonyFormat,
		Config: reader.Config{Vocab: x.Vocab(t), Start: chattemplate.StartAnswer, Emit: got.Emit}})
	if err != nil {
		t.Fatal(err)
	}
	for i, tok := range tokens {
		s.Push(tok)
		if want := []string{"", "", "", "🙂", "🙂b"}[i]; readertest.Texts(got.Events)[reasoning.Answer] != want {
			t.Errorf("after %d bytes: %q, want %q", i+1, readertest.Texts(got.Events)[reasoning.Answer], want)
		}
	}
}

// TestLongCall checks that a call that does not end becomes text of the answer before the turn ends.
func TestLongCall(t *testing.T) {
	x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
	open, filler := x.Text(`<tool_call>{"`), x.Text(strings.Repeat("x", 1000))
	v := x.Vocab(t)
	tokens := []backend.Token{open}
	for range 1100 {
		tokens = append(tokens, filler)
	}
	events := readertest.Read(t, readertest.Config{Config: reader.Config{Vocab: v, Tools: []string{"f"}}}, tokens)
	if got := len(readertest.Texts(events)[reasoning.Answer]); got != len(`<tool_call>{"`)+1100*1000 {
		t.Errorf("the answer has %d bytes", got)
	}
	for _, e := range events[:len(events)-2] {
		if e.Kind == reasoning.Warning && e.Code == reader.CodeMalformedToolCall {
			return
		}
	}
	t.Error("no warning comes before the end of the turn")
}
