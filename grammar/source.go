package grammar

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"runner/backend"
	"runner/grammar/expr"
	"runner/grammar/gbnf"
	"runner/grammar/jsonschema"
	"runner/grammar/jsontext"
	"runner/grammar/regex"
)

// Source is the form that a text must have. The zero value admits any text and cannot be compiled.
type Source struct {
	kind   sourceKind
	text   string
	list   []string
	fields []Field
	// plain: JSON is written as programs write it, see Plain.
	plain bool
}

type sourceKind uint8

const (
	noSource sourceKind = iota
	schemaSource
	objectSource
	regexSource
	choicesSource
	gbnfSource
	fieldsSource
	membersSource
	sequenceSource
	anySource
	repeatSource
	optionalSource
	withoutSource
	exceptSource
)

// Field is one field of an object made with [Fields] or [Members].
type Field struct {
	Name string
	// Value is a JSON form: JSONSchema, AnyObject, Fields, or Choices of JSON texts.
	Value Source
	// Optional allows the field to be left out.
	Optional bool
}

// JSONSchema is the form of the JSON texts that a schema admits, see package grammar/jsonschema.
func JSONSchema(schema []byte) Source { return Source{kind: schemaSource, text: string(schema)} }

// AnyObject is the form of any JSON object.
func AnyObject() Source { return Source{kind: objectSource} }

// Regex is the form of the texts that a pattern matches from start to end, see package grammar/regex.
func Regex(pattern string) Source { return Source{kind: regexSource, text: pattern} }

// Choices is the form of exactly one of a list of texts.
func Choices(list ...string) Source { return Source{kind: choicesSource, list: list} }

// GBNF is the form of the texts of a grammar in llama.cpp's notation, see package grammar/gbnf.
func GBNF(text string) Source { return Source{kind: gbnfSource, text: text} }

// Hint describes the form for an engine that can follow it itself. ok is false if there is no such description.
func (s Source) Hint() (form backend.Form, ok bool) {
	switch s.kind {
	case schemaSource:
		return backend.Form{Kind: backend.FormJSONSchema, Text: s.text}, true
	case objectSource:
		return backend.Form{Kind: backend.FormJSONSchema, Text: `{"type":"object"}`}, true
	case regexSource:
		return backend.Form{Kind: backend.FormRegex, Text: s.text}, true
	case choicesSource:
		return backend.Form{Kind: backend.FormChoices, List: slices.Clone(s.list)}, true
	case gbnfSource:
		return backend.Form{Kind: backend.FormGBNF, Text: s.text}, true
	}
	return form, false
}

// Fields is the form of a JSON object with exactly these fields, in this order. The first field must not be optional.
func Fields(fields ...Field) Source { return Source{kind: fieldsSource, fields: fields} }

// Plain returns the form with JSON as programs write it. Integers have no fraction and no exponent: 7, not 7.0, which
// JSON Schema accepts and many readers do not. Numbers have no more digits than 64 bits hold unless the form asks for
// more, and an object has no more than [jsontext.PlainMembers] members of names that the form does not give. So a model
// that is stuck cannot write digits or members without end.
func (s Source) Plain() Source {
	s.plain = true
	s.fields = slices.Clone(s.fields)
	for i, f := range s.fields {
		s.fields[i].Value = f.Value.Plain()
	}
	return s
}

// IsZero reports whether s is the zero value.
func (s Source) IsZero() bool { return s.kind == noSource }

// IsJSON reports whether every text of the form is JSON.
func (s Source) IsJSON() bool {
	return s.kind == schemaSource || s.kind == objectSource || s.kind == fieldsSource || s.kind == membersSource
}

// IsObject reports whether s is the form of any JSON object.
func (s Source) IsObject() bool { return s.kind == objectSource }

// Schema returns the JSON Schema that s was made from, or nil.
func (s Source) Schema() []byte {
	if s.kind != schemaSource {
		return nil
	}
	return []byte(s.text)
}

// Pattern returns the regular expression that s was made from, or "".
func (s Source) Pattern() string {
	if s.kind != regexSource {
		return ""
	}
	return s.text
}

// List returns the choices that s was made from, or nil. The caller must not change it.
func (s Source) List() []string {
	if s.kind != choicesSource {
		return nil
	}
	return s.list
}

// String names the kind of form. It never shows the content, which may belong to a user.
func (s Source) String() string {
	return [...]string{"none", "json schema", "json object", "regular expression", "choices", "gbnf", "json fields",
		"json members", "sequence", "alternatives", "repetition", "option", "text", "exception"}[s.kind]
}

