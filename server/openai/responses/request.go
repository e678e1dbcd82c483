package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Limits of a request. The tags of CreateRequest have more. Lengths are in bytes.
const (
	maxMetaKey   = 64
	maxMetaValue = 512
)

// Values of include that this package gives; those of the reasoning are package contract's.
const includeLogprobs = "message.output_text.logprobs"

// CreateRequest is the body of POST /v1/responses. It needs an input, instructions or a previous response.
//
//openapi:request ResponsesRequest
type CreateRequest struct {
	wire.Unread
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// The user's text, or items. It is required and must not be empty, unless there are `instructions` or a
	// `previous_response_id`.
	Input json.RawMessage `json:"input" api:"string|[..8192]#ResponseInputItem" of:"Messages"`
	// A system prompt before everything else. It is not carried over by `previous_response_id`.
	Instructions *string `json:"instructions"`
	// The id of the stored response that this request continues.
	PreviousResponseID *string `json:"previous_response_id"`
	// Store the response for `previous_response_id`, item references and GET. With `false` the server also does not
	// remember the reasoning that led to the response's calls.
	Store *bool `json:"store" api:"default=true"`
	// Go on even if the client disconnects. Refused if `store` is false. At most 16 responses run in the background at
	// once. If the server has several API keys, at most 4 of each do. More are refused with 429.
	Background *bool `json:"background" api:"default=false"`
	// Send the response as server-sent events while it is generated.
	Stream *bool `json:"stream" api:"default=false"`
	// What happens to a prompt that is longer than the context. `disabled` refuses it. `auto` leaves out the oldest part
	// of the conversation and gives the warning `input_truncated`.
	Truncation *string `json:"truncation" api:"=disabled,auto default=disabled"`

	// The maximum number of tokens to generate, including reasoning.
	MaxOutputTokens *int `json:"max_output_tokens" api:"[1..16777216]" sets:"MaxTokens"`
	// No effect: it limits the calls of hosted tools, and there are none.
	MaxToolCalls *int `json:"max_tool_calls" api:"[0..16777216]"`
	// The logits are divided by this number. 0 always takes the likeliest token. The default is the server's
	// `--temperature`.
	Temperature *float64 `json:"temperature" api:"[0..2]" sets:"Sampling.Temperature"`
	// Keep only the likeliest tokens that together have this probability. 0 keeps one token. The default is the server's
	// `--top-p`.
	TopP *float64 `json:"top_p" api:"[0..1]" sets:"Sampling.TopP"`
	// How many of the likeliest tokens to return at each position of the answer.
	TopLogprobs *int `json:"top_logprobs" api:"[0..20] default=0"`
	// Makes the response repeatable. Without it a random seed is used.
	Seed json.RawMessage `json:"seed" api:"integer[-9223372036854775808..18446744073709551615]"`

	// The tools that the model may call.
	Tools      []json.RawMessage `json:"tools" api:"[..1024]#ResponseTool" of:"Tools"`
	ToolChoice json.RawMessage   `json:"tool_choice" api:"=none,auto,required|#ResponseToolChoice" of:"ToolChoice"`
	// With false the model makes at most one call.
	ParallelToolCalls *bool `json:"parallel_tool_calls" api:"default=true"`

	// The form of the answer.
	Text TextRequest `json:"text"`
	// Another way to give a schema for the answer. Refused with `text.format`.
	ResponseSchema json.RawMessage `json:"response_schema" api:"#ResponseAnswerSchema"`

	// Fields say how much of the reasoning is wanted.
	contract.Fields
	// What the response contains in addition: `reasoning.encrypted_content` (the sealed reasoning), `reasoning.content`
	// (visibility `full`), `message.output_text.logprobs`. Other values are ignored with the warning `include_ignored`.
	Include []string `json:"include" api:"[..64]"`

	// Returned in the response. At most 16 texts of at most 512 bytes, with keys of at most 64 bytes.
	Metadata map[string]string `json:"metadata" api:"#ResponseMetadata[..16]"`
	// Returned in the response. No other effect.
	User *string `json:"user" api:"[..512]"`
	// Returned in the response. No other effect.
	SafetyIdentifier *string `json:"safety_identifier" api:"[..512]"`
	// Returned in the response. No other effect.
	PromptCacheKey *string `json:"prompt_cache_key" api:"[..512]"`

	// Refused. Use `previous_response_id` to continue a response.
	Conversation json.RawMessage `json:"conversation" api:"null" refuse:"use previous_response_id"`
	// Refused: this server keeps no prompt templates.
	Prompt json.RawMessage `json:"prompt" api:"null" refuse:"send instructions and input"`
	// Refused unless it is empty. Use `truncation` to leave out the oldest part of a conversation.
	ContextManagement json.RawMessage `json:"context_management" api:"array[..0]|null" refuse:"use truncation auto"`
	// Refused: this server does not moderate.
	Moderation json.RawMessage `json:"moderation" api:"null" refuse:"this server does not moderate"`
}

