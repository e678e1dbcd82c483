package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Validator checks finished answers against a JSON Schema, independently of the grammar that they were generated with. It may
// be used by several goroutines at once.
type Validator struct {
	schema *jsonschema.Schema
}

// maxExponent bounds the exponents of numbers, because an exact value is worked out for each.
const maxExponent = 4096

// errRemote is why a schema with a reference outside of itself is refused.
var errRemote = errors.New("references to other documents are not followed")

// NewValidator prepares a schema. Without $schema it is draft 2020-12, or else whichever of drafts 7 and 4 it is well-formed in.
// Nothing is ever loaded from elsewhere.
func NewValidator(schema []byte) (*Validator, error) {
	if err := checkNumbers(schema); err != nil {
		return nil, err
	}
	drafts := []*jsonschema.Draft{jsonschema.Draft2020, jsonschema.Draft7, jsonschema.Draft4}
	var first error
	for _, draft := range drafts {
		s, err := compileSchema(schema, draft)
		if err == nil {
			return &Validator{schema: s}, nil
		}
		if errors.Is(err, errRemote) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func compileSchema(schema []byte, draft *jsonschema.Draft) (s *jsonschema.Schema, err error) {
	const url = "schema.json"
	c := jsonschema.NewCompiler()
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

// Validate reports how a JSON text breaks the schema: nil if it does not. The error names places in the text and the
// schema, no values.
func (v *Validator) Validate(text []byte) (err error) {
	if err := checkNumbers(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return errors.New("it is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON value")
	}
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the validator failed")
		}
	}()
	err = v.schema.Validate(value)
	var bad *jsonschema.ValidationError
	if errors.As(err, &bad) {
		for len(bad.Causes) > 0 {
			bad = bad.Causes[0]
		}
		return fmt.Errorf("the value at %q breaks %q", "#"+bad.InstanceLocation, strings.TrimPrefix(bad.KeywordLocation, "/"))
	}
	return err
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
				return errors.New("a number's exponent is too large")
			}
		}
	}
}
