package openai

import (
	"encoding/json"
	"reflect"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Forms are the fields that give the answer's text a form. At most one may be set. A form that cannot be enforced
// exactly is refused before anything is generated, whatever strict says.
type Forms struct {
	ResponseFormat json.RawMessage `json:"response_format" api:"#ResponseFormat" of:"Form,ResponseFormat"`
	// Another way to give a schema for the answer.
	ResponseSchema json.RawMessage `json:"response_schema" api:"#ResponseSchema"`
	JSONSchema     json.RawMessage `json:"json_schema" api:"#SchemaOrText"`
	// A grammar for the answer in GBNF, the notation of llama.cpp. An empty text counts as left out.
	Grammar json.RawMessage `json:"grammar" api:"string"`
	// A regular expression (ECMA-262) that the whole answer must match.
	Regex      json.RawMessage `json:"regex" api:"string[1..]"`
	Choice     json.RawMessage `json:"choice" api:"#Choices"`
	GuidedJSON json.RawMessage `json:"guided_json" api:"#SchemaOrText"`
	// Another name of `regex`.
	GuidedRegex  json.RawMessage `json:"guided_regex" api:"string[1..]"`
	GuidedChoice json.RawMessage `json:"guided_choice" api:"#Choices"`
	// A grammar in GBNF or, if it has no `::=`, in the notation of Lark.
	GuidedGrammar json.RawMessage `json:"guided_grammar" api:"string"`
	// The form of the answer, in the way of vLLM. Set one of its fields.
	StructuredOutputs json.RawMessage `json:"structured_outputs" api:"#StructuredOutputs"`
}

// source returns the form that the request asks for and the field with it. It sets in req what the prompt says
// about the form.
func (f *Forms) source(req *generation.Request) (grammar.Source, string, error) {
	type field struct {
		name string
		raw  json.RawMessage
		read func(raw json.RawMessage, path string, req *generation.Request) (grammar.Source, error)
	}
	fields := []field{
		{"response_format", f.ResponseFormat, responseFormat}, {"response_schema", f.ResponseSchema, responseSchema},
		{"json_schema", f.JSONSchema, schemaForm}, {"grammar", f.Grammar, grammarForm}, {"regex", f.Regex, regexForm},
		{"choice", f.Choice, choiceForm}, {"guided_json", f.GuidedJSON, schemaForm},
		{"guided_regex", f.GuidedRegex, regexForm},
		{"guided_choice", f.GuidedChoice, choiceForm}, {"guided_grammar", f.GuidedGrammar, eitherGrammar},
	}
	if wire.Given(f.StructuredOutputs) {
		var s struct {
			JSON       json.RawMessage `json:"json"`
			JSONObject bool            `json:"json_object"`
			Regex      json.RawMessage `json:"regex"`
			Choice     json.RawMessage `json:"choice"`
			Grammar    json.RawMessage `json:"grammar"`
			Structural json.RawMessage `json:"structural_tag"`
		}
		const at = "structured_outputs"
		if err := wire.Object(at, f.StructuredOutputs, &s); err != nil {
			return grammar.Source{}, "", err
		}
		if wire.Given(s.Structural) {
			return grammar.Source{}, "", wire.Unsupported(at+".structural_tag", "structural tags are not known here")
		}
		fields = append(fields, field{at + ".json", s.JSON, schemaForm}, field{at + ".regex", s.Regex, regexForm},
			field{at + ".choice", s.Choice, choiceForm}, field{at + ".grammar", s.Grammar, eitherGrammar})
		if s.JSONObject {
			fields = append(fields, field{at + ".json_object", f.StructuredOutputs,
				func(json.RawMessage, string, *generation.Request) (grammar.Source, error) {
					return grammar.AnyObject(), nil
				}})
		}
	}
	var form grammar.Source
	name := ""
	req.ResponseFormat = nil
	for _, field := range fields {
		if !wire.Given(field.raw) {
			continue
		}
		next, err := field.read(field.raw, field.name, req)
		switch {
		case err != nil:
			return form, "", err
		case next.IsZero(), name != "" && reflect.DeepEqual(next, form):
		case name != "":
			return form, "", conflict(name, field.name)
		default:
			form, name = next, field.name
		}
	}
	return form, name, nil
}

func responseFormat(raw json.RawMessage, path string, req *generation.Request) (form grammar.Source, err error) {
	var f struct {
		Type string `json:"type"`
		// JSONSchema is OpenAI's field for a schema, Schema llama.cpp's.
		JSONSchema json.RawMessage `json:"json_schema"`
		Schema     json.RawMessage `json:"schema"`
	}
	if err := wire.Object(path, raw, &f); err != nil {
		return form, err
	}
	switch f.Type {
	case "text":
		return form, nil
	case "json_object":
		if wire.Given(f.Schema) {
			return schemaForm(f.Schema, path+".schema", req)
		}
		return grammar.AnyObject(), nil
	case "json_schema":
		if !wire.Given(f.JSONSchema) && wire.Given(f.Schema) {
			return schemaForm(f.Schema, path+".schema", req)
		}
		path += ".json_schema"
		var s struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
		}
		if err := wire.Object(path, f.JSONSchema, &s); err != nil {
			return form, err
		}
		if s.Name, err = contract.SchemaName(path, s.Name); err != nil {
			return form, err
		}
		form, err := schemaForm(s.Schema, path+".schema", req)
		if err == nil && wire.Is(s.Schema, '{') {
			req.ResponseFormat = &chattemplate.ResponseFormat{Name: s.Name, Description: s.Description, Schema: s.Schema}
		}
		return form, err
	case "":
		return form, wire.Invalid(path+".type", "it is missing; text, json_object and json_schema are known")
	}
	return form, wire.Unsupported(path+".type", "%q is not known here; text, json_object and json_schema are",
		wire.Clip(f.Type))
}