// TextRequest is the field text of a request.
//
//openapi:request
type TextRequest struct {
	Format json.RawMessage `json:"format" api:"#ResponseTextFormat"`
	// Returned in the response. No other effect.
	Verbosity *string `json:"verbosity" api:"=low,medium,high"`
}

// FunctionTool is a function that the model may call, a custom tool, whose argument is free text, or a namespace with
// such tools.
//
//openapi:request ResponseTool
type FunctionTool struct {
	// `function`, `custom` for a tool whose argument is free text, or `namespace` for a group of tools. Tools of other
	// types are ignored with the warning `tool_skipped`. The model sees a namespace before the names of its tools. Calls
	// have both apart.
	Type string `json:"type" api:"required example=function,custom,namespace"`
	// 1 to 256 bytes without white space, control characters, and angle, square and curly brackets. Names must be
	// unique.
	Name string `json:"name" api:"[..256]"`
	// What the tool does. The model reads this.
	Description *string `json:"description" api:"|null"`
	// A JSON Schema of the arguments, or null if there are none.
	Parameters json.RawMessage `json:"parameters" api:"{}|null"`
	// Make the arguments match `parameters`. If this is left out, they match if the schema is supported.
	Strict *bool           `json:"strict" api:"|null default=true"`
	Format json.RawMessage `json:"format" api:"#CustomFormat"`
	// The tools of a namespace. It contains no other namespace.
	Tools []json.RawMessage `json:"tools" api:"[..1024]#ResponseTool"`

	// path is the tool's place in the request. full is its name for the model. group are the tools of a namespace.
	path, full string
	group      []*FunctionTool
}

