package grammar

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/grammar/jsonschema"
)

func TestValidator(t *testing.T) {
	for _, c := range []struct {
		schema     string
		valid, bad []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, []string{`{"a":1}`, `{"a": 1.0}`},
			[]string{`{}`, `{"a":"x"}`, `[`, `{"a":1} 2`}},
		{`{"items":[{"type":"string"}],"additionalItems":false}`, []string{`["a"]`}, []string{`["a",1]`, `[1]`}},
		{`{"minimum":0,"exclusiveMinimum":true}`, []string{`1`}, []string{`0`}},
		{`{"format":"date"}`, []string{`"2024-02-29"`}, []string{`"2023-02-29"`}},
		{`{"pattern":"^\\u0041\\s.$","const":{"pattern":"("}}`, nil, []string{`"A b"`}},
		{`{"properties":{"pattern":{"pattern":"^\\u0041$"}},"patternProperties":{"^\\cJ":{"type":"null"}}}`,
			[]string{`{"pattern":"A"}`, `{"\n":null}`}, []string{`{"pattern":"B"}`, `{"\n":1}`}},
		{`{"$ref":"#/definitions/x","definitions":{"x":{"const":1}}}`, []string{`1`, `1.0`}, []string{`2`}},
	} {
		v, err := NewValidator([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.valid {
			if err := v.Validate([]byte(text)); err != nil {
				t.Errorf("%s refuses %s: %v", c.schema, text, err)
			}
		}
		for _, text := range c.bad {
			if v.Validate([]byte(text)) == nil {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

func TestValidatorLoadsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, file, "http://127.0.0.1:1/x.json", "x.json", "other.json#/a"} {
		_, err := NewValidator([]byte(`{"$ref":"` + ref + `"}`))
		if !errors.Is(err, errRemote) && err == nil {
			t.Errorf("a reference to %s was followed", ref)
		}
	}
}

// TestValidatorSaysNothingOfTheText breaks a schema in every way in which an error could quote the text.
func TestValidatorSaysNothingOfTheText(t *testing.T) {
	v,
		err := NewValidator(
		[]byte(
			`{"type":"object","properties":{"name":{"type":"integer"},"odd":{"pattern":"^x"},"list":{"items":{"enum":[1]}},` +
				`"date":{"format":"date"}},"patternProperties":{"^c[a-z]+$":{"const":1}},"additionalProperties":false,` +
				`"propertyNames":{"maxLength":9}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, place := range map[string]string{
		`{"name":"canary"}`: `"#/properties/name/type"`, `{"odd":"canary"}`: `"#/properties/odd/pattern"`,
		`{"list":["canary"]}`: "/items/enum",
		`{"date":"canary"}`:   "/format", `{"canary":2}`: "patternProperties", `{"Canary":2}`: "additionalProperties",
		`{"canarycanary":1}`: "propertyNames", `["canary"]`: `"#/type"`, `canary`: "not JSON", `{"name":canary}`: "not JSON",
		`{"name":1} canary`: "not JSON", `{"name":1} "canary"`: "something follows", `{"name":1e99999999}`: "exponent",
	} {
		err := v.Validate([]byte(text))
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "canary") || strings.Contains(err.Error(), "'c'") ||
			!strings.Contains(err.Error(), place) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValidatorRefusesHugeNumbers(t *testing.T) {
	if _, err := NewValidator([]byte(`{"minimum":1e999999999}`)); err == nil {
		t.Error("a schema with a huge number was taken")
	}
	v, err := NewValidator([]byte(`{"minimum":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if v.Validate([]byte(`1E+0999999999`)) == nil {
		t.Error("a huge number was taken")
	}
}

// TestValidatorSaysWhatIsWrong has schemas that the validator refuses. The errors are those of [Check].
func TestValidatorSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ schema, keyword, pointer string }{
		{`{"type":"string","title":5}`, "title", ""},
		{`{"properties":{"a":{"description":null}}}`, "description", "/properties/a"},
		{`{"required":["a","a"]}`, "required", ""},
		{`{"definitions":{"a/b":5}}`, "a~1b", "/definitions"},
		{`{"anyOf":[{"items":[]},{"type":"null"}]}`, "items", "/anyOf/0"},
	} {
		for _, err := range []error{Check(t.Context(), JSONSchema([]byte(c.schema))),
			second(NewValidator([]byte(c.schema)))} {
			var e *jsonschema.Error
			if !errors.As(err, &e) || e.Class != jsonschema.ErrInvalid || e.Keyword != c.keyword || e.Pointer != c.pointer ||
				e.Reason == "" {
				t.Errorf("%s: %v", c.schema, err)
			}
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"x.json", "#/a", "#nowhere", "%zz"} {
		if _, err := NewValidator([]byte(`{"$ref":"` + ref + `"}`)); err == nil || strings.Contains(err.Error(), wd) ||
			strings.Contains(err.Error(), "mem:///schema.json compilation") {
			t.Errorf("a reference to %s: %v", ref, err)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestValidatorTakesUnknownDrafts has schemas whose $schema names no draft. They are read as if they had none.
func TestValidatorTakesUnknownDrafts(t *testing.T) {
	for _, name := range []string{`"https://example.com/own"`, `"http://json-schema.org/draft-03/schema#"`,
		`"http://json-schema.org/schema"`, `""`, `5`} {
		schema := []byte(`{"$schema":` + name + `,"prefixItems":[{"const":1}],"dependencies":{"a":["b"]}}`)
		if err := Check(t.Context(), JSONSchema(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		v, err := NewValidator(schema)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Validate([]byte(`[2]`)) == nil || v.Validate([]byte(`[1]`)) != nil {
			t.Errorf("%s: prefixItems is not looked at", name)
		}
	}
}

// TestValidatorIsBounded has a schema that would take the validator half a minute.
func TestValidatorIsBounded(t *testing.T) {
	schema := `{"type":"integer"}`
	for range 12 {
		schema = `{"anyOf":[` + schema + `,{"type":"array","items":` + schema + `}]}`
	}
	var e *jsonschema.Error
	if err := Check(t.Context(), JSONSchema([]byte(schema))); !errors.As(err, &e) || e.Class != jsonschema.ErrLimit {
		t.Errorf("%v", err)
	}
	enum := `{"enum":[` + strings.Repeat(`{"a":1},`, maxSchemas) + `{}]}`
	if err := Check(t.Context(), JSONSchema([]byte(enum))); err != nil {
		t.Errorf("values are counted as schemas: %v", err)
	}
}

// FuzzValidator looks for schemas and texts that crash or hang the validator.
func FuzzValidator(f *testing.F) {
	f.Add([]byte(`{"type":"object"}`), []byte(`{}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`1`))
	f.Fuzz(func(_ *testing.T, schema, text []byte) {
		if v, err := NewValidator(schema); err == nil {
			_ = v.Validate(text)
		}
	})
}

func TestCacheKeepsValidators(t *testing.T) {
	c := NewCache(small(t), 0)
	schema := []byte(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	get := func(schema []byte) *Validator {
		v, err := c.Validator(schema)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := get(schema)
	if get(schema) != first {
		t.Error("made twice")
	}
	if n := testing.AllocsPerRun(10, func() { get(schema) }); n != 0 {
		t.Errorf("%v allocations for one that is kept", n)
	}
	if other := get([]byte(`{"type":"string"}`)); other == first || other.Validate([]byte(`"x"`)) != nil ||
		first.Validate([]byte(`{"a":"x"}`)) == nil {
		t.Error("two schemas share a validator")
	}
	for range 2 {
		if _, err := c.Validator([]byte(`{"pattern":"("}`)); err == nil {
			t.Error("a pattern that cannot be compiled is let through")
		}
	}
	for i := range 20 {
		get([]byte(`{"const":"` + strings.Repeat("x", maxValidated/8+i) + `"}`))
	}
	if c.text > maxValidated || c.checked.Len() != len(c.validators) || len(c.validators) < 5 || get(schema) == first {
		t.Errorf("%d validators of %d bytes are kept", len(c.validators), c.text)
	}
}
