package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// The limits of a request, beside that of its body. Lengths are in bytes.
const (
	maxItems       = 8192
	maxParts       = 4096
	maxTools       = 1024
	maxInclude     = 64
	maxMetadata    = 16
	maxMetaKey     = 64
	maxMetaValue   = 512
	maxLabel       = 512
	maxTokens      = 1 << 24
	maxTopLogprobs = 20
)

// Values of include that this package gives; those of the reasoning are package contract's.
const includeLogprobs = "message.output_text.logprobs"

// CreateRequest asks for a response. Only input is required, or a previous response. Fields that are not listed are
// ignored.
type CreateRequest struct {
	// Model is the model's name; the server's first model where it is left out.
	Model string `json:"model"`
	// Input is a user's text, or a list of at most 8,192 items: messages (with type message or without a type),
	// function_call, function_call_output, reasoning and item_reference.
	Input json.RawMessage `json:"input" max:"8192"`
	// Instructions is a system prompt before everything else. It is not carried over by previous_response_id.
	Instructions *string `json:"instructions"`
	// PreviousResponseID names the response that this one goes on from; it has to be stored.
	PreviousResponseID *string `json:"previous_response_id"`
	// Store keeps the response for previous_response_id, item_reference and GET; true where it is left out.
	Store *bool `json:"store"`
	// Background runs on without the client; it needs store.
	Background *bool `json:"background"`
	// Stream answers with server-sent events.
	Stream *bool `json:"stream"`
	// Truncation is disabled, where a prompt that is too long is refused, or auto, where the oldest part of the
	// conversation is left out.
	Truncation *string `json:"truncation"`

	// MaxOutputTokens is the most tokens to generate, reasoning included, from 1.
	MaxOutputTokens *int `json:"max_output_tokens"`
	// MaxToolCalls bounds calls of hosted tools, of which there are none, so it has no effect.
	MaxToolCalls *int `json:"max_tool_calls"`
	// Temperature is 0 to 2 and TopP 0 to 1.
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	// TopLogprobs is how many alternatives each token of the answer comes with, 0 to 20.
	TopLogprobs *int `json:"top_logprobs"`
	// Seed makes a run repeatable: a whole number of 64 bits, with or without a sign.
	Seed json.RawMessage `json:"seed"`

	// Tools are at most 1,024 functions and custom tools. Tools of other types are left out with a warning.
	Tools []json.RawMessage `json:"tools" max:"4096"`
	// ToolChoice is none, auto, required, a function {"type": "function", "name": ...} or {"type": "allowed_tools",
	// "mode": auto or required, "tools": [functions]}.
	ToolChoice json.RawMessage `json:"tool_choice"`
	// ParallelToolCalls false allows at most one call; true where it is left out.
	ParallelToolCalls *bool `json:"parallel_tool_calls"`

	// Text says what form the answer has.
	Text *TextRequest `json:"text"`
	// ResponseSchema is {"type": "json", "schema": ...}, the same as a text.format of type json_schema.
	ResponseSchema json.RawMessage `json:"response_schema"`

	// Fields say how much of the reasoning is wanted.
	contract.Fields
	// Include names what the response is to hold beside the usual: reasoning.encrypted_content, reasoning.content,
	// message.output_text.logprobs.
	Include []string `json:"include" max:"64"`

	// Metadata holds at most 16 texts of at most 512 bytes under keys of at most 64, which the response repeats.
	Metadata map[string]string `json:"metadata" max:"16"`
	// User, SafetyIdentifier and PromptCacheKey are repeated and have no effect; at most 512 bytes each.
	User             *string `json:"user"`
	SafetyIdentifier *string `json:"safety_identifier"`
	PromptCacheKey   *string `json:"prompt_cache_key"`

	// Conversation, Prompt, ContextManagement and Moderation cannot be honoured; anything but null in them is refused.
	Conversation      json.RawMessage `json:"conversation"`
	Prompt            json.RawMessage `json:"prompt"`
	ContextManagement json.RawMessage `json:"context_management"`
	Moderation        json.RawMessage `json:"moderation"`
}

// TextRequest is the field text of a request.
type TextRequest struct {
	// Format is {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "name", "schema",
	// "description", "strict"}. The answer is held to a schema whatever strict says.
	Format json.RawMessage `json:"format"`
	// Verbosity is low, medium or high and has no effect.
	Verbosity *string `json:"verbosity"`
}