// MarshalJSON writes the fields that a tool of its type has.
func (t FunctionTool) MarshalJSON() ([]byte, error) {
	switch t.Type {
	case typeCustomTool:
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
	case "function":
		return json.Marshal(struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description *string         `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
		}{t.Type, t.Name, t.Description, t.Parameters, t.Strict})
	}
	return json.Marshal(struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Tools       []*FunctionTool `json:"tools"`
	}{t.Type, t.Name, t.Description, t.group})
}

// typeCustomTool is the type of tools whose argument is free text.
const typeCustomTool = "custom"

// typeNamespace is the type of groups of tools. Codex sends the tools of each MCP server in one.
const typeNamespace = "namespace"

// fullName returns the name by which the model knows a tool of a namespace.
func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return strings.TrimSuffix(namespace, "__") + "__" + name
}

// grouped is the name of a tool of a namespace as its client knows it.
type grouped struct{ namespace, name string }

// asked is a request that has been read, before its conversation and model are looked up.
type asked struct {
	wire     *CreateRequest
	contract contract.Asked
	request  generation.Request
	items    []entry
	// last says that the last item is being read.
	last     bool
	warnings wire.Warnings
	tools    []*FunctionTool
	// custom are the full names of the custom tools among them. groups has those of the tools of namespaces.
	custom    map[string]bool
	groups    map[string]grouped
	store     bool
	truncates bool
	// loose lists the tools that are strict only because nothing was said.
	loose []*FunctionTool
	// text is the form as the response repeats it.
	text TextEcho
}

func is(flag *bool, otherwise bool) bool {
	if flag == nil {
		return otherwise
	}
	return *flag
}

// read makes of a request what there is to know without a store or a model. The errors are a *wire.Error.
func read(w *CreateRequest, defaults generation.Request) (*asked, error) {
	q := &asked{wire: w, request: defaults, store: is(w.Store, true),
		truncates: w.Truncation != nil && *w.Truncation == "auto"}
	steps := []func() error{q.check, q.sampling, q.reasoning, q.readTools, q.toolChoice, q.form, q.input}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// check checks what needs no reading.
func (q *asked) check() error {
	w := q.wire
	w.Warn(&q.warnings, params)
	if is(w.Background, false) && !q.store {
		return wire.Invalid("background", "a response in the background has to be stored; leave store out or set it to true")
	}
	for k, v := range w.Metadata {
		if len(k) > maxMetaKey || len(v) > maxMetaValue {
			return wire.Invalid("metadata", "keys have at most %d bytes and values at most %d", maxMetaKey, maxMetaValue)
		}
	}
	return nil
}

// sampling reads what chooses and bounds the tokens.
func (q *asked) sampling() error {
	w, r := q.wire, &q.request
	wire.Set(r, w)
	r.Logprobs = slices.Contains(w.Include, includeLogprobs)
	if n := w.TopLogprobs; n != nil {
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
	ignored := false
	for _, name := range w.Include {
		ignored = ignored || name != includeLogprobs && name != contract.IncludeSealed && name != contract.IncludeContent
	}
	if ignored {
		q.warnings.Add(CodeIncludeIgnored, "include names what there is not in this response")
	}
	var err error
	if q.contract, err = w.Parse(w.Include); err != nil {
		return err
	}
	q.warnings = append(q.warnings, q.contract.Warnings...)
	q.contract.Apply(&q.request)
	return nil
}

// readTools reads the functions.
func (q *asked) readTools() (err error) {
	q.request.Tools, q.custom, q.groups = nil, map[string]bool{}, map[string]grouped{}
	var skipped kinds
	if q.tools, err = q.readGroup("tools", q.wire.Tools, "", &skipped); err != nil {
		return err
	}
	if skipped.count > 0 {
		q.warnings.Add(CodeToolSkipped, skipped.of("tools"))
	}
	q.request.SingleCall = !is(q.wire.ParallelToolCalls, true)
	return nil
}

// readGroup reads the tools of a namespace, or those outside.
func (q *asked) readGroup(at string, list []json.RawMessage, namespace string,
	skipped *kinds) ([]*FunctionTool, error) {
	group := []*FunctionTool{}
	for i, raw := range list {
		path := wire.Index(at, i)
		kind, err := readType(path, raw)
		if err != nil {
			return nil, err
		}
		if kind == nil {
			return nil, wire.Invalid(path+".type", "it is missing")
		}
		isGroup := *kind == typeNamespace && namespace == ""
		if *kind != "function" && *kind != typeCustomTool && !isGroup {
			skipped.add(*kind)
			continue
		}
		t := &FunctionTool{path: path}
		if err := wire.Object(path, raw, t); err != nil {
			return nil, err
		}
		if isGroup {
			if t.Name == "" {
				return nil, wire.Invalid(path+".name", "it is missing")
			}
			t.group, err = q.readGroup(path+".tools", t.Tools, t.Name, skipped)
		} else {
			t.full = fullName(namespace, t.Name)
			if namespace != "" {
				q.groups[t.full] = grouped{namespace, t.Name}
			}
			err = q.readTool(t)
		}
		if err != nil {
			return nil, err
		}
		group = append(group, t)
	}
	return group, nil
}

// readTool offers a function or a custom tool to the model.
func (q *asked) readTool(t *FunctionTool) (err error) {
	tool := chattemplate.Tool{Name: t.full}
	if t.Type == typeCustomTool {
		custom := contract.CustomTool{Name: t.full, Description: t.Description, Format: t.Format}
		if tool, err = custom.Tool(t.path); err != nil {
			return err
		}
		q.custom[t.full] = true
	} else {
		tool.Parameters = t.Parameters
		if t.Strict == nil {
			q.loose = append(q.loose, t)
			t.Strict = new(true)
		}
		if tool.Strict = *t.Strict && wire.Given(t.Parameters); t.Description != nil {
			tool.Description = *t.Description
		}
	}
	return contract.AddTool(&q.request, t.path, t.path+".parameters", tool)
}

// choice is the object form of tool_choice.
//
//openapi:request ResponseToolChoice
type choice struct {
	// `function` or `custom` makes the model call this tool. `allowed_tools` shows it only some of the tools.
	Type string `json:"type" api:"=function,custom,allowed_tools required"`
	// The name of the function.
	Name string `json:"name"`
	// The namespace of the function.
	Namespace string `json:"namespace"`
	// Whether the model may or must call one of the allowed tools.
	Mode string `json:"mode" api:"=auto,required"`
	// The allowed tools.
	Tools []json.RawMessage `json:"tools" api:"[..1024]#ResponseToolName"`
}

// toolChoice reads whether and what the model may or must call.
func (q *asked) toolChoice() error {
	raw, r := q.wire.ToolChoice, &q.request
	r.ToolChoice, r.ToolName = generation.ToolChoiceAuto, ""
	if !wire.Given(raw) {
		q.wire.ToolChoice = json.RawMessage(`"auto"`)
		return nil
	}
	if wire.Is(raw, '"') {
		word, err := wire.Text("tool_choice", raw)
		if err != nil {
			return err
		}
		return contract.ChooseTools(r, "tool_choice", word)
	}
	var c choice
	if err := wire.Object("tool_choice", raw, &c); err != nil {
		return err
	}
	switch c.Type {
	case "function", typeCustomTool:
		r.ToolChoice, r.ToolName = generation.ToolChoiceFunction, fullName(c.Namespace, c.Name)
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
	allowed := map[string]bool{}
	err := wire.Each("tool_choice.tools", c.Tools, func(path string, t *choice) error {
		if t.Type != "function" && t.Type != typeCustomTool {
			return nil // as in tools, where they were left out with a warning
		}
		full := fullName(t.Namespace, t.Name)
		if !slices.ContainsFunc(q.request.Tools, func(o chattemplate.Tool) bool { return o.Name == full }) {
			return wire.Invalid(path+".name", "tools has no tool with this name")
		}
		allowed[full] = true
		return nil
	})
	q.request.ToolChoice = generation.ToolChoice(c.Mode)
	q.request.Tools = slices.DeleteFunc(q.request.Tools, func(t chattemplate.Tool) bool { return !allowed[t.Name] })
	return err
}

// format is an object of text.format.
//
// The form of the answer. It is enforced exactly, whatever the field `strict` says. A form that cannot be enforced
// exactly is refused.
//
//openapi:request ResponseTextFormat
type format struct {
	// `text` allows any text, `json_object` any JSON object.
	Type string `json:"type" api:"=text,json_object,json_schema required"`
	// A name for the answer. The model sees it.
	Name string `json:"name" api:"[..256] default=answer"`
	// What the answer is. The model reads this.
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema" api:"#JSONSchema"`
}

// form reads what form the answer has.
func (q *asked) form() error {
	r := &q.request
	r.Form, r.ResponseFormat = grammar.Source{}, nil
	q.text.Format = json.RawMessage(`{"type":"text"}`)
	q.text.Verbosity = q.wire.Text.Verbosity
	path, raw := "text.format", q.wire.Text.Format
	if schema := q.wire.ResponseSchema; wire.Given(schema) {
		var both [2]struct{ Schema json.RawMessage }
		for i, part := range []json.RawMessage{raw, schema} {
			_ = json.Unmarshal(part, &both[i]) // what is wrong is said below
		}
		switch {
		case !wire.Given(raw):
			path, raw = "response_schema", schema
		case !wire.Given(both[0].Schema) || !bytes.Equal(both[0].Schema, both[1].Schema):
			return wire.Invalid("response_schema", "text.format is there too; say it in one place")
		}
	}
	if !wire.Given(raw) {
		return nil
	}
	var f format
	if err := wire.Object(path, raw, &f); err != nil {
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
		var err error
		if f.Name, err = contract.SchemaName(path, f.Name); err != nil {
			return err
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
