package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"runner/generation"
	"runner/grammar"
)

// holdArguments holds calls to the parameters of their functions: of those that say strict to the schema as it
// stands, of others to the names, the types and the choices in it, or to any object. Nobody asked for the latter,
// so it must cost little and never fail.
func (s *steering) holdArguments(ctx context.Context, r *Runner, req *generation.Request) error {
	tools := req.Tools
	if s.report {
		tools = append(tools[:len(tools):len(tools)], reportTool())
	}
	if len(tools) == 0 {
		return nil
	}
	object, err := r.grammars().Compile(ctx, grammar.AnyObject())
	if err != nil {
		return err
	}
	s.calls = make(map[string]*grammar.Grammar, len(tools))
	left := maxPlainBytes
	for _, tool := range tools {
		if tool.Strict && len(tool.Parameters) > 0 {
			if s.calls[tool.Name], err = r.grammars().Compile(ctx, grammar.JSONSchema(asObject(tool.Parameters))); err != nil {
				return &generation.RequestError{Field: "Tools", Err: fmt.Errorf("%s: %w", tool.Name, err), Advice: hint(err)}
			}
			continue
		}
		if req.ToolChoice == generation.ToolChoiceNone || s.isBuiltin(tool.Name) {
			continue
		}
		s.calls[tool.Name] = object
		if len(tool.Parameters) > left || len(tools) > maxPlainTools {
			continue
		}
		left -= len(tool.Parameters)
		form := plainArguments(tool.Parameters)
		if form.IsZero() {
			continue
		}
		if g, err := r.grammars().Compile(ctx, form); err == nil {
			s.calls[tool.Name] = g
		} else if ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// isBuiltin reports whether calls of a function cannot be told from those of one of gpt-oss's own tools, which need
// not be JSON.
func (s *steering) isBuiltin(name string) bool {
	return slices.ContainsFunc(s.builtin, func(tool any) bool {
		own, _ := tool.(string)
		return own == name || own != "" && strings.HasPrefix(name, own+".")
	})
}

const (
	// maxPlainTools and maxPlainBytes are the most functions, and bytes of their schemas, of a request whose calls
	// are held to what nobody asked for.
	maxPlainTools = 128
	maxPlainBytes = 256 << 10
	// maxChoices is the most choices of one parameter.
	maxChoices = 128
)

// plainArguments returns the form of objects with the names, types and choices of a function's parameters, and no
// others, in any order. It is zero where the schema says what cannot be told so, or names none: then the function
// may take any object.
func plainArguments(schema json.RawMessage) grammar.Source {
	var none grammar.Source
	top, err := members(schema)
	if err != nil {
		return none
	}
	var properties []property
	var required []string
	for _, m := range top {
		switch m.name {
		case "properties":
			if properties, err = members(m.schema); err != nil {
				return none
			}
		case "required":
			if json.Unmarshal(m.schema, &required) != nil {
				return none
			}
		case "type":
			if string(m.schema) != `"object"` {
				return none
			}
		case "additionalProperties":
			if string(m.schema) != "false" {
				return none
			}
		case "$defs", "definitions", "description", "title", "$schema", "$id", "$comment":
		default:
			return none
		}
	}
	if len(properties) == 0 || len(properties) > grammar.MaxMembers {
		return none
	}
	must := make(map[string]bool, len(required))
	for _, name := range required {
		must[name] = true
	}
	fields := make([]grammar.Field, 0, len(properties))
	for _, p := range properties {
		fields = append(fields, grammar.Field{Name: p.name, Value: plainValue(p.schema), Optional: !must[p.name]})
		delete(must, p.name)
	}
	if len(must) > 0 {
		return none // a function that needs what it does not describe may take any
	}
	return grammar.Members(fields...)
}

// plainValue returns the form of the type and the choices of a parameter, or any value where they do not go together.
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

// typesOf returns the types that the keyword type names, or nil where it names none or what is no type.
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

// isOf reports whether a JSON value is of a type.
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