// FunctionTool is a function that the model may call, or a custom tool, whose argument is free text.
type FunctionTool struct {
	// Type is function or custom.
	Type string `json:"type"`
	// Name has no white space; at most 256 bytes.
	Name string `json:"name"`
	// Description tells the model what the function does.
	Description *string `json:"description"`
	// Parameters is a JSON Schema of an object; null for a function without parameters.
	Parameters json.RawMessage `json:"parameters"`
	// Strict holds arguments to Parameters; true where it is left out and Parameters can be honoured.
	Strict *bool `json:"strict"`
	// Format is the form of a custom tool's text: {"type": "text"}, or type grammar with syntax (lark or regex) and
	// definition.
	Format json.RawMessage `json:"format"`
}

// MarshalJSON writes the fields that a tool of its type has.
func (t FunctionTool) MarshalJSON() ([]byte, error) {
	if t.Type == typeCustomTool {
		format := t.Format
		if !wire.Given(format) {
			format = json.RawMessage(`{"type":"text"}`)
		}
		return json.Marshal(struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description *string         `json:"description"`
			Format      json.RawMessage `json:"format"`
		}{t.Type, t.Name, t.Description, format})
	}
	return json.Marshal(struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}{t.Type, t.Name, t.Description, t.Parameters, t.Strict})
}

// typeCustomTool is the type of tools whose argument is free text.
const typeCustomTool = "custom"

// asked is a request that has been read, before its conversation and model are looked up.
type asked struct {
	wire     *CreateRequest
	contract contract.Asked
	request  generation.Request
	items    []entry
	warnings []Warning
	tools    []FunctionTool
	// custom are the names of the custom tools among them.
	custom    map[string]bool
	store     bool
	truncates bool
	// loose lists the tools that are strict only because nothing was said, by their place in the request.
	loose []int
	// text is the form as the response repeats it.
	text TextEcho
}

func (q *asked) warn(code, message string) { q.warnings = append(q.warnings, Warning{code, message}) }

func is(flag *bool, otherwise bool) bool {
	if flag == nil {
		return otherwise
	}
	return *flag
}

