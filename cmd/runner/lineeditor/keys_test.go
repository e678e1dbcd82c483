package lineeditor

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode returns the keys of some bytes that arrive in pieces of a size. Text that arrived in pieces is joined.
func decode(b []byte, piece int) []key {
	d := decoder{limit: 1000}
	var all []key
	drain := func() {
		for k, ok := d.next(); ok; k, ok = d.next() {
			if last := len(all) - 1; k.kind == keyText && last >= 0 && all[last].kind == keyText {
				all[last].text += k.text
				continue
			}
			all = append(all, k)
		}
	}
	for chunk := range slices.Chunk(b, piece) {
		d.feed(chunk)
		drain()
	}
	for d.patience() > 0 {
		d.giveUp()
		drain()
	}
	return all
}

func TestKeys(t *testing.T) {
	text := func(s string) key { return key{kind: keyText, text: s} }
	pasted := func(s string) key { return key{kind: keyPaste, text: s} }
	for in, want := range map[string][]key{
		"aéb\r":                                 {text("aéb"), {kind: keyEnter}},
		"\n":                                    {{kind: keyEnter}},
		"\x1b\r\x1b\n\x1b[13;2u":                {{kind: keyNewline}, {kind: keyNewline}, {kind: keyNewline}},
		"\x1b[A\x1bOB\x1b[1;5D\x1bf":            {{kind: keyUp}, {kind: keyDown}, {kind: keyWordLeft}, {kind: keyWordRight}},
		"\x1b[1;2C\x1b[3~\x1b[H":                {{kind: keyRight}, {kind: keyDelete}, {kind: keyHome}},
		"\x1b":                                  {{kind: keyEscape}},
		"\x1b\x1b[A":                            {{kind: keyEscape}, {kind: keyUp}},
		"\x1b[":                                 {},
		"\x1b[12;7Rx":                           {{}, text("x")}, // a position that nobody asked for
		"\x1b]11;rgb:0/0/0\x07x":                {{}, text("x")},
		"\x1b]11;rgb:0/0/0\x1b\\x":              {{}, text("x")},
		"\x1b[[Ax":                              {{}, text("x")},
		"\x1b[\x03":                             {{}, {kind: keyInterrupt}},
		"\x1béx":                                {{}, text("x")},
		"a\xffb\xc3":                            {text("a\uFFFDb")}, // the last byte may still become a character
		"a\xc3(":                                {text("a\uFFFD(")},
		"\x85":                                  {text("\uFFFD")},
		"\u0085ÿ":                               {text("\u0085ÿ")},
		"\x1b[200~a\r\nb\rc\x00\x1b[201~":       {pasted("a\nb\nc")},
		"\x1b[200~\x1b[201~x":                   {pasted(""), text("x")},
		"\x1b[200~\x1b[31mred\x03\xff\x1b[201~": {pasted("\x1b[31mred\x03\uFFFD")},
		"\x1b[200~no end":                       {pasted("no end")},
		"\x1b[200~" + strings.Repeat("x", 1001) + "\x1b[201~y": {{kind: keyPaste, over: true}, text("y")},
		"\x1b[" + strings.Repeat("1", 300) + "x":               {{}, text(strings.Repeat("1", 46) + "x")},
	} {
		for _, piece := range []int{1, 2, 5, len(in)} {
			if got := decode([]byte(in), piece); !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: %v, want %v", in, piece, got, want)
			}
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("aéb\x1b[A\x1b[200~x\r\x1b[201~\xff\x1bO"), uint8(1))
	f.Add([]byte("\x1b]0;x\x1b\\\x1b[[A\x1b[1;5C\x1b\x1b\x7f"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		whole, split := decode(b, max(len(b), 1)), decode(b, max(int(piece), 1))
		if !slices.Equal(whole, split) {
			t.Fatalf("whole %v, in pieces %v", whole, split)
		}
		size := 0
		for _, k := range whole {
			if !utf8.ValidString(k.text) {
				t.Fatalf("%q is not UTF-8", k.text)
			}
			if k.kind == keyText && strings.IndexFunc(k.text, func(r rune) bool { return r < 0x20 || r == 0x7f }) >= 0 {
				t.Fatalf("typed text %q has a control character", k.text)
			}
			size += utf8.RuneCountInString(k.text)
		}
		if size > len(b) {
			t.Fatalf("%d characters from %d bytes", size, len(b))
		}
	})
}