func responseSchema(raw json.RawMessage, path string, _ *generation.Request) (grammar.Source, error) {
	return contract.ResponseSchema(path, raw)
}

func schemaForm(raw json.RawMessage, path string, _ *generation.Request) (grammar.Source, error) {
	return contract.Schema(path, raw)
}

func grammarForm(raw json.RawMessage, path string, _ *generation.Request) (grammar.Source, error) {
	text, err := wire.Text(path, raw)
	if err != nil || text == "" {
		return grammar.Source{}, err // llama.cpp's web page sends an empty grammar if there is none
	}
	return grammar.GBNF(text), nil
}

// eitherGrammar reads a grammar as vLLM does: one without "::=" is Lark's.
func eitherGrammar(raw json.RawMessage, path string, req *generation.Request) (grammar.Source, error) {
	text, err := wire.Text(path, raw)
	if err != nil || text == "" || strings.Contains(text, "::=") {
		return grammarForm(raw, path, req)
	}
	pattern, err := contract.LarkPattern(text)
	if err != nil {
		return grammar.Source{}, wire.Unsupported(path, "%v", err)
	}
	return grammar.Regex("^(?:" + pattern + ")$"), nil
}

func regexForm(raw json.RawMessage, path string, _ *generation.Request) (grammar.Source, error) {
	text, err := wire.Text(path, raw)
	if err == nil && text == "" {
		err = wire.Invalid(path, "the pattern is empty")
	}
	return grammar.Regex(text), err
}

func choiceForm(raw json.RawMessage, path string, _ *generation.Request) (grammar.Source, error) {
	if !wire.Is(raw, '[') {
		return grammar.Source{}, wire.Invalid(path, "it has to be a list of strings")
	}
	var list []string
	if err := wire.UnmarshalAt(path, raw, &list); err != nil {
		return grammar.Source{}, err
	}
	return grammar.Choices(list...), nil
}
