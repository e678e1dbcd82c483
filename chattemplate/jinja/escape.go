package jinja

import (
	"strconv"
	"strings"
	"unicode"
)

// The one-letter escapes and their values.
const (
	escapeLetters = "\\'\"abfnrtv"
	escapeBytes   = "\\'\"\a\b\f\n\r\t\v"
)

// unescape returns the value of a string literal with Python's escapes. An unknown escape stands for itself.
func unescape(s string, line int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			b.WriteByte(c)
			i++
			continue
		}
		if i++; i >= len(s) {
			syntaxError(line, `\ at end of string`)
		}
		c = s[i]
		i++
		if k := strings.IndexByte(escapeLetters, c); k >= 0 {
			b.WriteByte(escapeBytes[k])
			continue
		}
		digits := 0
		switch c {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		}
		switch {
		case digits > 0:
			if i+digits > len(s) {
				syntaxError(line, `truncated \%c escape`, c)
			}
			n, err := strconv.ParseUint(s[i:i+digits], 16, 32)
			if err != nil {
				syntaxError(line, `truncated \%c escape`, c)
			}
			i += digits
			n, i = joinSurrogates(n, s, i)
			if n > unicode.MaxRune || n >= 0xd800 && n < 0xe000 {
				syntaxError(line, `\%c escape is not a character`, c)
			}
			b.WriteRune(rune(n))
		case c >= '0' && c <= '7':
			n := rune(c - '0')
			for k := 0; k < 2 && i < len(s) && s[i] >= '0' && s[i] <= '7'; k++ {
				n = n*8 + rune(s[i]-'0')
				i++
			}
			b.WriteRune(n)
		case c == '\n':
		case c == 'N':
			syntaxError(line, `\N escapes are not supported; write the character itself`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// joinSurrogates joins a high surrogate with the low one in the \u escape that follows it.
func joinSurrogates(n uint64, s string, i int) (uint64, int) {
	if n < 0xd800 || n >= 0xdc00 || len(s) < i+6 || s[i] != '\\' || s[i+1] != 'u' {
		return n, i
	}
	low, err := strconv.ParseUint(s[i+2:i+6], 16, 32)
	if err != nil || low < 0xdc00 || low >= 0xe000 {
		return n, i
	}
	return (n-0xd800)<<10 + (low - 0xdc00) + 0x10000, i + 6
}
