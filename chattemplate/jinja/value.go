package jinja

import (
	"math/big"
)

// Value is a value of the language. Build one with None, Bool, Int, String, List, Dict or FromJSON.
type Value interface {
	// typeName is the name of the Python type.
	typeName() string
}

type (
	noneValue  struct{}
	boolValue  bool
	intValue   int64
	floatValue float64
)

// bigValue is an integer that does not fit into int64.
type bigValue struct{ i *big.Int }

// strValue is a string. markup is set on the results of safe and escape, which are Python's Markup.
type strValue struct {
	Text
	markup bool
}

// listValue is a list or a tuple. It never changes after it was made.
type listValue struct {
	items []Value
	tuple bool
}

// undefined is the result of a lookup that found nothing.
type undefined struct {
	// hint is the message. If it is empty, obj and name make the message.
	hint string
	kind Kind
	// obj is the value in which the lookup took place, or nil for a variable.
	obj  Value
	name Value
}

// generator is a Python iterator. It can be read only once.
type generator struct {
	it    iterator
	label string
}

// rangeValue is range(start, stop, step) with n items.
type rangeValue struct{ start, stop, step, n int64 }

type viewKind uint8

const (
	viewKeys viewKind = iota
	viewValues
	viewItems
)

var viewNames = [...]string{viewKeys: "keys", viewValues: "values", viewItems: "items"}

// dictView is the result of keys, values or items of a dict.
type dictView struct {
	d    *dictValue
	kind viewKind
}

// namespace is the only value that a template can change.
type namespace struct{ d *dictValue }

// native is a built-in function. A method is bound to its receiver.
type native struct {
	*signature
	recv Value
}

func (noneValue) typeName() string   { return "NoneType" }
func (boolValue) typeName() string   { return "bool" }
func (intValue) typeName() string    { return "int" }
func (*bigValue) typeName() string   { return "int" }
func (floatValue) typeName() string  { return "float" }
func (*dictValue) typeName() string  { return "dict" }
func (*undefined) typeName() string  { return "Undefined" }
func (*generator) typeName() string  { return "generator" }
func (*rangeValue) typeName() string { return "range" }
func (*namespace) typeName() string  { return "Namespace" }
func (*macro) typeName() string      { return "Macro" }
func (*loopContext) typeName() string {
	return "LoopContext"
}

func (s *strValue) typeName() string {
	if s.markup {
		return "Markup"
	}
	return "str"
}

func (l *listValue) typeName() string {
	if l.tuple {
		return "tuple"
	}
	return "list"
}

func (v *dictView) typeName() string {
	return "dict_" + viewNames[v.kind]
}

func (n *native) typeName() string {
	if n.recv != nil {
		return "builtin_function_or_method"
	}
	return "function"
}

// None returns Python's None, JSON's null.
func None() Value { return noneValue{} }

// Bool returns a truth value.
func Bool(b bool) Value { return boolValue(b) }

// Int returns an integer.
func Int(i int64) Value { return intValue(i) }

// String returns a string with the origins of t.
func String(t Text) Value { return &strValue{Text: t} }

// List returns a list of the items. The caller must not change the slice afterwards. A nil item means None.
func List(items ...Value) Value {
	for i, it := range items {
		if it == nil {
			items[i] = noneValue{}
		}
	}
	return &listValue{items: items}
}

// Entry is one key and value of a dict.
type Entry struct {
	Key   string
	Value Value
}

// Dict returns a dict with string keys of origin o, in the given order. If a key occurs twice, the last value takes the
// place of the first. A nil value means None.
func Dict(o Origin, entries ...Entry) Value {
	d := newDict(len(entries))
	for _, e := range entries {
		if e.Value == nil {
			e.Value = noneValue{}
		}
		d.set(str(e.Key, o), e.Value)
	}
	return d
}

// str returns a string of one origin.
func str(s string, o Origin) *strValue { return &strValue{Text: NewText(s, o)} }

func text(t Text) *strValue { return &strValue{Text: t} }

func tuple(items ...Value) *listValue { return &listValue{items: items, tuple: true} }

// emptyStr is the empty string. Its origin does not matter.
var emptyStr = str("", Trusted)

// asciiStr holds the one-byte strings of each origin.
var asciiStr = func() (t [Unseen + 1][128]*strValue) {
	for o := range t {
		for c := range t[o] {
			t[o][c] = str(string(rune(c)), Origin(o))
		}
	}
	return
}()

// bigInt returns i as the smallest kind of integer that holds it.
func bigInt(i *big.Int) Value {
	if i.IsInt64() {
		return intValue(i.Int64())
	}
	return &bigValue{i}
}

func isUndefined(v Value) bool {
	_, ok := v.(*undefined)
	return ok
}

func isNone(v Value) bool {
	_, ok := v.(noneValue)
	return ok
}
