package harmony

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"runner/chattemplate"
)

const (
	// maxDefinitions is the maximum bytes of all rendered functions.
	maxDefinitions = 4 << 20
	// maxDepth is the maximum depth of nested values in a schema.
	maxDepth = 64
)

// SchemaError says which definition cannot be rendered. It never contains the definition's text.
type SchemaError struct {
	// What is "function" or "response format". Index counts these from 0.
	What  string
	Index int
	Err   error
}

func (e *SchemaError) Error() string { return fmt.Sprintf("%s %d: %v", e.What, e.Index, e.Err) }

// Unwrap returns the cause.
func (e *SchemaError) Unwrap() error { return e.Err }

var (
	errTooLarge = fmt.Errorf("schema takes more than %d bytes", chattemplate.MaxSchema)
	errTooDeep  = fmt.Errorf("schema nests deeper than %d", maxDepth)
	errNotJSON  = errors.New("schema is not valid JSON")
	errNotUTF8  = errors.New("schema is not valid UTF-8")
)

// value is a JSON value that remembers the order of its keys.
type value struct {
	kind byte // one of n b # s [ {
	text string
	list []*value
	keys []string
	vals []*value
}

// parseSchema parses JSON and keeps the order of keys. It returns nil for empty input.
func parseSchema(raw json.RawMessage) (*value, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return parseValue(d, 0)
}

func checkJSON(raw json.RawMessage) error {
	switch {
	case len(raw) > chattemplate.MaxSchema:
		return errTooLarge
	case !utf8.Valid(raw):
		return errNotUTF8
	case !json.Valid(raw):
		return errNotJSON
	}
	return nil
}

func parseValue(d *json.Decoder, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	tok, err := d.Token()
	if err != nil {
		return nil, errNotJSON
	}
	switch t := tok.(type) {
	case nil:
		return &value{kind: 'n', text: "null"}, nil
	case bool:
		return &value{kind: 'b', text: fmt.Sprint(t)}, nil
	case json.Number:
		return &value{kind: '#', text: t.String()}, nil
	case string:
		return &value{kind: 's', text: t}, nil
	case json.Delim:
		if t == '[' {
			return parseList(d, depth)
		}
		return parseObject(d, depth)
	}
	return nil, errNotJSON
}

func parseList(d *json.Decoder, depth int) (*value, error) {
	v := &value{kind: '['}
	for d.More() {
		e, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.list = append(v.list, e)
	}
	_, err := d.Token()
	return v, err
}

// parseObject parses an object. A repeated key keeps its first place and its last value.
func parseObject(d *json.Decoder, depth int) (*value, error) {
	v := &value{kind: '{'}
	at := map[string]int{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, errNotJSON
		}
		key, _ := tok.(string)
		e, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if i, dup := at[key]; dup {
			v.vals[i] = e
			continue
		}
		at[key] = len(v.keys)
		v.keys = append(v.keys, key)
		v.vals = append(v.vals, e)
	}
	_, err := d.Token()
	return v, err
}

// get returns the value of key in an object, or nil.
func (v *value) get(key string) *value {
	if v == nil || v.kind != '{' {
		return nil
	}
	for i, k := range v.keys {
		if k == key {
			return v.vals[i]
		}
	}
	return nil
}

// str returns the string at key.
func (v *value) str(key string) (string, bool) {
	if s := v.get(key); s != nil && s.kind == 's' {
		return s.text, true
	}
	return "", false
}

// elems returns the list at key and whether there is one.
func (v *value) elems(key string) ([]*value, bool) {
	if l := v.get(key); l != nil && l.kind == '[' {
		return l.list, true
	}
	return nil, false
}

// takesNothing reports whether a schema of parameters has no parameters.
func (v *value) takesNothing() bool {
	if v == nil || v.kind == 'n' {
		return true
	}
	if v.kind != '{' {
		return false
	}
	if len(v.keys) == 0 {
		return true
	}
	typ, _ := v.str("type")
	return typ == "object" && v.get("oneOf") == nil &&
		(v.get("properties") == nil || v.get("properties").kind == '{' && len(v.get("properties").keys) == 0)
}

// json returns the value as JSON without white space.
func (v *value) json() string {
	var b bytes.Buffer
	v.writeJSON(&b)
	return b.String()
}

func (v *value) writeJSON(b *bytes.Buffer) {
	switch v.kind {
	case 's':
		writeString(b, v.text)
	case '[':
		b.WriteByte('[')
		for i, e := range v.list {
			if i > 0 {
				b.WriteByte(',')
			}
			e.writeJSON(b)
		}
		b.WriteByte(']')
	case '{':
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, k)
			b.WriteByte(':')
			v.vals[i].writeJSON(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(v.text)
	}
}

// writeString writes a JSON string without the escapes that only HTML needs.
func writeString(w io.Writer, s string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	_, _ = w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// compactJSON checks a schema and returns it without insignificant white space.
func compactJSON(raw json.RawMessage) (string, error) {
	v, err := parseSchema(raw)
	if err != nil {
		return "", err
	}
	if v == nil {
		return "", errNotJSON
	}
	return v.json(), nil
}
