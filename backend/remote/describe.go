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

// tidy writes a text with escapes if it has characters that cannot be printed, and clips it.
func tidy(s string, most int) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if strings.ContainsFunc(s, odd) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
