package contract

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"runner/chattemplate"
	"runner/grammar"
	"runner/grammar/lark"
	"runner/grammar/regex"
	"runner/reasoning"
	"runner/server/wire"
)

// Models call functions with JSON. So a model sees a custom tool as a function with one string parameter. The text of a
// call is taken out of the JSON as it arrives.

// CustomTool is a custom tool in a request.
//
// A tool whose argument is free text. The model sees a function with one string parameter. A call has only the text.
//
//openapi:request CustomTool
type CustomTool struct {
	// The name. The rules are those for names of functions.
	Name string `json:"name" api:"[1..256] required"`
	// What the tool does. The model reads this.
	Description *string         `json:"description" api:"|null"`
	Format      json.RawMessage `json:"format" api:"#CustomFormat"`
}

// customFormat says which texts the argument of a custom tool may be.
type customFormat struct {
	Type       string         `json:"type"`
	Syntax     string         `json:"syntax"`
	Definition string         `json:"definition"`
	Grammar    *customGrammar `json:"grammar"`
}

// customGrammar is the grammar of a custom tool's argument.
//
//openapi:request CustomGrammar
type customGrammar struct {
	// The language of `definition`.
	Syntax string `json:"syntax" api:"=lark,regex required"`
	// The grammar.
	Definition string `json:"definition" api:"required"`
}

// Tool returns the function that stands for the custom tool at path. The argument has to match the grammar if the
// model's format can enforce that.
func (c *CustomTool) Tool(path string) (chattemplate.Tool, error) {
	tool := chattemplate.Tool{Name: c.Name, Strict: true}
	if !chattemplate.ValidName(c.Name) {
		return tool, wire.Invalid(path+".name", chattemplate.NameAdvice)
	}
	pattern, grammar, err := readFormat(c.Format, path+".format")
	if err != nil {
		return tool, err
	}
	if c.Description != nil {
		tool.Description = *c.Description
	}
	tool.Description = strings.TrimSpace(tool.Description + "\n" + "The input is free text." + grammar)
	input := map[string]any{"type": "string"}
	if pattern != "" {
		input["pattern"] = pattern
	}
	tool.Parameters, _ = json.Marshal(map[string]any{ // texts can always be written
		"type": "object", "properties": map[string]any{"input": input}, "required": []string{"input"},
		"additionalProperties": false,
	})
	return tool, nil
}

// readFormat returns the pattern that an argument has to match, and what the model is told about it. An empty pattern
// allows any text.
func readFormat(raw json.RawMessage, path string) (pattern, told string, err error) {
	if !wire.Given(raw) {
		return "", "", nil
	}
	var f customFormat
	if raw[0] != '{' {
		return "", "", wire.Invalid(path, "it takes an object")
	}
	if err := wire.UnmarshalAt(path, raw, &f); err != nil {
		return "", "", err
	}
	g := customGrammar{f.Syntax, f.Definition}
	switch f.Type {
	case "text":
		return "", "", nil
	case "grammar":
	default:
		return "", "", wire.Invalid(path+".type", "it takes text or grammar")
	}
	if f.Grammar != nil {
		g, path = *f.Grammar, path+".grammar"
	}
	switch g.Syntax {
	case "regex":
		pattern = g.Definition
		_, err = regex.Parse(pattern)
	case "lark":
		pattern, err = lark.Pattern(g.Definition)
	default:
		return "", "", wire.Invalid(path+".syntax", "it takes lark or regex")
	}
	if err != nil {
		return "", "", wire.Unsupported(path+".definition", "%v", err)
	}
	return "^(?:" + pattern + ")$", " It has to match this grammar (" + g.Syntax + "):\n" + g.Definition, nil
}

// SchemaName returns the name of a schema as the prompt shows it: white space becomes "_", and the default is answer.
// path is that of the object with the name.
func SchemaName(path, name string) (string, error) {
	name = strings.Join(strings.Fields(cmp.Or(name, "answer")), "_")
	if !chattemplate.ValidName(name) {
		return "", wire.Invalid(path+".name", chattemplate.NameAdvice)
	}
	return name, nil
}

// ResponseSchema reads response_schema: a JSON Schema for the answer in an object of type json.
func ResponseSchema(path string, raw json.RawMessage) (form grammar.Source, err error) {
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if err := wire.Object(path, raw, &f); err != nil {
		return form, err
	}
	if f.Type != "json" {
		return form, wire.Unsupported(path+".type", "%q is not known here; json is", wire.Clip(f.Type))
	}
	return Schema(path+".schema", f.Schema)
}

// Schema reads a JSON Schema for the answer. It may be a text, as vLLM takes it.
func Schema(path string, raw json.RawMessage) (form grammar.Source, err error) {
	if wire.Is(raw, '"') {
		text, err := wire.Text(path, raw)
		if err != nil {
			return form, err
		}
		raw = json.RawMessage(text)
		if !json.Valid(raw) {
			return form, wire.Invalid(path, "the text is not JSON")
		}
		return grammar.JSONSchema(raw), nil
	}
	if !wire.Is(raw, '{') && !wire.Is(raw, 't') && !wire.Is(raw, 'f') {
		return form, wire.Invalid(path, "it has to be a JSON Schema")
	}
	return grammar.JSONSchema(raw), nil
}

