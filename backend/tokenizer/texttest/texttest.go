// Package texttest generates texts that are hard to tokenize, for tests of code that splits text.
package texttest

import (
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Random returns a valid UTF-8 text of random parts: words of several scripts, code, numbers, runs of spaces and
// newlines, contractions, combining marks, emoji and single characters from all of Unicode.
func Random(r *rand.Rand, parts int) string {
	words := []string{
		"the", "The", "THE", "HelloWorld", "iPhone", "naïve", "Straße", "ÉCOLE", "école", "don't", "DON'T", "we'Ve", "I'll",
		"'s", "'S", "'ſ",
		"'x", "it's'll", "日本語", "中文A", "a中B", "русский", "РУССКИЙ", "हिन्दी", "ไทย", "عربي", "e\u0301", "\u0301", "\u0301A",
		"ǅ", "ʰ", "ªº",
		"1", "12", "123", "1234567", "٣٤", "½", "Ⅷ", "x1y2", "3.14", "0xFF",
		" ", "  ", "   ", "\t", "\t\t", "\n", "\r\n", "\n\n", " \n", "\n ", " \n \n  ", "\u00a0", "\u3000", "\u2028",
		"\u0085", "\v", "\x1c", "\u200b",
		".", "...", "!?", "//", "/*", "*/\n", "};\n", "->", "==", "_", "__init__", "<div>", "</div>\n/", "#!/", "€", "™", "–",
		"👍🏽", "👨‍👩‍👧",
		"\x00", "\x7f", "\ufffd", "if (x) {\n\treturn 1;\n}\n",
	}
	var b strings.Builder
	for range parts {
		switch r.IntN(12) {
		case 0:
			if c := rune(r.IntN(unicode.MaxRune)); utf8.ValidRune(c) {
				b.WriteRune(c)
			}
		case 1:
			b.WriteRune(rune(r.IntN(0x3000)))
		case 2, 3:
			b.WriteByte(' ')
			fallthrough
		default:
			b.WriteString(words[r.IntN(len(words))])
		}
	}
	return b.String()
}
