// Package jsontext builds the expressions of JSON scalars under constraints, and of any JSON value (RFC 8259).
//
// It knows only the lexical level: strings by length, pattern and format, numbers by limits and multiples, and
// literals. Package jsonschema combines values under a schema.
//
// The form of admitted text is as follows. There is no white space except at most one space after a colon and after a
// comma. A literal has one spelling, with as few escapes as possible; only characters beyond ASCII may also be \u
// escapes. A string without conditions may have any spelling that JSON allows. A string with a pattern, a format or
// excluded values is spelled like a literal. Numbers have an exponent only if they have no constraints. 1.0 is an
// integer.
//
// All forms are exact: they admit what satisfies the constraints, in that form, and never the beginning of something
// that cannot be completed.
package jsontext

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"runner/grammar/expr"
	"runner/grammar/regex"
)

// Form builds its expression in any set. Several goroutines may use it at once, each with its own set.
type Form func(*expr.Set) expr.ID

// ErrUnsatisfiable is returned for constraints that nothing satisfies.
var ErrUnsatisfiable = errors.New("nothing satisfies the constraints")

// UnsupportedError names a constraint that cannot be enforced, in one line.
type UnsupportedError string

func (e UnsupportedError) Error() string { return string(e) }

// quote returns text as a JSON string with as few escapes as possible.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch i := strings.IndexRune("\"\\\b\f\n\r\t", r); {
		case i >= 0:
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[i])
		case r < ' ':
			const digits = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(digits[r>>4])
			b.WriteByte(digits[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func quoted(s *expr.Set, inside expr.ID) expr.ID {
	mark := s.Literal(`"`)
	return s.Concat(mark, inside, mark)
}

// LiteralString returns the form of the string value.
func LiteralString(value string) Form {
	if isASCII(value) {
		text := quote(value)
		return func(s *expr.Set) expr.ID { return s.Literal(text) }
	}
	return func(s *expr.Set) expr.ID { return quoted(s, regex.Text(s, regex.JSONString, value)) }
}

// Literals returns the form of any one of a list of JSON texts: strings, numbers, true, false or null, each in the form
// that the package describes.
func Literals(texts []string) Form {
	var plain, wide []string
	for _, text := range texts {
		var value string
		if !isASCII(text) && json.Unmarshal([]byte(text), &value) == nil {
			wide = append(wide, value)
		} else {
			plain = append(plain, text)
		}
	}
	words := expr.NewWords(plain)
	return func(s *expr.Set) expr.ID {
		ids := []expr.ID{s.Words(words)}
		for _, value := range wide {
			ids = append(ids, quoted(s, regex.Text(s, regex.JSONString, value)))
		}
		return s.Union(ids...)
	}
}

const (
	anyNumber  = `-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?(?:\d{1,2}|[0-2]\d\d|30[0-8]))?`
	anyInteger = `-?(?:0|[1-9]\d*)(?:\.0)?`

	// A model that is stuck writes digits without end. These are all the digits that 64 bits hold, as an integer and as
	// a double, and a few more.
	aPlainNumber  = `-?(?:0|[1-9]\d{0,19})(?:\.\d{1,17})?(?:[eE][+-]?(?:\d{1,2}|1\d\d|2[0-7]\d))?`
	aPlainInteger = `-?(?:0|[1-9]\d{0,19})`
)

// fullForm returns the form of the texts, outside strings, that pattern matches from start to end.
func fullForm(pattern string) Form {
	read := sync.OnceValue(func() *regex.Regex { return regex.MustParse(pattern) })
	return func(s *expr.Set) expr.ID { return read().Full(s, regex.UTF8) }
}

var (
	freeNumber   = fullForm(anyNumber)
	freeInteger  = fullForm(anyInteger)
	plainNumber  = fullForm(aPlainNumber)
	plainInteger = fullForm(aPlainInteger)
)

func freeString(s *expr.Set) expr.ID { return quoted(s, s.Star(regex.Any(s, regex.JSONFree))) }

func plainKey(s *expr.Set) expr.ID {
	return quoted(s, s.Repeat(regex.Any(s, regex.JSONFree), 0, PlainKey))
}

// Values are the forms of values without constraints.
type Values struct {
	value *expr.Rule
	// key is the form of the name of a member.
	key Form
	// members is the maximum number of members of an object; -1 means no limit.
	members int
}

// Limits of objects that are written plainly. They hold for members whose names no schema gives. A model that is stuck
// writes such members, and their names, without end.
const (
	// PlainMembers is the maximum number of these members in an object.
	PlainMembers = 64
	// PlainKey is the maximum number of characters in their names.
	PlainKey = 128
)

// Free is all JSON values. Exponents have at most three digits and are at most 308. Plain is all values whose numbers
// are plain, see [NumberConstraint], and whose objects keep the limits of [PlainMembers] and [PlainKey].
var (
	Free  = newValues(freeNumber, freeString, -1)
	Plain = newValues(plainNumber, plainKey, PlainMembers)
)

func newValues(number, key Form, members int) Values {
	v := Values{&expr.Rule{Name: "value"}, key, members}
	v.value.Expand = func(s *expr.Set) expr.ID {
		return s.Union(freeString(s), number(s), s.Literal("true"), s.Literal("false"), s.Literal("null"), v.Object(s),
			v.Array(s))
	}
	return v
}

// Any is the form of any value.
func (v Values) Any(s *expr.Set) expr.ID { return s.Rule(v.value) }

// Object is the form of any object.
func (v Values) Object(s *expr.Set) expr.ID {
	return list(s, "{", s.Concat(v.key(s), s.Literal(":"), s.Optional(s.Literal(" ")), s.Rule(v.value)), "}", v.members)
}

// Array is the form of any array.
func (v Values) Array(s *expr.Set) expr.ID { return list(s, "[", s.Rule(v.value), "]", -1) }

// list returns the expression of up to most items separated by commas. A negative most means no limit.
func list(s *expr.Set, open string, item expr.ID, shut string, most int) expr.ID {
	more := s.Concat(s.Literal(","), s.Optional(s.Literal(" ")), item)
	if most > 0 {
		most--
	}
	return s.Concat(s.Literal(open), s.Optional(s.Concat(item, s.Repeat(more, 0, most))), s.Literal(shut))
}
