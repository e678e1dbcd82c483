package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// tag is the content of a tag api.
type tag struct {
	kinds      []schema
	attributes schema
	required   bool
	// typed says that the tag gives the type of the values. Otherwise the Go type does, and the first of kinds has only
	// limits.
	typed bool
}

// parseTag reads a tag. A tag has kinds of values, separated by |, and then attributes, separated by spaces. The kinds
// are:
//
//	string, integer, number, boolean, object, null, any
//	[0..2]               the field's Go type, with limits
//	string[1..1024]      a text of 1 to 1024 characters
//	=low,high            one of these texts, numbers or truth values
//	#Usage               the schema Usage
//	#Biases[..9]         the schema Biases, which has these limits too
//	[]string, [1..16]#X  a list, and one of 1 to 16 entries
//	{string}, {}[..64]   an object with any names whose values are texts, and one of at most 64 values of any kind
//	[]number?            a list whose entries may be null; with []number|null the list itself may be null
//
// Package wire reads limits from the same tags and checks them in requests: the maximum number of entries of all kinds,
// and the range of numbers, the maximum length of texts, in bytes, and their lists, where the field's Go type is a
// number or a text.
//
// The attributes are required, deprecated, default=VALUE, example=TEXT,TEXT, const=VALUE and not=VALUE.
func parseTag(text string) (*tag, error) {
	kinds, rest, _ := strings.Cut(text, " ")
	if word, _, _ := strings.Cut(kinds, "="); isAttribute(word) {
		kinds, rest = "", text
	}
	t := &tag{attributes: schema{}}
	for kind := range strings.SplitSeq(kinds, "|") {
		s, err := parseKind(kind)
		if err != nil {
			return nil, err
		}
		t.kinds = append(t.kinds, s)
	}
	t.typed = kinds != "" && kinds[0] != '|' && (kinds[0] != '[' || len(t.kinds[0]) != 1 || t.kinds[0]["limits"] == nil)
	for word := range strings.FieldsSeq(rest) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "required":
			t.required = true
		case "deprecated":
			t.attributes[name] = true
		case "default", "const":
			t.attributes[name] = valueOf(value)
		case "not":
			t.attributes[name] = schema{"const": valueOf(value)}
		case "example":
			t.attributes["examples"] = strings.Split(value, ",")
		default:
			return nil, fmt.Errorf(": the tag api has the attribute %q", name)
		}
	}
	return t, nil
}

func isAttribute(word string) bool {
	switch word {
	case "required", "deprecated", "default", "example", "const", "not":
		return true
	}
	return false
}

// valueOf reads a JSON value. Any other text is a string without quotes.
func valueOf(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// parseKind reads one kind of values.
func parseKind(text string) (s schema, err error) {
	s = schema{}
	word, limits := text, ""
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if limits, word, ok = strings.Cut(inner, "]"); !ok {
			return nil, fmt.Errorf(": the tag api has %q", text)
		}
		if word == "" { // the type says the rest
			return schema{"limits": limits}, nil
		}
		s["type"] = "array"
		s["items"], err = parseKind(word)
		return s, errors.Join(err, limit(s, limits))
	}
	if word, ok := strings.CutSuffix(text, "?"); ok {
		s, err = parseKind(word)
		return join([]schema{s, {"type": "null"}}), err
	}
	if i := strings.LastIndexByte(text, '['); i > strings.LastIndexByte(text, '}') {
		word, limits = text[:i], strings.TrimSuffix(text[i+1:], "]")
	}
	switch {
	case word == "":
	case word[0] == '#':
		return reference(word[1:]), nil
	case word[0] == '{':
		s["type"], s["additionalProperties"] = "object", any(true)
		if values := word[1 : len(word)-1]; values != "" {
			s["additionalProperties"], err = parseKind(values)
		}
	case word[0] == '=':
		s["type"], s["enum"] = oneOf(strings.Split(word[1:], ","))
	case word != "any":
		s["type"] = word
	}
	return s, errors.Join(err, limit(s, limits))
}

// oneOf returns the type and the list of the given values: numbers, true or false, or texts.
func oneOf(words []string) (typ string, values []any) {
	typ = "string"
	for _, word := range words {
		switch _, err := strconv.Atoi(word); {
		case err == nil:
			typ = "integer"
			values = append(values, json.Number(word))
		case word == "true" || word == "false":
			typ = "boolean"
			values = append(values, word == "true")
		default:
			values = append(values, word)
		}
	}
	return typ, values
}

// keywords are the names of the limits of each type.
var keywords = map[any][2]string{
	"integer": {"minimum", "maximum"}, "number": {"minimum", "maximum"}, "string": {"minLength", "maxLength"},
	"array": {"minItems", "maxItems"}, "object": {"minProperties", "maxProperties"},
}

// limit adds limits to a schema. The names of the limits depend on the schema's type.
func limit(s schema, limits string) error {
	low, high, ok := strings.Cut(limits, "..")
	if limits != "" && (!ok || keywords[s["type"]][0] == "") {
		return fmt.Errorf(": the tag api has the limits %q", limits)
	}
	for i, bound := range []string{low, high} {
		if bound != "" {
			s[keywords[s["type"]][i]] = json.Number(bound)
		}
	}
	return nil
}

// join returns the schema of values of one of several kinds.
func join(kinds []schema) schema {
	switch last := kinds[len(kinds)-1]; {
	case len(kinds) == 1:
		return kinds[0]
	case len(kinds) == 2 && last["type"] == "null" && kinds[0]["type"] != nil:
		s := kinds[0]
		s["type"] = []any{s["type"], "null"}
		if values, ok := s["enum"].([]any); ok {
			s["enum"] = append(values, nil)
		}
		return s
	}
	return schema{"oneOf": kinds}
}
