package hub

import (
	"fmt"
	"log/slog"
	"strings"
)

// Token is a user's secret. Nothing prints it: fmt, encoding/json and log/slog all show a mask.
type Token struct{ secret string }

const mask = "[token]"

// NewToken makes a token of what a user wrote, without white space around it. It refuses what cannot be in a header,
// and does not repeat it.
func NewToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	for _, r := range text {
		if r <= ' ' || r > '~' {
			return Token{}, fmt.Errorf("the token has a character that no token has, at byte %d", strings.IndexRune(text, r))
		}
	}
	return Token{text}, nil
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.secret == "" }

// Format implements fmt.Formatter for every verb.
func (t Token) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(mask)) }

// MarshalText implements encoding.TextMarshaler, which encoding/json uses.
func (t Token) MarshalText() ([]byte, error) { return []byte(mask), nil }

// LogValue implements slog.LogValuer.
func (t Token) LogValue() slog.Value { return slog.StringValue(mask) }
