// Package parameters turns the JSON Schema of a function's parameters into forms for the arguments of its calls.
package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"runner/grammar"
)

// maxChoices is the maximum choices of one parameter that Plain enforces.
const maxChoices = 128

// AsObject returns a schema that admits only the objects that schema admits. It does not wrap the schema, because
// references in it start at its root. A schema that it cannot change is returned unchanged.
func AsObject(schema json.RawMessage) []byte {
	var members map[string]json.RawMessage
	if string(schema) == "true" {
		members = map[string]json.RawMessage{}
	} else if json.Unmarshal(schema, &members) != nil || members == nil {
		return schema
	}
	if kind, ok := members["type"]; ok {
		switch types := typesOf(kind); {
		case types == nil:
			return schema // compiling it reports the error
		case string(kind) == `"object"`:
			return schema
		case !slices.Contains(types, "object"):
			return []byte("false")
		}
	}
	members["type"] = json.RawMessage(`"object"`)
	out, err := json.Marshal(members)
	if err != nil {
		return schema
	}
	return out
}

// Property is a member of a JSON object, for instance a property of a schema.
type Property struct {
	Name   string
	Schema json.RawMessage
}

// Members returns the members of a JSON object in their order.
func Members(object json.RawMessage) ([]Property, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(err, errors.New("the parameters are not a JSON object"))
	}
	var out []Property
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, Property{name.(string), value})
	}
	return out, nil
}

// None reports whether a function has no parameters: it has no schema, or one that lists no property and says nothing
// else of them.
func None(schema json.RawMessage) bool {
	if s := string(bytes.TrimSpace(schema)); s == "" || s == "null" {
		return true
	}
	listed, properties, required := plainObject(schema)
	return listed && len(properties)+len(required) == 0
}

// Plain returns a simple form for the arguments of a function that is not strict: objects with the names, types and
// choices of its parameters, in any order. Without parameters that is the empty object, because models invent some
// otherwise. It returns the zero Source if the schema does not list the properties or says more than such a form can
// express. Then any object is allowed.
func Plain(schema json.RawMessage) grammar.Source {
	var none grammar.Source
	if None(schema) {
		return grammar.JSONSchema([]byte(`{"type": "object", "additionalProperties": false}`))
	}
	_, properties, required := plainObject(schema)
	if len(properties) == 0 || len(properties) > grammar.MaxMembers {
		return none
	}
	must := make(map[string]bool, len(required))
	for _, name := range required {
		must[name] = true
	}
	fields := make([]grammar.Field, 0, len(properties))
	for _, p := range properties {
		fields = append(fields, grammar.Field{Name: p.Name, Value: plainValue(p.Schema), Optional: !must[p.Name]})
		delete(must, p.Name)
	}
	if len(must) > 0 {
		return none // it requires a parameter that it does not describe
	}
	return grammar.Members(fields...)
}

// plainObject returns the properties of a schema and the names of those that are required. listed is false if the
// schema has no list of properties, or says more of objects than that.
func plainObject(schema json.RawMessage) (listed bool, properties []Property, required []string) {
	top, err := Members(schema)
	if err != nil {
		return false, nil, nil
	}
	for _, m := range top {
		ok := true
		switch m.Name {
		case "properties":
			listed = true
			properties, err = Members(m.Schema)
			ok = err == nil
		case "required":
			ok = json.Unmarshal(m.Schema, &required) == nil
		case "type":
			ok = string(m.Schema) == `"object"`
		case "additionalProperties":
			ok = string(m.Schema) == "false"
		case "$defs", "definitions", "description", "title", "$schema", "$id", "$comment":
		default:
			ok = false
		}
		if !ok {
			return false, nil, nil
		}
	}
	return listed, properties, required
}

// plainValue returns the form of a parameter by its type and its choices. If these contradict each other, or null is
// allowed too, it allows any value.
func plainValue(schema json.RawMessage) grammar.Source {
	free := grammar.JSONSchema([]byte("true"))
	var value struct {
		Type     json.RawMessage   `json:"type"`
		Enum     []json.RawMessage `json:"enum"`
		Default  json.RawMessage   `json:"default"`
		Nullable bool              `json:"nullable"`
	}
	if json.Unmarshal(schema, &value) != nil || value.Nullable || string(value.Default) == "null" {
		return free
	}
	plain := map[string]any{}
	var types []string
	if value.Type != nil {
		if types = typesOf(value.Type); types == nil {
			return free
		}
		plain["type"] = types
	}
	if len(value.Enum) > 0 && len(value.Enum) <= maxChoices {
		for _, choice := range value.Enum {
			if types != nil && !slices.ContainsFunc(types, func(name string) bool { return isOf(choice, name) }) {
				return free
			}
		}
		plain["enum"] = value.Enum
	}
	out, err := json.Marshal(plain)
	if err != nil {
		return free
	}
	return grammar.JSONSchema(out)
}

// typesOf returns the types in the value of the keyword type. It returns nil if there are none or one is unknown.
func typesOf(keyword json.RawMessage) []string {
	var one string
	var types []string
	if json.Unmarshal(keyword, &one) == nil {
		types = []string{one}
	} else if json.Unmarshal(keyword, &types) != nil || len(types) == 0 {
		return nil
	}
	if slices.ContainsFunc(types, func(name string) bool { return !slices.Contains(jsonTypes, name) }) {
		return nil
	}
	return types
}

var jsonTypes = strings.Fields("object array string number integer boolean null")

// isOf reports whether a JSON value has a type.
func isOf(value json.RawMessage, name string) bool {
	switch value[0] {
	case '{':
		return name == "object"
	case '[':
		return name == "array"
	case '"':
		return name == "string"
	case 't', 'f':
		return name == "boolean"
	case 'n':
		return name == "null"
	}
	return name == "number" || name == "integer" && !strings.ContainsAny(string(value), ".eE")
}
