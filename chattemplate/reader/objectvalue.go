package reader

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"runner/reasoning"
)

// string begins a string that is decoded. The gap ends with its quote.
func (r *Object) string() {
	r.Drop(1)
	r.gap, r.Place = r.gap[:0], placeString
}

// stringText takes text up to a quote or an escape.
func (r *Object) stringText(text string) int {
	n := 0
	for n < len(text) && text[n] != '"' && text[n] != '\\' {
		n++
	}
	if n > 0 {
		r.loneHalf()
		r.Text(text[:n])
	}
	if n == len(text) {
		return n
	}
	if text[n] == '\\' {
		r.Place, r.escape[0], r.nesc = placeEscape, '\\', 1
		return n + 1
	}
	r.loneHalf()
	r.gap, r.quoted, r.Place = append(r.gap[:0], '"'), true, placeAfter
	return n + 1
}

// The characters after a backslash, and what they stand for.
const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

// escapeByte takes a byte of an escape and returns 1. It returns 0 if c cannot be part of the escape.
func (r *Object) escapeByte(c byte) int {
	if r.nesc == 1 {
		if i := strings.IndexByte(escapes, c); i >= 0 {
			r.loneHalf()
			r.char(escaped[i:i+1], 2)
			r.Place = placeString
			return 1
		}
		if c != 'u' {
			r.badEscape()
			return 0
		}
	} else if !isHex(c) {
		r.badEscape()
		return 0
	}
	r.escape[r.nesc] = c
	r.nesc++
	if r.nesc == len(r.escape) {
		r.Place = placeString
		u, _ := strconv.ParseUint(string(r.escape[2:]), 16, 16) // four hex digits
		r.codeUnit(rune(u))
	}
	return 1
}

// codeUnit takes \uXXXX, which is a character or half of a surrogate pair.
func (r *Object) codeUnit(u rune) {
	if r.high != 0 {
		if c := utf16.DecodeRune(r.high, u); c != utf8.RuneError {
			r.high = 0
			r.rune(c, 12)
			return
		}
		r.loneHalf()
	}
	if u >= 0xD800 && u < 0xDC00 {
		r.high = u
		return
	}
	r.rune(u, 6)
}

// loneHalf sends U+FFFD for half of a surrogate pair whose other half did not come.
func (r *Object) loneHalf() {
	if r.high != 0 {
		r.high = 0
		r.rune(utf8.RuneError, 6)
	}
}

// badEscape sends an unknown escape as text.
func (r *Object) badEscape() {
	r.loneHalf()
	r.Text(string(r.escape[:r.nesc]))
	r.Place = placeString
}

// raw begins a value that is kept as JSON text. c is its first byte.
func (r *Object) raw(c byte) {
	r.gap, r.Place, r.depth, r.begun, r.inString, r.escaped = r.gap[:0], placeRaw, 0, false, false, false
	if r.rawText(string([]byte{c})) == 0 {
		r.gapByte(c)
	}
}

// rawText takes the text of a value that is kept as JSON text.
func (r *Object) rawText(text string) int {
	for i := range len(text) {
		c := text[i]
		switch {
		case r.escaped:
			r.escaped = false
		case r.inString:
			r.escaped = c == '\\'
			if r.inString = c != '"'; !r.inString && r.depth == 0 {
				return r.endRaw(text[:i+1])
			}
		case r.depth == 0 && (IsSpace(c) || c == ',' || c == '}' || c == ']' ||
			r.begun && (c == '"' || c == '{' || c == '[')):
			return r.endRaw(text[:i])
		case c == '"':
			r.inString = true
		case c == '{' || c == '[':
			r.depth++
		case c == '}' || c == ']':
			if r.depth--; r.depth == 0 {
				return r.endRaw(text[:i+1])
			}
		}
		r.begun = true
	}
	r.Text(text)
	return len(text)
}

func (r *Object) endRaw(text string) int {
	r.Text(text)
	r.end()
	r.Place, r.gap, r.quoted = placeAfter, r.gap[:0], false
	return len(text)
}

// scalarByte takes the last byte of the gap, which is of a score or of reasoning that is not a string.
func (r *Object) scalarByte(c byte) {
	switch {
	case IsSpace(c) || strings.IndexByte(`,{}[]"`, c) >= 0:
		r.gap = r.gap[:len(r.gap)-1]
		r.settle(true)
		r.Place = placeAfter
		r.gapByte(c)
	case len(r.gap) > maxScalar:
		r.Warn(CodeMalformedObject)
		r.begin(reasoning.Reasoning)
		r.Text(string(r.gap))
		r.gap, r.Place, r.depth, r.begun = r.gap[:0], placeRaw, 0, true
	}
}

// settle takes the gap as a scalar, or as its beginning if not whole. A number is the score, null is nothing, and
// anything else is reasoning.
func (r *Object) settle(whole bool) {
	var score float64
	text := string(r.gap)
	switch {
	case whole && text == "null" || !whole && strings.HasPrefix("null", text):
		r.Drop(len(text))
	case whole && r.member == memberScore && json.Unmarshal(r.gap, &score) == nil:
		if !r.muted {
			r.s.score, r.s.scored = score, true
		}
		r.Drop(len(text))
	case !whole && r.member == memberScore && strings.Trim(text, "+-.eE0123456789") == "":
		r.Drop(len(text))
	default:
		r.Warn(CodeMalformedObject)
		r.begin(reasoning.Reasoning)
		r.Text(text)
		r.end()
	}
	r.gap = r.gap[:0]
}

func (r *Object) char(c string, n int) {
	if !r.muted {
		r.s.Out.char(c, n)
	}
}

func (r *Object) rune(c rune, n int) {
	if !r.muted {
		r.s.Out.rune(c, n)
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
