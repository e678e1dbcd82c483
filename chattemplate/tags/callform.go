package tags

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/parameters"
	"runner/grammar"
)

// callForm makes the forms of calls in one style.
type callForm struct {
	style *markup.CallStyle
	marks []callMark
	// single allows at most one call.
	single bool
}

// callMark is a mark of the style that is a token of the vocabulary. In the grammar it is a byte that never occurs in
// UTF-8. So an argument that spells the mark as text is not mistaken for it.
type callMark struct {
	token backend.Token
	text  string
	byte  string
}

// markBytes are bytes that never occur in UTF-8.
const markBytes = "\xF8\xF9\xFA\xFB\xFC\xFD\xFE\xFF\xF5\xF6\xF7\xC0\xC1"

// newCallForm finds the marks of a style in a vocabulary.
func newCallForm(v *backend.Vocab, style *markup.CallStyle, single bool) *callForm {
	f := &callForm{style: style, single: single}
	literals := (&markup.Format{Calls: style}).Texts()
	for text, t := range v.Specials {
		if isMark(text) && slices.ContainsFunc(literals, func(l string) bool { return strings.Contains(l, text) }) {
			f.marks = append(f.marks, callMark{token: t, text: text})
		}
	}
	slices.SortFunc(f.marks, func(a, b callMark) int { return len(b.text) - len(a.text) })
	f.marks = f.marks[:min(len(f.marks), len(markBytes))]
	for i := range f.marks {
		f.marks[i].byte = markBytes[i : i+1]
	}
	return f
}

// mark returns the mark with a token.
func (f *callForm) mark(t backend.Token) (callMark, bool) {
	for _, m := range f.marks {
		if m.token == t {
			return m, true
		}
	}
	return callMark{}, false
}

// standsForMark reports whether a text contains a byte that stands for a mark.
func (f *callForm) standsForMark(text string) bool {
	for _, m := range f.marks {
		if strings.Contains(text, m.byte) {
			return true
		}
	}
	return false
}

// isMark reports whether a special token marks structure. Others are ordinary text, such as a run of spaces.
func isMark(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return len(text) > 2 && !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// text returns the form of a literal.
func (f *callForm) text(s string) grammar.Source {
	for _, m := range f.marks {
		s = strings.ReplaceAll(s, m.text, m.byte)
	}
	return grammar.Choices(s)
}

// space returns the form of the white space before a token.
func (f *callForm) space(s string) []grammar.Source {
	switch {
	case s == "":
		return nil
	case strings.Contains(s, "\n"):
		return []grammar.Source{grammar.Choices(s)}
	}
	return []grammar.Source{grammar.Optional(grammar.Choices(s))}
}

// tokens returns the form of a pattern. places has the forms of its places.
func (f *callForm) tokens(tokens []markup.CallToken,
	places map[markup.CallPlace]grammar.Source) []grammar.Source {
	var out []grammar.Source
	for _, t := range tokens {
		out = append(out, f.space(t.Space)...)
		switch form, ok := places[t.Place]; {
		case ok:
			out = append(out, form)
		case t.Place == markup.IDPlace:
			out = append(out, grammar.Regex(`[0-9A-Za-z]{1,40}`))
		case t.Text != "":
			out = append(out, f.text(t.Text))
		}
	}
	return out
}

// namePattern matches names of functions and parameters that cannot be confused with the text around them.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./:-]*$`)

// block returns the form of a block of calls, without its opening mark.
func (f *callForm) block(tools []chattemplate.Tool) (grammar.Source, error) {
	s := f.style
	calls := make([]grammar.Source, len(tools))
	for i, tool := range tools {
		var err error
		if calls[i], err = f.call(tool); err != nil {
			return grammar.Source{}, fmt.Errorf("%s: %w", tool.Name, err)
		}
	}
	call := grammar.AnyOf(calls...)
	var parts []grammar.Source
	if s.List != nil {
		parts = append(parts, f.tokens(s.List[:1], nil)...)
	}
	parts = append(parts, call)
	if !f.single && (s.List != nil || s.Many) {
		between := f.space(s.Between)
		if s.List != nil {
			between = f.tokens(s.List[1:2], nil)
		}
		parts = append(parts, grammar.Repeat(grammar.Sequence(append(between, call)...)))
	}
	if s.List != nil {
		parts = append(parts, f.tokens(s.List[2:], nil)...)
	}
	return grammar.Sequence(append(parts, f.tokens(s.Close, nil)...)...), nil
}

// call returns the form of a call of one function.
func (f *callForm) call(tool chattemplate.Tool) (grammar.Source, error) {
	if !namePattern.MatchString(tool.Name) {
		return grammar.Source{}, errors.New("this name could be confused with the text around it")
	}
	parts := f.tokens(f.style.Head, map[markup.CallPlace]grammar.Source{markup.NamePlace: grammar.Choices(
		tool.Name)})
	switch {
	case f.style.Param != nil:
		params, err := f.params(tool)
		if err != nil {
			return grammar.Source{}, err
		}
		parts = append(parts, params...)
	case tool.Strict && len(tool.Parameters) > 0:
		parts = append(parts, grammar.JSONSchema(parameters.AsObject(tool.Parameters)))
	case parameters.None(tool.Parameters):
		parts = append(parts, parameters.Plain(tool.Parameters))
	default:
		parts = append(parts, grammar.AnyObject())
	}
	return grammar.Sequence(append(parts, f.tokens(f.style.Tail, nil)...)...), nil
}

// schemaOf has the parts of a schema that can be enforced if arguments are written one by one.
type schemaOf struct {
	properties  []parameters.Property
	required    []string
	definitions []byte // members for references, each followed by a comma
}

// readSchema reads the schema of a strict function.
func readSchema(schema json.RawMessage) (*schemaOf, error) {
	p := &schemaOf{}
	top, err := parameters.Members(schema)
	if err != nil {
		return nil, err
	}
	for _, m := range top {
		switch m.Name {
		case "properties":
			if p.properties, err = parameters.Members(m.Schema); err != nil {
				return nil, err
			}
		case "required":
			if err := json.Unmarshal(m.Schema, &p.required); err != nil {
				return nil, err
			}
		case "$defs", "definitions":
			p.definitions = slices.Concat(p.definitions, quoted(m.Name), m.Schema, []byte(","))
		case "type", "additionalProperties", "description", "title", "$schema", "$id", "$comment":
		default:
			return nil, fmt.Errorf("keyword %s cannot be enforced, because this model writes arguments one by one", m.Name)
		}
	}
	known := make(map[string]bool, len(p.properties))
	for _, property := range p.properties {
		known[property.Name] = true
	}
	for _, name := range p.required {
		if !known[name] {
			known[name] = true
			p.properties = append(p.properties, parameters.Property{Name: name, Schema: json.RawMessage(`{}`)})
		}
	}
	return p, nil
}

// params returns the form of arguments that are written one by one. Those of a strict function come in the order of its
// schema.
func (f *callForm) params(tool chattemplate.Tool) ([]grammar.Source, error) {
	if !tool.Strict || len(tool.Parameters) == 0 {
		return []grammar.Source{grammar.Repeat(f.param(grammar.Regex(`[A-Za-z0-9_.-]{1,64}`), "",
			grammar.Without(f.stop())))}, nil
	}
	p, err := readSchema(tool.Parameters)
	if err != nil {
		return nil, err
	}
	var out []grammar.Source
	for _, prop := range p.properties {
		if !namePattern.MatchString(prop.Name) {
			return nil, fmt.Errorf("parameter %q: this name could be confused with the text around it", prop.Name)
		}
		form, kind, err := f.value(prop.Schema, p.definitions)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", prop.Name, err)
		}
		param := f.param(grammar.Choices(prop.Name), kind, form)
		if !slices.Contains(p.required, prop.Name) {
			param = grammar.Optional(param)
		}
		out = append(out, param)
	}
	return out, nil
}

