package origin

import (
	"unicode"
	"unicode/utf8"
)

// RuneCount returns the number of characters. A byte that is not valid UTF-8 counts as one.
func RuneCount(s string) int { return utf8.RuneCountInString(s) }

// IsASCII reports whether all characters of s are ASCII.
func IsASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// RuneOffset returns the byte offset of character n, or len(s) if there are n characters or fewer.
func RuneOffset(s string, n int) int {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	return i
}

// IsSpace reports whether c is white space for str.isspace.
func IsSpace(c rune) bool {
	return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f
}

// IsWord reports whether c is a letter, a number or an underscore.
func IsWord(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c)
}