// LarkPattern returns the regular expression that a grammar in Lark's language stands for.
func LarkPattern(definition string) (string, error) { return lark.Pattern(definition) }

// FreeInput returns the arguments that stand for the text of a call of a custom tool.
func FreeInput(text string) string { return `{"input":` + wire.Quote(text) + `}` }

// FreeCalls takes the texts of calls of custom tools out of a run's events. The zero value knows no custom tools.
type FreeCalls struct {
	// Names are the names of the custom tools.
	Names map[string]bool
	// To gets the events.
	To func(*reasoning.Event) error
	// open reads the current call. It is nil if that is a call of a function.
	open *freeText
}

// Push passes on an event. The text of a custom tool's call is taken out of the JSON. Deltas without text are left out.
func (f *FreeCalls) Push(e *reasoning.Event) error {
	if len(f.Names) == 0 || e.Segment != reasoning.ToolCall {
		return f.To(e)
	}
	switch e.Kind {
	case reasoning.SegmentStart:
		if f.open = nil; f.Names[e.Call.Name] {
			f.open = &freeText{}
		}
	case reasoning.SegmentDelta:
		if f.open != nil {
			return f.say(e, f.open.push(e.Text))
		}
	case reasoning.SegmentEnd:
		if f.open != nil {
			rest := *e
			rest.Kind = reasoning.SegmentDelta
			if err := f.say(&rest, f.open.end()); err != nil {
				return err
			}
		}
		f.open = nil
	}
	return f.To(e)
}

func (f *FreeCalls) say(e *reasoning.Event, text string) error {
	if text == "" {
		return nil
	}
	said := *e
	said.Text = text
	return f.To(&said)
}

// freeText takes the text out of {"input": "..."} as it arrives. Anything in another form is passed on unchanged.
type freeText struct {
	place freePlace
	// held is what cannot be read yet: the beginning, or half an escape.
	held string
}

type freePlace uint8

const (
	freeHead freePlace = iota
	freeInside
	freeOver
	freeRaw
)

func (f *freeText) push(text string) string {
	switch f.place {
	case freeOver:
		return ""
	case freeRaw:
		return text
	}
	f.held += text
	if f.place == freeHead {
		rest, found, impossible := cutHead(f.held)
		switch {
		case impossible:
			f.place = freeRaw
			return f.end()
		case !found:
			return ""
		}
		f.place, f.held = freeInside, rest
	}
	return f.inside()
}

// end returns what is left at the end of the call.
func (f *freeText) end() string {
	held := f.held
	if f.held = ""; f.place == freeInside || f.place == freeOver {
		return "" // half an escape
	}
	return held
}

// cutHead removes what comes before the text. impossible means that the JSON begins in another way.
func cutHead(text string) (rest string, found, impossible bool) {
	for _, part := range []string{"{", `"input"`, ":", `"`} {
		text = strings.TrimLeft(text, " \t\r\n")
		switch {
		case strings.HasPrefix(text, part):
			text = text[len(part):]
		case strings.HasPrefix(part, text):
			return "", false, false // there is more to come
		default:
			return "", false, true
		}
	}
	return text, true, false
}

// inside decodes the text as far as it is complete.
func (f *freeText) inside() string {
	var b strings.Builder
	for f.held != "" {
		switch i := strings.IndexAny(f.held, `\"`); {
		case i < 0:
			b.WriteString(f.held)
			f.held = ""
		case i > 0:
			b.WriteString(f.held[:i])
			f.held = f.held[i:]
		case f.held[0] == '"':
			f.place, f.held = freeOver, ""
		default:
			r, length := escaped(f.held)
			if length == 0 {
				return b.String()
			}
			b.WriteRune(r)
			f.held = f.held[length:]
		}
	}
	return b.String()
}

// escaped reads the escape at the beginning of a text. The length is 0 if the escape is incomplete.
func escaped(text string) (r rune, length int) {
	if len(text) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`nrtbf`, text[1]); i >= 0 {
		return rune("\n\r\t\b\f"[i]), 2
	}
	if text[1] != 'u' {
		r, n := utf8.DecodeRuneInString(text[1:])
		return r, 1 + n
	}
	if len(text) < 6 {
		return 0, 0
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return utf8.RuneError, 2
	}
	if r = rune(n); !utf16.IsSurrogate(r) {
		return r, 6
	}
	switch low := text[6:]; {
	case len(low) < 6 && strings.HasPrefix(`\u`, low[:min(2, len(low))]):
		return 0, 0
	case len(low) >= 6 && strings.HasPrefix(low, `\u`):
		if n, err := strconv.ParseUint(low[2:6], 16, 16); err == nil {
			if pair := utf16.DecodeRune(r, rune(n)); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return utf8.RuneError, 6
}
