package jinja

import (
	"strconv"
	"strings"
)

// unescape returns the value of a string literal with the escapes that Python and Go share. Octal escapes have three
// digits. An unknown escape stands for itself.
func unescape(s string, line int) string {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(s, `\`)
		b.WriteString(text)
		if !found {
			return b.String()
		}
		// The lexer ends no literal with a single backslash.
		switch c := rest[0]; {
		case c == '\'' || c == '"':
			b.WriteByte(c)
			rest = rest[1:]
		case c == '\n':
			rest = rest[1:]
		case c == 'N':
			syntaxError(line, `\N escapes are not supported; write the character itself`)
		case strings.IndexByte(`abfnrtv\xuU01234567`, c) >= 0:
			char, _, tail, err := strconv.UnquoteChar(`\`+rest, 0)
			if err != nil {
				syntaxError(line, `a \%c escape is not valid`, c)
			}
			b.WriteRune(char)
			rest = tail
		default:
			b.WriteByte('\\')
		}
		s = rest
	}
}
