package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameAdvice says what [ValidName] takes.
const NameAdvice = "names have 1 to 256 bytes and no white space, control characters or angle brackets"

// ValidName reports whether s can be the name of a function or of a form in a prompt.
func ValidName(s string) bool {
	return s != "" && len(s) <= 256 && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '<' || r == '>'
	})
}
