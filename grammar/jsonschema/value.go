package jsonschema

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

type valueKind uint8

const (
	nullValue valueKind = iota
	falseValue
	trueValue
	numberValue
	stringValue
	arrayValue
	objectValue
)

// value is a JSON value with the order of its keys and the exact value of its numbers.
type value struct {
	kind    valueKind
	broken  bool     // a string with half a surrogate pair, which has no meaning as text
	text    string   // the decoded string, or the number as it was written
	num     *big.Rat // of a number
	items   []*value
	members []member
	index   map[string]*value // of members, where there are many
	schema  *node             // what is made of it when it serves as a schema
}

type member struct {
	key   string
	value *value
}

// get returns the value of a key, or nil.
func (v *value) get(key string) *value {
	if v.index != nil {
		return v.index[key]
	}
	for i := range v.members {
		if v.members[i].key == key {
			return v.members[i].value
		}
	}
	return nil
}

// child returns the value that a token of a JSON pointer leads to, or nil.
func (v *value) child(token string) *value {
	if v.isObject() {
		return v.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v.items) {
		return v.items[i]
	}
	return nil
}

func (v *value) isObject() bool { return v.kind == objectValue }

// id returns the same text for two values if JSON Schema considers them equal: numbers by value, objects in any order.
func (v *value) id() string {
	if v.kind == arrayValue || v.kind == objectValue {
		return string(v.appendID(nil))
	}
	switch v.kind {
	case numberValue:
		return "#" + v.num.RatString()
	case stringValue:
		return "\"" + v.text
	}
	return string('0' + rune(v.kind))
}

func (v *value) appendID(out []byte) []byte {
	switch v.kind {
	case arrayValue:
		out = append(out, '[')
		for _, item := range v.items {
			out = item.appendID(out)
		}
		return append(out, ']')
	case objectValue:
		out = append(out, '{')
		sorted := slices.SortedFunc(slices.Values(v.members), func(a, b member) int { return strings.Compare(a.key, b.key) })
		for _, m := range sorted {
			out = m.value.appendID(strconv.AppendQuote(out, m.key))
		}
		return append(out, '}')
	}
	return strconv.AppendQuote(out, v.id())
}

// valueSet is a list of different values.
type valueSet struct {
	list []*value
	ids  map[string]bool
}

func newValueSet(list []*value) *valueSet {
	s := &valueSet{}
	for _, v := range list {
		s.add(v)
	}
	return s
}

func (s *valueSet) add(v *value) {
	id := v.id()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	if !s.ids[id] {
		s.ids[id] = true
		s.list = append(s.list, v)
	}
}

func (s *valueSet) has(v *value) bool { return s.ids[v.id()] }
