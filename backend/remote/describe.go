package remote

import (
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// longestName is how long the names and versions of an engine may be, in bytes, and longestPath a path.
	longestName = 200
	longestPath = 4096
)

// Describe asks an engine what it is. What it says reaches terminals, logs and metrics, so its texts are clipped, and
// have no line breaks and no control characters.
func Describe(ctx context.Context, e Engine) (Description, error) {
	d, err := e.Describe(ctx)
	if err != nil {
		return d, err
	}
	d.Version, d.Model = tidy(d.Version, longestName), tidy(d.Model, longestName)
	d.Quantization, d.Path = tidy(d.Quantization, longestName), tidy(d.Path, longestPath)
	for i := range d.Names {
		d.Names[i] = tidy(d.Names[i], longestName)
	}
	for i := range d.Notes {
		d.Notes[i] = tidy(d.Notes[i], longestPath)
	}
	return d, nil
}

// tidy clips a text and writes characters that cannot be printed as escapes.
func tidy(s string, most int) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if len(s) <= most && !strings.ContainsFunc(s, odd) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		text := s[:n]
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			quoted := strconv.Quote(text)
			text = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(text) > most {
			b.WriteString("...")
			break
		}
		b.WriteString(text)
		s = s[n:]
	}
	return b.String()
}
