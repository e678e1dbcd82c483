package render

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Clean makes text safe for a terminal. It replaces characters that could move the cursor, change colours or titles,
// paste text or reorder a line with visible symbols. Newlines and tabs stay. Carriage returns, which could overwrite
// a line, are removed.
func Clean(s string) string {
	i := strings.IndexFunc(s, steers)
	if i < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == '\r':
		case !steers(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// CleanLine is Clean for text that must stay on one line.
func CleanLine(s string) string {
	return strings.Join(strings.FieldsFunc(Clean(s), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}

// steers reports whether r could control a terminal: the C0 and C1 control characters except newline and tab, and the
// embeddings, overrides and isolates of the bidirectional algorithm (UAX #9), which can disguise text.
func steers(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// CleanWriter passes cleaned text on to W, a terminal.
type CleanWriter struct{ W io.Writer }

func (c CleanWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.W, Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
