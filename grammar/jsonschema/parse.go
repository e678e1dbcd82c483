package jsonschema

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxExponent = 400  // of a number, in either direction
	maxDigits   = 1000 // of a number
	manyMembers = 12   // number of members from which an index pays
)

// parser reads JSON (RFC 8259). It refuses repeated keys, whose meaning JSON leaves open.
type parser struct {
	text   []byte
	pos    int
	depth  int
	most   int // depth
	values []value
	marks  bool // an object has a member that names a place: $id, id, $anchor, $dynamicAnchor
	scoped bool // an object has a member unevaluatedItems or unevaluatedProperties
}

func parseValue(text []byte, maxDepth int) (*value, *parser, error) {
	p := &parser{text: text, most: maxDepth}
	p.text = bytes.TrimPrefix(p.text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(p.text) {
		return nil, nil, &Error{Class: ErrInvalid, Reason: "the text is not UTF-8"}
	}
	v, err := p.value()
	if err != nil {
		return nil, nil, err
	}
	if p.space(); p.pos < len(p.text) {
		return nil, nil, p.errorf("text after the end")
	}
	return v, p, nil
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{Class: ErrInvalid, Reason: fmt.Sprintf("no JSON at byte %d: ", p.pos) + fmt.Sprintf(format, args...)}
}

func (p *parser) alloc(kind valueKind) *value {
	if len(p.values) == cap(p.values) {
		p.values = make([]value, 0, 64)
	}
	p.values = append(p.values, value{kind: kind})
	return &p.values[len(p.values)-1]
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// take skips white space, then consumes c and reports whether it was there.
func (p *parser) take(c byte) bool {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) value() (*value, error) {
	p.space()
	if p.pos >= len(p.text) {
		return nil, p.errorf("unexpected end")
	}
	switch c := p.text[p.pos]; {
	case c == '{' || c == '[':
		if p.depth++; p.depth > p.most {
			return nil, &Error{Class: ErrLimit, Reason: fmt.Sprintf("more than %d levels of nesting", p.most)}
		}
		defer func() { p.depth-- }()
		p.pos++
		if c == '{' {
			return p.object()
		}
		return p.array()
	case c == '"':
		v := p.alloc(stringValue)
		var err error
		v.text, v.broken, err = p.str()
		return v, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, w := range words {
		if bytes.HasPrefix(p.text[p.pos:], w.text) {
			p.pos += len(w.text)
			return p.alloc(w.kind), nil
		}
	}
	return nil, p.errorf("unexpected character")
}

var words = []struct {
	kind valueKind
	text []byte
}{{nullValue, []byte("null")}, {falseValue, []byte("false")}, {trueValue, []byte("true")}}

func (p *parser) array() (*value, error) {
	v := p.alloc(arrayValue)
	if p.take(']') {
		return v, nil
	}
	for {
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
		if p.take(']') {
			return v, nil
		}
		if !p.take(',') {
			return nil, p.errorf("no comma or bracket")
		}
	}
}

func (p *parser) object() (*value, error) {
	v := p.alloc(objectValue)
	if p.take('}') {
		return v, nil
	}
	for {
		if p.space(); p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return nil, p.errorf("no key")
		}
		key, broken, err := p.str()
		if err != nil {
			return nil, err
		}
		if broken {
			return nil, p.errorf("half a surrogate pair in a key")
		}
		if v.get(key) != nil {
			return nil, p.errorf("the key %q for the second time", key)
		}
		if !p.take(':') {
			return nil, p.errorf("no colon")
		}
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		v.members = append(v.members, member{key, item})
		p.note(v, key, item)
		if p.take('}') {
			return v, nil
		}
		if !p.take(',') {
			return nil, p.errorf("no comma or brace")
		}
	}
}

func (p *parser) note(v *value, key string, item *value) {
	switch {
	case v.index != nil:
		v.index[key] = item
	case len(v.members) > manyMembers:
		v.index = make(map[string]*value, 2*len(v.members))
		for _, m := range v.members {
			v.index[m.key] = m.value
		}
	}
	switch key {
	case "$id", "id", "$anchor", "$dynamicAnchor":
		p.marks = p.marks || item.kind == stringValue
	case "unevaluatedProperties", "unevaluatedItems":
		p.scoped = true
	}
}

func (p *parser) number() (*value, error) {
	start := p.pos
	digits := func() bool {
		from := p.pos
		for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
			p.pos++
		}
		return p.pos > from
	}
	at := func(set string) bool {
		if p.pos < len(p.text) && strings.IndexByte(set, p.text[p.pos]) >= 0 {
			p.pos++
			return true
		}
		return false
	}
	at("-")
	if !at("0") && !digits() {
		return nil, p.errorf("no digit")
	}
	if at(".") && !digits() {
		return nil, p.errorf("no digit after the point")
	}
	mantissa := p.pos - start
	exponent := 0
	if at("eE") {
		from := p.pos
		at("+-")
		if !digits() {
			return nil, p.errorf("no digit in the exponent")
		}
		n, err := strconv.Atoi(string(p.text[from:p.pos]))
		if err != nil {
			n = maxExponent + 1
		}
		exponent = max(n, -n)
	}
	if mantissa > maxDigits || exponent > maxExponent {
		return nil, &Error{Class: ErrLimit, Reason: fmt.Sprintf("a number at byte %d has more than %d digits or an "+
			"exponent over %d", start, maxDigits, maxExponent)}
	}
	v := p.alloc(numberValue)
	v.text = string(p.text[start:p.pos])
	num, ok := new(big.Rat).SetString(v.text)
	if !ok {
		return nil, p.errorf("no number")
	}
	v.num = num
	return v, nil
}

// str reads a string. It reports whether the string had half a surrogate pair, which becomes U+FFFD.
func (p *parser) str() (text string, broken bool, err error) {
	p.pos++
	start := p.pos
	for ; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '"':
			text = string(p.text[start:p.pos])
			p.pos++
			return text, false, nil
		case c == '\\':
			return p.escaped(append([]byte(nil), p.text[start:p.pos]...))
		case c < 0x20:
			return "", false, p.errorf("a control character in a string")
		}
	}
	return "", false, p.errorf("a string without an end")
}

// escaped continues from the first backslash on.
func (p *parser) escaped(out []byte) (text string, broken bool, err error) {
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		switch {
		case c == '"':
			return string(out), broken, nil
		case c < 0x20:
			return "", false, p.errorf("a control character in a string")
		case c != '\\':
			out = append(out, c)
			continue
		}
		if p.pos >= len(p.text) {
			break
		}
		c = p.text[p.pos]
		p.pos++
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			continue
		}
		if c != 'u' {
			return "", false, p.errorf("an unknown escape")
		}
		r, ok := p.hex()
		if !ok {
			return "", false, p.errorf("an escape without four hexadecimal digits")
		}
		if utf16.IsSurrogate(r) {
			r = p.pair(r)
			broken = broken || r == utf8.RuneError
		}
		out = utf8.AppendRune(out, r)
	}
	return "", false, p.errorf("a string without an end")
}

// pair reads the second half of a surrogate pair.
func (p *parser) pair(first rune) rune {
	if !bytes.HasPrefix(p.text[p.pos:], []byte(`\u`)) {
		return utf8.RuneError
	}
	back := p.pos
	p.pos += 2
	if second, ok := p.hex(); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r
		}
	}
	p.pos = back
	return utf8.RuneError
}

func (p *parser) hex() (rune, bool) {
	if p.pos+4 > len(p.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.text[p.pos:p.pos+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	p.pos += 4
	return rune(n), true
}