// digest identifies a source by its content.
func (s Source) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	part := func(text string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	part(strconv.Itoa(int(s.kind)))
	part(strconv.FormatBool(s.plain))
	part(s.text)
	for _, c := range s.list {
		part(c)
	}
	for _, f := range s.fields {
		d := f.Value.digest()
		part(f.Name)
		part(strconv.FormatBool(f.Optional))
		part(string(d[:]))
	}
	h.Sum(sum[:0])
	return sum
}

// front is a compiled source: a function that makes its expression, and its approximate size in bytes.
type front struct {
	build func(*expr.Set) expr.ID
	bytes int
}

// Upper limits for the memory of a source that was read, in bytes per byte of a pattern and of a GBNF grammar. Reading
// a source of the maximum length takes a tenth of a second.
const (
	regexBytes = 112
	gbnfBytes  = 100
)

// maxChoices and maxChoiceBytes limit a list of choices.
const (
	maxChoices     = 100_000
	maxChoiceBytes = 4 << 20
)

// compile checks a source and prepares its expression.
func (s Source) compile(ctx context.Context) (front, error) {
	switch s.kind {
	case schemaSource:
		c, err := jsonschema.Compile(ctx, []byte(s.text), jsonschema.Options{Plain: s.plain})
		if err != nil {
			return front{}, err
		}
		return front{c.Expr, 4 * len(s.text)}, nil
	case objectSource:
		if s.plain {
			return front{jsontext.Plain.Object, 0}, nil
		}
		return front{jsontext.Free.Object, 0}, nil
	case regexSource:
		r, err := regex.Parse(s.text)
		if err != nil {
			return front{}, err
		}
		return front{func(set *expr.Set) expr.ID { return r.Full(set, regex.UTF8) }, regexBytes * len(s.text)}, nil
	case choicesSource:
		return s.compileChoices()
	case gbnfSource:
		g, err := gbnf.Parse(s.text)
		if err != nil {
			return front{}, err
		}
		return front{g.Expr, gbnfBytes * len(s.text)}, nil
	case fieldsSource:
		return s.compileFields(ctx)
	case membersSource:
		return s.compileMembers(ctx)
	case withoutSource:
		return s.compileWithout(ctx)
	case sequenceSource, anySource, repeatSource, optionalSource, exceptSource:
		return s.compileComposed(ctx)
	}
	return front{}, errors.New("no form is given")
}

func (s Source) compileChoices() (front, error) {
	size := 0
	for _, c := range s.list {
		if c == "" {
			return front{}, errors.New("a choice is empty")
		}
		size += len(c) + 16
	}
	switch {
	case len(s.list) == 0:
		return front{}, errors.New("there are no choices")
	case len(s.list) > maxChoices || size > maxChoiceBytes:
		return front{}, fmt.Errorf("too many or too long choices: at most %d, and %d bytes together", maxChoices,
			maxChoiceBytes)
	}
	words := expr.NewWords(s.list)
	return front{func(set *expr.Set) expr.ID { return set.Words(words) }, size}, nil
}

func (s Source) compileFields(ctx context.Context) (front, error) {
	if len(s.fields) == 0 || s.fields[0].Optional {
		return front{}, errors.New("the first field of an object must not be optional")
	}
	values, total, err := s.compileValues(ctx)
	if err != nil {
		return front{}, err
	}
	return front{func(set *expr.Set) expr.ID {
		space := set.Optional(set.Literal(" "))
		parts := []expr.ID{set.Literal("{")}
		for i, f := range s.fields {
			key := set.Concat(set.Literal(strconv.Quote(f.Name)+":"), space, values[i].build(set))
			if i > 0 {
				key = set.Concat(set.Literal(","), space, key)
			}
			if f.Optional {
				key = set.Optional(key)
			}
			parts = append(parts, key)
		}
		return set.Concat(append(parts, set.Literal("}"))...)
	}, total}, nil
}

// compileValues compiles the values of the fields and adds up their sizes.
func (s Source) compileValues(ctx context.Context) (values []front, total int, err error) {
	values = make([]front, len(s.fields))
	same := make(map[[sha256.Size]byte]front) // most values are of a few types
	for i, f := range s.fields {
		if !f.Value.IsJSON() && f.Value.kind != choicesSource {
			return nil, 0, fmt.Errorf("field %s: a %s is not JSON", f.Name, f.Value)
		}
		key := f.Value.digest()
		value, ok := same[key]
		if !ok {
			if value, err = f.Value.compile(ctx); err != nil {
				return nil, 0, err
			}
			same[key] = value
			total += value.bytes
		}
		values[i] = value
	}
	return values, total, nil
}

// ParseChoices splits a comma-separated list. A backslash before a comma or a backslash makes it a normal character.
func ParseChoices(text string) []string {
	var out []string
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case c == ',':
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(out, b.String())
}
