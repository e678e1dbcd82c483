package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxExponent = 400  // of a number, in either direction
	maxDigits   = 1000 // of a number
	manyMembers = 12   // number of members from which an index pays
)

// parser reads JSON (RFC 8259). It refuses repeated keys, whose meaning JSON leaves open.
type parser struct {
	text  []byte
	dec   *json.Decoder
	depth int
	most  int  // depth
	marks bool // an object has a member that names a place: $id, id, $anchor, $dynamicAnchor
}

// parseValue reads a text. It aborts the compilation if that is not possible.
func parseValue(text []byte, maxDepth int) (*value, *parser) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) {
		fail(&Error{Class: ErrInvalid, Reason: "the text is not UTF-8"})
	}
	p := &parser{text: text, dec: json.NewDecoder(bytes.NewReader(text)), most: maxDepth}
	p.dec.UseNumber()
	v := p.value()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		p.fail("text after the end")
	}
	return v, p
}

func (p *parser) fail(format string, args ...any) {
	fail(&Error{Class: ErrInvalid, Reason: fmt.Sprintf("no JSON at byte %d: ", p.dec.InputOffset()) +
		fmt.Sprintf(format, args...)})
}

func (p *parser) token() json.Token {
	token, err := p.dec.Token()
	if err != nil {
		p.fail("%v", err)
	}
	return token
}

func (p *parser) value() *value {
	start := p.dec.InputOffset()
	token := p.token()
	switch token := token.(type) {
	case json.Delim:
		if p.depth++; p.depth > p.most {
			fail(&Error{Class: ErrLimit, Reason: fmt.Sprintf("more than %d levels of nesting", p.most)})
		}
		defer func() { p.depth-- }()
		if token == '{' {
			return p.object()
		}
		return p.array()
	case string:
		return &value{kind: stringValue, text: token, broken: p.broken(token, start)}
	case json.Number:
		return number(token)
	case bool:
		if token {
			return &value{kind: trueValue}
		}
		return &value{kind: falseValue}
	}
	return &value{kind: nullValue}
}

func (p *parser) array() *value {
	v := &value{kind: arrayValue}
	for p.dec.More() {
		v.items = append(v.items, p.value())
	}
	p.token() // the bracket
	return v
}

func (p *parser) object() *value {
	v := &value{kind: objectValue}
	for p.dec.More() {
		key := p.value()
		if key.broken {
			p.fail("half a surrogate pair in a key")
		}
		if v.get(key.text) != nil {
			p.fail("the key %q for the second time", key.text)
		}
		item := p.value()
		v.members = append(v.members, member{key.text, item})
		p.note(v, key.text, item)
	}
	p.token() // the brace
	return v
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
	}
}

func number(token json.Number) *value {
	text := token.String()
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	n, err := strconv.Atoi(exponent)
	if len(mantissa) > maxDigits || max(n, -n) > maxExponent || err != nil && exponent != "" {
		fail(&Error{Class: ErrLimit, Reason: fmt.Sprintf("a number has more than %d digits or an exponent over %d",
			maxDigits, maxExponent)})
	}
	num, _ := new(big.Rat).SetString(text) // JSON's numbers are valid
	return &value{kind: numberValue, text: text, num: num}
}

var (
	surrogate     = regexp.MustCompile(`(?i)\\ud[89a-f]`)
	surrogatePair = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
)

// broken reports whether the string that was read from start on has half a surrogate pair, which becomes U+FFFD.
func (p *parser) broken(text string, start int64) bool {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return false
	}
	raw := p.text[start:p.dec.InputOffset()]
	raw = bytes.ReplaceAll(raw, []byte(`\\`), []byte(" ")) // what follows an escaped backslash is text
	return surrogate.Match(surrogatePair.ReplaceAll(raw, nil))
}
