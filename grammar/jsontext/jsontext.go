// Package jsontext builds the expressions of JSON's scalars under constraints, and of any JSON value (RFC 8259).
//
// It knows the lexical level only: strings by length, pattern and format, numbers by bounds and multiples,
// literals. How values are put together under a schema is another package's business.
//
// The form of what is admitted: no white space but at most one space after a colon and after a comma. A literal has
// one spelling, with as few escapes as can be, but for characters beyond ASCII, which may also be \u escapes. A
// string without conditions may be spelled in any way that JSON has; one that has to obey a pattern or a format, or
// must not be one of a list, is spelled as a literal is. Numbers have an exponent only where nothing is asked of
// them, and 1.0 is an integer.
//
// All forms are exact: they admit what satisfies the constraints, in that form, and they never admit the beginning of
// something that cannot be completed.
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

// Form builds its expression in any set. It may be used by several goroutines at once, each with its own set.
type Form func(*expr.Set) expr.ID

// ErrUnsatisfiable is returned for constraints that nothing satisfies.
var ErrUnsatisfiable = errors.New("nothing satisfies the constraints")

// UnsupportedError says which constraint cannot be kept.
type UnsupportedError struct {
	// What is one line.
	What string
	// Err is the cause; it may be nil.
	Err error
}

func (e *UnsupportedError) Error() string { return e.What }

// Unwrap returns the cause.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// Hint tells the user what to do.
func (e *UnsupportedError) Hint() string { return "use a simpler constraint" }

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

// Literals returns the form of any one of a list of JSON texts: strings, numbers, true, false or null, each in the
// form that the package describes.
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

	// A model that has lost its way writes digits for ever. These are all that 64 bits hold, as an integer and as a
	// double, and not many more.
	aPlainNumber  = `-?(?:0|[1-9]\d{0,19})(?:\.\d{1,17})?(?:[eE][+-]?(?:\d{1,2}|1\d\d|2[0-7]\d))?`
	aPlainInteger = `-?(?:0|[1-9]\d{0,19})`
)

// fullForm returns the form of what pattern matches as a whole, outside strings.
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

// Values are the forms of values that nothing is asked of.
type Values struct{ value *expr.Rule }

// Free are all JSON values; exponents have at most three digits and are at most 308. Plain are those whose numbers
// are plain, see [NumberConstraint].
var (
	Free  = newValues(freeNumber)
	Plain = newValues(plainNumber)
)

func newValues(number Form) Values {
	v := Values{&expr.Rule{Name: "value"}}
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
	return list(s, "{", s.Concat(freeString(s), s.Literal(":"), s.Optional(s.Literal(" ")), s.Rule(v.value)), "}")
}

// Array is the form of any array.
func (v Values) Array(s *expr.Set) expr.ID { return list(s, "[", s.Rule(v.value), "]") }

// list returns the expression of any number of items with commas between them.
func list(s *expr.Set, open string, item expr.ID, shut string) expr.ID {
	more := s.Concat(s.Literal(","), s.Optional(s.Literal(" ")), item)
	return s.Concat(s.Literal(open), s.Optional(s.Concat(item, s.Star(more))), s.Literal(shut))
}
