// Package scan reads JSON without allocating memory. It is for the events of streams, which come with every token.
//
// A [Reader] goes through a text from left to right. The caller says what it expects and skips the rest. The first
// mistake stops the reader: all later calls return zero values, and [Reader.End] reports it. The reader is as strict as
// RFC 8259. It is not for texts that have to be written again or whose form is unknown.
package scan

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrInvalid means that a text is not JSON, or not what was expected.
var ErrInvalid = errors.New("the JSON is invalid or not what was expected")

// maxDepth is how deep objects and arrays may be nested.
const maxDepth = 64

// maxName is the longest string that String unescapes. Longer ones count as a mistake.
const maxName = 256

// Reader reads one JSON text.
type Reader struct {
	data  []byte
	at    int
	depth int
	bad   bool
	// text holds a string without its escapes.
	text [maxName + utf8.UTFMax]byte
}

// Reset begins a new text. It stays the caller's and must not change while it is read.
func (r *Reader) Reset(data []byte) { r.data, r.at, r.depth, r.bad = data, 0, 0, false }

// End returns ErrInvalid if there was a mistake or if something follows the value.
func (r *Reader) End() error {
	if r.space(); r.bad || r.at != len(r.data) {
		return ErrInvalid
	}
	return nil
}

// Fail stops the reader: what it read is not what the caller expected.
func (r *Reader) Fail() { r.bad = true }

// Kind returns the first byte of the next value, which tells its kind, or 0 at the end or after a mistake.
func (r *Reader) Kind() byte {
	if r.space(); r.bad || r.at >= len(r.data) {
		return 0
	}
	return r.data[r.at]
}

// Null skips a null and reports whether there was one.
func (r *Reader) Null() bool {
	if r.Kind() != 'n' {
		return false
	}
	r.word("null")
	return !r.bad
}

// Object reads an object. It calls field at the value of each member. The name is valid until field reads; field must
// read exactly one value.
func (r *Reader) Object(field func(name []byte)) {
	if !r.open('{') {
		return
	}
	for first := true; !r.bad; first = false {
		if r.Kind() == '}' && first {
			break
		}
		name := r.String()
		r.take(':')
		if r.bad {
			return
		}
		field(name)
		if r.Kind() == '}' {
			break
		}
		r.take(',')
	}
	r.close('}')
}

// Array reads an array. It calls element at each element, which must read exactly one value.
func (r *Reader) Array(element func()) {
	if !r.open('[') {
		return
	}
	for first := true; !r.bad; first = false {
		if r.Kind() == ']' && first {
			break
		}
		element()
		if r.Kind() == ']' {
			break
		}
		r.take(',')
	}
	r.close(']')
}

// Int reads a whole number. A number with a fraction or an exponent is a mistake.
func (r *Reader) Int() int64 {
	text := r.number()
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		r.bad = true
		return 0
	}
	return n
}

// Float reads a number.
func (r *Reader) Float() float64 {
	text := r.number()
	if len(text) > 64 {
		r.bad = true
	}
	if r.bad {
		return 0
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		r.bad = true
		return 0
	}
	return x
}

// String reads a string of at most 256 bytes without its escapes. The result is valid until the next string is read. A
// surrogate without its other half becomes U+FFFD, as in encoding/json; so does invalid UTF-8.
func (r *Reader) String() []byte {
	if r.Kind() != '"' {
		r.bad = true
		return nil
	}
	r.at++
	start := r.at
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			text := r.data[start:r.at]
			r.at++
			if len(text) > maxName {
				r.bad = true
				return nil
			}
			return text
		case c == '\\' || c >= utf8.RuneSelf:
			return r.unescape(start)
		case c < ' ':
			r.bad = true
			return nil
		}
		r.at++
	}
	r.bad = true
	return nil
}