// read makes of a request what there is to know without a store or a model. The errors are a *wire.Error.
func read(w *CreateRequest, defaults generation.Request) (*asked, error) {
	q := &asked{wire: w, request: defaults, store: is(w.Store, true)}
	steps := []func() error{q.refuse, q.labels, q.sampling, q.reasoning, q.readTools, q.toolChoice, q.form, q.input}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// refuse names what cannot be honoured.
func (q *asked) refuse() error {
	w := q.wire
	for _, f := range []struct {
		name, why string
		raw       json.RawMessage
	}{
		{"conversation", "this server keeps no conversations; previous_response_id goes on from a response", w.Conversation},
		{"prompt", "this server keeps no prompt templates; send instructions and input", w.Prompt},
		{"context_management", "this server does not compact conversations; truncation auto leaves out their oldest part",
			w.ContextManagement},
		{"moderation", "this server does not moderate", w.Moderation},
	} {
		if wire.Given(f.raw) && !(f.name == "context_management" && bytes.Equal(f.raw, emptyList)) {
			return wire.Unsupported(f.name, "%s", f.why)
		}
	}
	if is(w.Background, false) && !q.store {
		return wire.Invalid("background", "a response in the background has to be stored; leave store out or set it to true")
	}
	switch {
	case w.Truncation == nil || *w.Truncation == "disabled":
	case *w.Truncation == "auto":
		q.truncates = true
	default:
		return wire.Invalid("truncation", "it takes auto or disabled")
	}
	return nil
}

// labels checks what is only repeated.
func (q *asked) labels() error {
	w := q.wire
	if len(w.Metadata) > maxMetadata {
		return wire.Invalid("metadata", "it has %d keys and may have %d", len(w.Metadata), maxMetadata)
	}
	for k, v := range w.Metadata {
		if len(k) > maxMetaKey || len(v) > maxMetaValue {
			return wire.Invalid("metadata", "keys have at most %d bytes and values at most %d", maxMetaKey, maxMetaValue)
		}
	}
	for _, l := range []struct {
		name  string
		value *string
	}{{"user", w.User}, {"safety_identifier", w.SafetyIdentifier}, {"prompt_cache_key", w.PromptCacheKey}} {
		if l.value != nil && len(*l.value) > maxLabel {
			return wire.Invalid(l.name, "it has more than %d bytes", maxLabel)
		}
	}
	return nil
}

// sampling reads what chooses and bounds the tokens.
func (q *asked) sampling() error {
	w, r := q.wire, &q.request
	for _, f := range []struct {
		name  string
		value *int
		low   int
		to    *int
	}{
		{"max_output_tokens", w.MaxOutputTokens, 1, &r.MaxTokens}, {"max_tool_calls", w.MaxToolCalls, 0, new(int)},
	} {
		switch {
		case f.value == nil:
		case *f.value < f.low || *f.value > maxTokens:
			return wire.Invalid(f.name, "it takes %d to %d", f.low, maxTokens)
		default:
			*f.to = *f.value
		}
	}
	if err := wire.ReadTemperature("temperature", w.Temperature, &r.Sampling.Temperature); err != nil {
		return err
	}
	if err := wire.ReadTopP("top_p", w.TopP, &r.Sampling.TopP); err != nil {
		return err
	}
	r.Logprobs = slices.Contains(w.Include, includeLogprobs)
	if n := w.TopLogprobs; n != nil {
		if *n < 0 || *n > maxTopLogprobs {
			return wire.Invalid("top_logprobs", "it takes 0 to %d", maxTopLogprobs)
		}
		r.Sampling.TopLogprobs = *n
		r.Logprobs = r.Logprobs || *n > 0
	}
	seed, err := wire.ReadSeed("seed", w.Seed)
	if seed != nil {
		r.Seed = seed
	}
	return err
}

// reasoning reads how much of the reasoning is wanted.
func (q *asked) reasoning() error {
	w := q.wire
	if len(w.Include) > maxInclude {
		return wire.Invalid("include", "it has %d names and may have %d", len(w.Include), maxInclude)
	}
	ignored := false
	for _, name := range w.Include {
		ignored = ignored || name != includeLogprobs && name != contract.IncludeSealed && name != contract.IncludeContent
	}
	if ignored {
		q.warn(CodeIncludeIgnored, "include names what there is not in this response")
	}
	var err error
	if q.contract, err = w.Parse(w.Include); err != nil {
		return err
	}
	for _, n := range q.contract.Warnings {
		q.warn(n.Code, n.Text)
	}
	q.contract.Apply(&q.request)
	return nil
}

// readTools reads the functions.
func (q *asked) readTools() error {
	if len(q.wire.Tools) > maxTools {
		return wire.Invalid("tools", "there are %d and may be %d", len(q.wire.Tools), maxTools)
	}
	q.request.Tools, q.tools = nil, []FunctionTool{}
	var skipped kinds
	for i, raw := range q.wire.Tools {
		path := index("tools", i)
		kind, err := readType(path, raw)
		if err != nil {
			return err
		}
		if kind != nil && *kind != "function" && *kind != typeCustomTool {
			skipped.add(*kind)
			continue
		}
		var t FunctionTool
		if err := readObject(path, raw, &t); err != nil {
			return err
		}
		if kind == nil {
			return wire.Invalid(path+".type", "it is missing")
		}
		switch {
		case !chattemplate.ValidName(t.Name):
			return wire.Invalid(path+".name", chattemplate.NameAdvice)
		case slices.ContainsFunc(q.tools, func(o FunctionTool) bool { return o.Name == t.Name }):
			return wire.Invalid(path+".name", "another tool has the same name")
		case t.Type == typeCustomTool:
			custom := contract.CustomTool{Name: t.Name, Description: t.Description, Format: t.Format}
			tool, err := custom.Tool(path)
			if err != nil {
				return err
			}
			if q.custom == nil {
				q.custom = map[string]bool{}
			}
			q.custom[t.Name] = true
			q.tools, q.request.Tools = append(q.tools, t), append(q.request.Tools, tool)
			continue
		case !wire.Given(t.Parameters):
			t.Parameters = nil
		case t.Parameters[0] != '{':
			return wire.Invalid(path+".parameters", "it takes a JSON Schema, which is an object")
		}
		if t.Strict == nil {
			q.loose = append(q.loose, len(q.tools))
			strict := true
			t.Strict = &strict
		}
		tool := chattemplate.Tool{Name: t.Name, Parameters: t.Parameters, Strict: *t.Strict && t.Parameters != nil}
		if t.Description != nil {
			tool.Description = *t.Description
		}
		q.tools = append(q.tools, t)
		q.request.Tools = append(q.request.Tools, tool)
	}
	if skipped.count > 0 {
		q.warn(CodeToolSkipped, skipped.of("tools"))
	}
	q.request.SingleCall = !is(q.wire.ParallelToolCalls, true)
	return nil
}

// choice is the object form of tool_choice.
type choice struct {
	Type  string            `json:"type"`
	Name  string            `json:"name"`
	Mode  string            `json:"mode"`
	Tools []json.RawMessage `json:"tools"`
}

// toolChoice reads whether and what the model may or must call.
func (q *asked) toolChoice() error {
	raw, r := q.wire.ToolChoice, &q.request
	r.ToolChoice, r.ToolName = generation.ToolChoiceAuto, ""
	if !wire.Given(raw) {
		q.wire.ToolChoice = json.RawMessage(`"auto"`)
		return nil
	}
	if raw[0] == '"' {
		switch string(raw) {
		case `"none"`, `"auto"`, `"required"`:
			r.ToolChoice = generation.ToolChoice(raw[1 : len(raw)-1])
			return nil
		}
		return wire.Invalid("tool_choice", "it takes none, auto, required or an object")
	}
	var c choice
	if err := readObject("tool_choice", raw, &c); err != nil {
		return err
	}
	switch c.Type {
	case "function", typeCustomTool:
		r.ToolChoice, r.ToolName = generation.ToolChoiceFunction, c.Name
		return nil
	case "allowed_tools":
		return q.allowTools(&c)
	}
	return wire.Unsupported("tool_choice.type",
		"this server runs functions and custom tools only; use function, custom or allowed_tools")
}

// allowTools leaves only the tools that are allowed.
func (q *asked) allowTools(c *choice) error {
	if c.Mode != "auto" && c.Mode != "required" {
		return wire.Invalid("tool_choice.mode", "it takes auto or required")
	}
	if len(c.Tools) > maxTools {
		return wire.Invalid("tool_choice.tools", "there are %d and may be %d", len(c.Tools), maxTools)
	}
	allowed := map[string]bool{}
	for i, raw := range c.Tools {
		path := index("tool_choice.tools", i)
		var t choice
		if err := readObject(path, raw, &t); err != nil {
			return err
		}
		if t.Type != "function" && t.Type != typeCustomTool {
			continue // as in tools, where they were left out with a warning
		}
		if !slices.ContainsFunc(q.tools, func(o FunctionTool) bool { return o.Name == t.Name }) {
			return wire.Invalid(path+".name", "it is none of the tools")
		}
		allowed[t.Name] = true
	}
	q.request.ToolChoice = generation.ToolChoice(c.Mode)
	q.request.Tools = slices.DeleteFunc(q.request.Tools, func(t chattemplate.Tool) bool { return !allowed[t.Name] })
	return nil
}

// format is an object of text.format.
type format struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// form reads what form the answer has.
func (q *asked) form() error {
	r := &q.request
	r.Form, r.ResponseFormat = grammar.Source{}, nil
	q.text.Format = json.RawMessage(`{"type":"text"}`)
	var raw json.RawMessage
	if t := q.wire.Text; t != nil {
		raw = t.Format
		if v := t.Verbosity; v != nil {
			if *v != "low" && *v != "medium" && *v != "high" {
				return wire.Invalid("text.verbosity", "it takes low, medium or high")
			}
			q.text.Verbosity = v
		}
	}
	path := "text.format"
	if schema := q.wire.ResponseSchema; wire.Given(schema) {
		if wire.Given(raw) {
			return wire.Invalid("response_schema", "text.format is there too; say it in one place")
		}
		path, raw = "response_schema", schema
	}
	if !wire.Given(raw) {
		return nil
	}
	var f format
	if err := readObject(path, raw, &f); err != nil {
		return err
	}
	switch {
	case f.Type == "text" && path == "text.format":
	case f.Type == "json_object" && path == "text.format":
		r.Form = grammar.AnyObject()
	case f.Type == "json_schema" && path == "text.format", f.Type == "json" && path == "response_schema":
		if !wire.Given(f.Schema) {
			return wire.Invalid(path+".schema", "it is missing")
		}
		if f.Name == "" {
			f.Name = "answer"
		}
		if !chattemplate.ValidName(f.Name) {
			return wire.Invalid(path+".name", chattemplate.NameAdvice)
		}
		r.Form = grammar.JSONSchema(f.Schema)
		r.ResponseFormat = &chattemplate.ResponseFormat{Name: f.Name, Description: f.Description, Schema: f.Schema}
	default:
		return wire.Unsupported(path+".type", "text.format takes text, json_object or json_schema, and response_schema json")
	}
	if path == "text.format" {
		q.text.Format = raw
	}
	return nil
}

// index names an element of a list.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// readObject reads an object that stands at a path.
func readObject(path string, raw json.RawMessage, v any) error {
	if len(raw) == 0 || raw[0] != '{' {
		return wire.Invalid(path, "it takes an object")
	}
	return wire.UnmarshalAt(path, raw, v)
}

// text reads a string that stands at a path.
func text(path string, raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", wire.Invalid(path, "it takes a string")
	}
	return s, nil
}
