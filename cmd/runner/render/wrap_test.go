package render

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// wrapped breaks a text that comes in some pieces.
func wrapped(width int, pieces ...string) string {
	w := &wrapper{width: width}
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(w.add(p))
	}
	return b.String() + w.flush()
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		width    int
		in, want string
	}{
		{10, "one two three four", "one two\nthree four"},
		{10, "one two\nthree\n\nfour", "one two\nthree\n\nfour"},
		{10, "0123456789 abc", "0123456789\nabc"},
		{10, "0123456789\nabc", "0123456789\nabc"},
		{10, "one  two  three", "one  two\nthree"},
		{10, "a 0123456789abcdef b", "a\n0123456789\nabcdef b"},
		{10, "    indented line", "    indent\ned line"},
		{10, "你好世界你好世界", "你好世界你\n好世界"},
		{10, "你好世界你。好", "你好世界\n你。好"}, // a full stop does not begin a line
		{10, "你好世界「你好", "你好世界\n「你好"}, // a quote does not end one
		{10, "abc 你好世界", "abc 你好世\n界"},
		{10, "👨‍👩‍👧👍🏽🇫🇷☺️🇩🇪x", "👨‍👩‍👧👍🏽🇫🇷☺️🇩🇪\nx"},
		{4, "e\u0301e\u0301e\u0301 e\u0301", "e\u0301e\u0301e\u0301\ne\u0301"},
		{10, "a\tb\tc", "a\tb\nc"},
		{6, "abcdef   \nb", "abcdef\nb"},
		{8, "trail     ", "trail   "},
		{3, "      x", "   \nx"},
		// Items of lists.
		{12, "- one two three\nfour five six", "- one two\n  three\nfour five\nsix"},
		{16, "  * one two three four", "  * one two\n    three four"},
		{12, "1. one two three", "1. one two\n   three"},
		{15, "10) one two three", "10) one two\n    three"},
		{12, "-\none two three", "-\none two\nthree"},
		{5, "- one two", "- one\ntwo"}, // too narrow
		{12, "- 0123456789abc", "-\n  0123456789\n  abc"},
		{10, "1.5 one two - three", "1.5 one\ntwo -\nthree"},
		// Code is left as it is, and the text after it is broken again.
		{10, "see:\n```go\nfunc main() { run() }\n```\nand go on from there",
			"see:\n```go\nfunc main() { run() }\n```\nand go on\nfrom there"},
		{10, "~~~ a b c d e f g\nfunc main() {}\n~~~~\nand go on from",
			"~~~ a b c d e f g\nfunc main() {}\n~~~~\nand go on\nfrom"},
		{10, "```\n``` no end\n``\n```` \nand go on from", "```\n``` no end\n``\n```` \nand go on\nfrom"},
		{10, "  ```\n  a b c d e f g\n  ```\nand go on from", "  ```\n  a b c d e f g\n  ```\nand go on\nfrom"},
		{10, "```code``` is in the line", "```code```\nis in the\nline"},
		{10, "```a b``` is in the line\nand go on from", "```a b``` is in the line\nand go on\nfrom"},
		{10, "see ```code and more of it", "see\n```code\nand more\nof it"},
	} {
		if got := wrapped(c.width, c.in); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

// unwrap takes out what the wrapper put into a text. It returns false if the wrapper changed anything else: a break is
// in the place of white space, or inside a word.
func unwrap(in, out string) bool {
	for out != "" {
		switch {
		case in != "" && in[0] == out[0]:
			in = in[1:]
		case out[0] != '\n':
			return false
		default:
			if in = strings.TrimLeft(in, " \t"); strings.HasPrefix(in, "\n") {
				in = in[1:] // white space that did not fit at the end of a line
			} else {
				out = "\n" + strings.TrimLeft(out[1:], " ") // an item goes on below its text
			}
		}
		out = out[1:]
	}
	return strings.Trim(in, " \t") == ""
}

// columns is the width of a line, as another library measures it.
func columns(line string) int {
	at := 0
	for rest, state := line, -1; rest != ""; {
		var cluster string
		var width int
		if cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state); cluster == "\t" {
			width = tabStop - at%tabStop
		}
		at += width
	}
	return at
}

var wrapPieces = []string{" ", " ", " ", " ", "  ", "\t", "\n", "\n\n", "a", "the", "word", "longer", "hyphen-ated",
	"x.", strings.Repeat("long", 10), "世", "界。", "「", "안녕", "こんにちは", "👍🏽", "👨‍👩‍👧", "🇫🇷", "é", "e\u0301", "สวัสดี",
	"(", "...", "*", "\n- ", "\n10. "}

func randomText() (text string, pieces []string) {
	var b strings.Builder
	for range 1 + rand.IntN(40) {
		b.WriteString(wrapPieces[rand.IntN(len(wrapPieces))])
	}
	text = b.String()
	for rest := []rune(text); len(rest) > 0; {
		n := 1 + rand.IntN(min(len(rest), 8))
		pieces = append(pieces, string(rest[:n]))
		rest = rest[n:]
	}
	return text, pieces
}

// Whatever the text and its pieces are, the wrapper only adds breaks, no line is too wide, and no more than a word is
// held back.
func TestWrapAnyText(t *testing.T) {
	for range 5_000 {
		text, pieces := randomText()
		width := 2 + rand.IntN(30)
		whole := wrapped(width, text)
		if !unwrap(text, whole) {
			t.Fatalf("%q in %d columns is %q", text, width, whole)
		}
		for line := range strings.Lines(whole) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%q in %d columns has a line of %d: %q", text, width, n, line)
			}
		}
		w := &wrapper{width: width}
		given, shown := "", ""
		for _, p := range pieces {
			given += p
			shown += w.add(p)
			complete := strings.TrimRight(given[:strings.LastIndexAny(given, " \t\n")+1], " \t\n")
			if !unwrapsTo(shown, complete) {
				t.Fatalf("%q in %d columns: %q is held back, and only %q is shown", given, width, complete, shown)
			}
		}
		if shown += w.flush(); shown != whole {
			t.Fatalf("%q in pieces %q is %q, want %q", text, pieces, shown, whole)
		}
	}
}

// unwrapsTo reports whether what was shown has at least a text.
func unwrapsTo(shown, text string) bool {
	bare := strings.NewReplacer(" ", "", "\t", "", "\n", "")
	return strings.HasPrefix(bare.Replace(shown), bare.Replace(text))
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three\n```\ncode\n```\n", 8, 3)
	f.Add("世界\u0301 \u200d\U0001F1E6\U0001F1E6\U0001F1E6", 2, 1)
	f.Fuzz(func(t *testing.T, text string, width, at int) {
		if width < 2 || width > 200 || at < 0 || at > len(text) || !utf8.ValidString(text) || !utf8.ValidString(text[:at]) {
			return
		}
		text = Clean(text)
		at = min(at, len(text))
		if !utf8.ValidString(text[:at]) {
			return
		}
		whole := wrapped(width, text)
		if !unwrap(text, whole) {
			t.Fatalf("%q in %d columns is %q", text, width, whole)
		}
		if split := wrapped(width, text[:at], text[at:]); split != whole {
			t.Fatalf("%q and %q make %q, want %q", text[:at], text[at:], split, whole)
		}
	})
}
