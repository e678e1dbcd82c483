package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	v5 "github.com/santhosh-tekuri/jsonschema/v5"

	"runner/grammar/jsonschema"
	"runner/grammar/regex"
)

// Validator checks finished answers against a JSON Schema, independently of the grammar that produced them. Several
// goroutines may use it at once.
type Validator struct {
	schema *v5.Schema
}

// maxExponent limits the exponents of numbers, because the exact value of each is computed.
const maxExponent = 4096

// errRemote refuses a schema that refers to another document.
var errRemote = errors.New("references to other documents are not followed")

// errExponent refuses a schema or a text with a number whose exact value would be huge.
var errExponent = errors.New("a number's exponent is too large")

// NewValidator prepares a schema. Patterns are read by package grammar/regex. Without $schema, the schema is draft
// 2020-12 or, if it is not well-formed in that, draft 7 or draft 4. A $schema that names no draft is ignored. It never
// loads anything.
func NewValidator(schema []byte) (*Validator, error) {
	if err := checkNumbers(schema); err != nil {
		return nil, err
	}
	schema, err := withPatterns(schema)
	if err != nil {
		return nil, err
	}
	drafts := []*v5.Draft{v5.Draft2020, v5.Draft7, v5.Draft4}
	var first error
	for _, draft := range drafts {
		s, err := compileSchema(schema, draft)
		if err == nil {
			return &Validator{schema: s}, nil
		}
		if errors.Is(err, errRemote) {
			return nil, errRemote
		}
		if first == nil {
			first = err
		}
	}
	return nil, asSchemaError(first)
}

// asSchemaError turns the validator's objection to a schema into an error of package grammar/jsonschema.
func asSchemaError(err error) error {
	var bad *v5.ValidationError
	if !errors.As(err, &bad) {
		if outer := (*v5.SchemaError)(nil); errors.As(err, &outer) {
			return outer.Err
		}
		return err
	}
	for len(bad.Causes) > 0 {
		bad = bad.Causes[0]
	}
	e := &jsonschema.Error{Class: jsonschema.ErrInvalid, Pointer: bad.InstanceLocation, Reason: bad.Message}
	if i := strings.LastIndexByte(e.Pointer, '/'); i >= 0 && strings.Trim(e.Pointer[i+1:], "0123456789") != "" {
		e.Pointer, e.Keyword = e.Pointer[:i], e.Pointer[i+1:]
	}
	return e
}

// maxSchemas limits the schemas in a document. The validator compares each with all others, which takes a few seconds
// for this many.
const maxSchemas = 8_000

// withPatterns returns the schema with its patterns in the notation of Go's regexp, which differs from ECMA-262 in
// places.
func withPatterns(schema []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if top, ok := value.(map[string]any); ok {
		if name, _ := top["$schema"].(string); !jsonschema.IsDraft(name) {
			delete(top, "$schema")
		}
	}
	var r rewriter
	if err := r.rewrite(value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// rewriter changes and counts the patterns of schemas.
type rewriter struct{ schemas int }

// rewrite changes the patterns of a schema, or of a list of schemas, in place.
func (r *rewriter) rewrite(value any) error {
	if list, ok := value.([]any); ok {
		for _, item := range list {
			if err := r.rewrite(item); err != nil {
				return err
			}
		}
	}
	schema, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	if r.schemas++; r.schemas > maxSchemas {
		return &jsonschema.Error{Class: jsonschema.ErrLimit, Reason: fmt.Sprintf("more than %d schemas", maxSchemas)}
	}
	for key, v := range schema {
		switch key {
		case "const", "enum", "default", "examples":
			continue // no schemas
		case "pattern":
			if p, ok := v.(string); ok {
				read, err := regex.Parse(p)
				if err != nil {
					return err
				}
				schema[key] = read.RE2()
			}
		case "patternProperties":
			if err := rewriteKeys(schema, key); err != nil {
				return err
			}
			fallthrough
		case "properties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := schema[key].(map[string]any)
			for _, sub := range named {
				if err := r.rewrite(sub); err != nil {
					return err
				}
			}
		default:
			if err := r.rewrite(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewriteKeys changes the patterns that are keys of the object at schema[key].
func rewriteKeys(schema map[string]any, key string) error {
	named, ok := schema[key].(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]any, len(named))
	for p, sub := range named {
		r, err := regex.Parse(p)
		if err != nil {
			return err
		}
		if _, twice := out[r.RE2()]; twice {
			return errors.New("two patterns are equal")
		}
		out[r.RE2()] = sub
	}
	schema[key] = out
	return nil
}

func compileSchema(schema []byte, draft *v5.Draft) (s *v5.Schema, err error) {
	const url = "mem:///schema.json" // without a scheme it would become a file path and show up in errors
	c := v5.NewCompiler()
	c.Draft, c.AssertFormat = draft, true
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errRemote }
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the validator cannot read it: %v", r)
		}
	}()
	if err := c.AddResource(url, bytes.NewReader(schema)); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

// Validate reports how a JSON text breaks the schema, or nil. The error names the place in the schema. It has nothing
// of the text, not even a key or the path of a value, which consists of keys, so it may be logged.
func (v *Validator) Validate(text []byte) (err error) {
	if err := checkNumbers(text); errors.Is(err, errExponent) {
		return err
	} else if err != nil {
		return errors.New("it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return errors.New("it is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the validator failed")
		}
	}()
	err = v.schema.Validate(value)
	var bad *v5.ValidationError
	if errors.As(err, &bad) {
		for len(bad.Causes) > 0 {
			bad = bad.Causes[0]
		}
		return fmt.Errorf("it breaks %q of the schema", "#"+bad.KeywordLocation)
	}
	if err != nil {
		return errors.New("the validator failed")
	}
	return nil
}

// NewPatternCheck compiles a pattern, as package grammar/regex reads it, with Go's regexp. It is a second
// implementation for checks of whole texts.
func NewPatternCheck(pattern string) (*regexp.Regexp, error) {
	r, err := regex.Parse(pattern)
	if err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + r.RE2() + ")$")
}

// checkNumbers reads a JSON text and refuses numbers whose exact value would be huge.
func checkNumbers(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not JSON: %w", err)
		}
		n, ok := tok.(json.Number)
		if !ok {
			continue
		}
		if i := strings.IndexAny(string(n), "eE"); i >= 0 {
			exponent := strings.TrimLeft(string(n)[i+1:], "+-0")
			if len(exponent) > 4 || len(exponent) == 4 && exponent > fmt.Sprint(maxExponent) {
				return errExponent
			}
		}
	}
}
