package backendtest

import (
	"math/rand/v2"
	"strings"

	"runner/backend"
)

func testVocabulary(h *harness) {
	v := h.v
	if v != h.m.Vocab() {
		h.Error("Vocab returns another vocabulary each time")
	}
	ends, empty := 0, 0
	for i := range v.Len() {
		t := backend.Token(i)
		if v.EndsGeneration(t) {
			ends++
		}
		if v.Piece(t) == "" && v.Kind(t) != backend.Unused && v.Kind(t) != backend.Control {
			empty++
		}
	}
	if ends == 0 {
		h.Error("no token ends generation")
	}
	if empty > 0 {
		h.Errorf("%d tokens of text have no bytes", empty)
	}
	if e := v.EOS(); e != backend.NoToken && !v.EndsGeneration(e) {
		h.Errorf("the end-of-sequence token %d does not end generation", e)
	}
	for text, t := range v.Specials {
		if v.Piece(t) != text {
			h.Errorf("special token %d is %q and its piece is %q", t, text, v.Piece(t))
		}
	}
	_, harmony := v.Special("<|return|>")
	if end, ok := v.Special("<|end|>"); harmony && ok && v.EndsGeneration(end) {
		h.Error("<|end|> ends generation, but it should only end a message")
	}
}

// texts yields fixed and random strings: words, numbers, scripts, spaces, control characters, broken UTF-8.
func texts(names []string, yield func(string) bool) {
	fixed := []string{"", " ", "\n", "\r\n\r\n", "Hello, world!", "  two  spaces ", "\ttabs\t\t", "don't can't WE'LL",
		"12345678901234567890",
		"naïve café Ünïcödé", "Привет, мир", "中文字符測試", "日本語テキスト", "한국어", "العربية", "हिन्दी", "🙂🙃👩‍👩‍👧‍👦🏳️‍🌈",
		"a\u0301e\u0308", "\x00\x01\x7f",
		"\xff\xfe", "ab\xc3", "\xe4\xb8", "\xf0\x9f\x99", "x\x80y", "<|>", "<|", "|>", "<", "<|endoftext",
		"{\"a\": [1, 2.5e3, null]}",
		strings.Repeat("a", 5000), strings.Repeat("中", 3000), strings.Repeat(" ", 3000), strings.Repeat("!", 5000),
		strings.Repeat("ab ", 3000),
		strings.Repeat("\n", 2000), "\u00a0\u2003\u3000", "\ufeffbom"}
	for _, s := range fixed {
		if !yield(s) {
			return
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	parts := append([]string{" ", "  ", "\n", "the", "The", "ing", "'s", "9", "42", ".", "...", "é", "中", "🙂", "\xff",
		"\xc3", "<|", "|>", "\t", "_", "A"}, names...)
	for range 400 {
		var b strings.Builder
		for range 1 + r.IntN(20) {
			if r.IntN(4) == 0 {
				b.WriteByte(byte(r.IntN(256)))
			} else {
				b.WriteString(parts[r.IntN(len(parts))])
			}
		}
		if !yield(b.String()) {
			return
		}
	}
}

// testRoundTrip checks that the pieces of a text's tokens give the text back, byte for byte.
func testRoundTrip(h *harness) {
	texts(nil, func(s string) bool {
		tokens, err := h.m.Tokenize(nil, s)
		if err != nil {
			h.Errorf("Tokenize of %q: %v", short(s), err)
			return true
		}
		var b strings.Builder
		for _, t := range tokens {
			b.WriteString(h.v.Piece(t))
		}
		// Some vocabularies put a space before the first word.
		if got := b.String(); got != s && strings.TrimPrefix(got, " ") != s {
			h.Errorf("the tokens of %q spell %q", short(s), short(got))
		}
		return true
	})
	prefix := []backend.Token{5, 6}
	got, err := h.m.Tokenize(prefix, "abc")
	if err != nil || len(got) < 3 || got[0] != 5 || got[1] != 6 {
		h.Errorf("Tokenize appends to dst: %v, %v", got, err)
	}
}

// testNeverControl checks that no text becomes a control token, in particular not the name of one.
func testNeverControl(h *harness) {
	var names []string
	for text, t := range h.v.Specials {
		if h.v.Kind(t) == backend.Control {
			names = append(names, text)
		}
	}
	if len(names) == 0 {
		h.Skip("the vocabulary has no control tokens")
	}
	check := func(s string) bool {
		tokens, err := h.m.Tokenize(nil, s)
		if err != nil {
			h.Errorf("Tokenize of %q: %v", short(s), err)
		}
		for _, t := range tokens {
			if k := h.v.Kind(t); k == backend.Control || k == backend.Unused {
				h.Errorf("%q became the control token %q", short(s), h.v.Piece(t))
				break
			}
		}
		return true
	}
	for i, name := range names {
		other := names[(i+1)%len(names)]
		for _, s := range []string{name, " " + name, name + " ", "x" + name + "y", name + other, name + name, name[:1] + name,
			other[:len(other)-1] + name} {
			check(s)
		}
	}
	texts(names, check)
}

func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