// unescape reads the rest of a string that has escapes or is not ASCII. It began at start.
func (r *Reader) unescape(start int) []byte {
	out := append(r.text[:0], r.data[start:min(r.at, start+maxName+1)]...)
	for r.at < len(r.data) && len(out) <= maxName {
		c := r.data[r.at]
		switch {
		case c == '"':
			r.at++
			return out
		case c < ' ':
			r.bad = true
			return nil
		case c == '\\':
			out = utf8.AppendRune(out, r.escape())
		case c < utf8.RuneSelf:
			out = append(out, c)
			r.at++
		default:
			c, size := utf8.DecodeRune(r.data[r.at:])
			out = utf8.AppendRune(out, c)
			r.at += size
		}
		if r.bad {
			return nil
		}
	}
	r.bad = true
	return nil
}

// escape reads an escape in a string.
func (r *Reader) escape() rune {
	if r.at+1 >= len(r.data) {
		r.bad = true
		return 0
	}
	c := r.data[r.at+1]
	r.at += 2
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		first := r.hex(r.at)
		if first < 0 {
			r.bad = true
			return 0
		}
		r.at += 4
		if utf16.IsSurrogate(first) && r.at+1 < len(r.data) && r.data[r.at] == '\\' && r.data[r.at+1] == 'u' {
			if both := utf16.DecodeRune(first, r.hex(r.at+2)); both != utf8.RuneError {
				r.at += 6
				return both
			}
		}
		return first // AppendRune makes U+FFFD of a surrogate
	}
	r.bad = true
	return 0
}

// hex reads four hexadecimal digits at a place. It returns -1 if there are none.
func (r *Reader) hex(at int) rune {
	if at+4 > len(r.data) {
		return -1
	}
	var x rune
	for _, c := range r.data[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			x = x<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			x = x<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return x
}

// Skip reads one value of any kind.
func (r *Reader) Skip() {
	switch r.Kind() {
	case '{':
		r.Object(r.skipMember)
	case '[':
		r.Array(r.Skip)
	case '"':
		r.skipString()
	case 't':
		r.word("true")
	case 'f':
		r.word("false")
	case 'n':
		r.word("null")
	default:
		r.number()
	}
}

// Raw reads one value of any kind and returns its text. It is valid as long as the whole text.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.at
	if r.Skip(); r.bad {
		return nil
	}
	return r.data[start:r.at]
}

// skipMember reads the value of a member whose name does not matter.
func (r *Reader) skipMember([]byte) { r.Skip() }

// skipString reads a string of any length.
func (r *Reader) skipString() {
	r.at++
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return
		case c == '\\':
			if r.escape(); r.bad {
				return
			}
		case c < ' ':
			r.bad = true
			return
		default:
			r.at++
		}
	}
	r.bad = true
}

// number reads a number and returns its text.
func (r *Reader) number() []byte {
	if r.space(); r.bad {
		return nil
	}
	start := r.at
	r.maybe('-')
	if !r.maybe('0') {
		r.digits()
	}
	if r.maybe('.') {
		r.digits()
	}
	if r.maybe('e') || r.maybe('E') {
		if !r.maybe('+') {
			r.maybe('-')
		}
		r.digits()
	}
	return r.data[start:r.at]
}

// digits reads one digit or more.
func (r *Reader) digits() {
	start := r.at
	for r.at < len(r.data) && r.data[r.at] >= '0' && r.data[r.at] <= '9' {
		r.at++
	}
	if r.at == start {
		r.bad = true
	}
}

// maybe reads a byte if it is the next one.
func (r *Reader) maybe(c byte) bool {
	if r.at < len(r.data) && r.data[r.at] == c {
		r.at++
		return true
	}
	return false
}

// word reads a word.
func (r *Reader) word(w string) {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		r.bad = true
		return
	}
	r.at += len(w)
}

// open reads the beginning of an object or array.
func (r *Reader) open(c byte) bool {
	if r.depth++; r.depth > maxDepth {
		r.bad = true
	}
	r.take(c)
	return !r.bad
}

// close reads the end of an object or array.
func (r *Reader) close(c byte) {
	r.depth--
	r.take(c)
}

// take reads a byte that must come next.
func (r *Reader) take(c byte) {
	if r.Kind() != c {
		r.bad = true
		return
	}
	r.at++
}

func (r *Reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}