// stop returns the mark after a value.
func (f *callForm) stop() string {
	i := slices.IndexFunc(f.style.Param, func(t markup.CallToken) bool { return t.Place == markup.ValuePlace })
	return f.style.Param[i+1].Text
}

// param returns the form of one argument. kind is "true" if it is a string, "false" if not, and empty for either.
func (f *callForm) param(key grammar.Source, kind string, value grammar.Source) grammar.Source {
	kinds := grammar.Choices("true", "false")
	if kind != "" {
		kinds = grammar.Choices(kind)
	}
	return grammar.Sequence(f.tokens(f.style.Param, map[markup.CallPlace]grammar.Source{
		markup.KeyPlace: key, markup.ValuePlace: value, markup.KindPlace: kinds,
	})...)
}

// value returns the form of an argument's value. kind is "true" if the value is a string, and else "false".
func (f *callForm) value(schema json.RawMessage, definitions []byte) (form grammar.Source, kind string, err error) {
	stop := f.stop()
	if !isString(schema) {
		if bytes.Contains(schema, []byte("</")) || bytes.Contains(definitions, []byte("</")) {
			return form, "", fmt.Errorf("a schema with %q cannot be enforced, because %s ends a value", "</", stop)
		}
		if trimmed := bytes.TrimSpace(schema); len(definitions) > 0 && trimmed[0] == '{' {
			rest := trimmed[1:]
			if len(bytes.TrimSpace(rest)) == 1 {
				definitions = bytes.TrimSuffix(definitions, []byte(","))
			}
			schema = slices.Concat([]byte("{"), definitions, rest)
		}
		return grammar.Except(grammar.JSONSchema(schema), stop), "false", nil
	}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(schema, &s); err != nil {
		return form, "", err
	}
	form = grammar.Without(stop)
	for name, v := range s {
		var list []string
		switch name {
		case "type", "title", "description", "default", "examples", "$comment":
			continue
		case "enum":
			err = json.Unmarshal(v, &list)
		case "const":
			list = []string{""}
			err = json.Unmarshal(v, &list[0])
		default:
			err = fmt.Errorf("keyword %s cannot be enforced, because this model writes strings without quotes", name)
		}
		switch {
		case err != nil:
			return form, "", err
		case slices.ContainsFunc(list, func(s string) bool { return s == "" || strings.Contains(s, stop) }):
			return form, "", fmt.Errorf("a value cannot be empty or contain %s", stop)
		}
		form = grammar.Choices(list...)
	}
	return form, "true", nil
}

// isString reports whether the type of a schema is string.
func isString(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "string"
}

// quoted returns a member's name as JSON text with a colon after it.
func quoted(name string) []byte {
	text, _ := json.Marshal(name) // a string can always be encoded
	return append(text, ':')
}

// stringParam reports whether a function's parameter is a string.
func stringParam(tools []chattemplate.Tool, function, parameter string) bool {
	for _, tool := range tools {
		var s struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if tool.Name == function && json.Unmarshal(tool.Parameters, &s) == nil {
			return isString(s.Properties[parameter])
		}
	}
	return false
}
