package chattemplate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"runner/chattemplate/jinja"
	"runner/reasoning"
)

// variables returns the template's variables.
func (j *Template) variables(c *Conversation) (map[string]jinja.Value, error) {
	msgs, err := j.messages(c)
	if err != nil {
		return nil, err
	}
	vars := j.baseVariables(msgs, !c.NoGenerationPrompt)
	if len(c.Tools) > 0 {
		tools, err := toolValues(c.Tools)
		if err != nil {
			return nil, err
		}
		vars["tools"] = tools
	} else if j.traits.listedTools {
		vars["tools"] = jinja.List()
	}
	if err := j.dated(vars, c); err != nil {
		return nil, err
	}
	set := j.effortVariables(c.Effort)
	if c.KeepReasoning {
		set = append(set, keepVariables...)
	}
	for _, v := range set {
		vars[v.Name] = v.value()
	}
	for name, arg := range c.Args {
		for _, v := range set {
			if v.Name == name && !reflect.DeepEqual(v.Is, arg) {
				return nil, ArgError(name, "set this in one place: the request or its template variables",
					"contradicts the request")
			}
		}
		text, err := json.Marshal(arg)
		if err == nil {
			vars[name], err = jinja.FromJSON(text, jinja.Outside)
		}
		if err != nil {
			return nil, ArgError(name, "give JSON values: strings, numbers, booleans, lists and objects",
				"cannot be used in a template")
		}
	}
	return vars, nil
}

// dated sets variables that only older templates read: the date and the tools as text.
func (j *Template) dated(vars map[string]jinja.Value, c *Conversation) error {
	if slices.Contains(j.reads, "datetime") && !c.Now.IsZero() {
		vars["datetime"] = trusted(c.Now.Format("Jan 02 2006 15:04:05 MST"))
	}
	if !slices.Contains(j.reads, "functions") {
		return nil
	}
	functions := make([]json.RawMessage, len(c.Tools))
	for i, t := range c.Tools {
		text, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}{t.Name, t.Description, schemaOf(t)})
		if err != nil {
			return ToolError(i, DefinitionAdvice, errSchema)
		}
		functions[i] = text
	}
	text, err := json.MarshalIndent(functions, "", "  ")
	if err != nil {
		return err
	}
	vars["functions"] = outside(string(text))
	return nil
}

// Variable is a template variable that the program itself sets. Is holds a bool, a float64 or a string.
type Variable struct {
	Name string
	Is   any
}

func (v Variable) value() jinja.Value {
	switch is := v.Is.(type) {
	case bool:
		return jinja.Bool(is)
	case float64:
		return jinja.Int(int64(is))
	}
	return trusted(v.Is.(string))
}

// keepVariables are the variables by which templates keep the reasoning of earlier turns.
var keepVariables = []Variable{
	{"clear_thinking", false}, {"drop_thinking", false}, {"keep_past_thinking", true}, {"preserve_thinking", true},
}

// baseVariables are the variables that every rendering has.
func (j *Template) baseVariables(msgs jinja.Value, generate bool) map[string]jinja.Value {
	return map[string]jinja.Value{
		"messages":              msgs,
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
		"add_generation_prompt": jinja.Bool(generate),
		"bos_token":             trusted(j.vocab.Piece(j.vocab.BOS())),
		"eos_token":             trusted(j.vocab.Piece(j.vocab.EOS())),
	}
}

func trusted(s string) jinja.Value { return jinja.String(jinja.NewText(s, jinja.Trusted)) }
func outside(s string) jinja.Value { return jinja.String(jinja.NewText(s, jinja.Outside)) }

// from returns the origin of a part of a message.
func (m *Message) from(part UnseenParts) jinja.Origin {
	if m.Unseen&part != 0 {
		return jinja.Unseen
	}
	return jinja.Outside
}

// messages returns the list of messages. Leading system prompts are joined, because templates look only at the first
// message. If the template has no place for a system prompt, the first user message begins with it.
func (j *Template) messages(c *Conversation) (jinja.Value, error) {
	prompts, msgs := c.leading(), []Message(nil)
	for i := range c.Messages {
		if m := c.Messages[i]; i >= prompts || !IsPrompt(m.Role) {
			msgs = j.add(msgs, m)
		}
	}
	first := slices.DeleteFunc(slices.Clone(c.Messages[:prompts]), func(m Message) bool { return !IsPrompt(m.Role) })
	if prompt := JoinPrompts(first); prompt != "" {
		if msgs = withPrompt(msgs, prompt, j.traits.system); AnyUnseen(first, UnseenText) {
			msgs[0].Unseen |= UnseenText
		}
	}
	ids := callIDs{form: j.traits.ids, shown: map[string]string{}}
	values := make([]jinja.Value, 0, len(msgs))
	for i := range msgs {
		values = append(values, j.message(&msgs[i], &ids))
	}
	return jinja.List(values...), nil
}

// leading returns how many messages come before the first one of the user. Without one, it is the number of prompts at
// the start.
func (c *Conversation) leading() (n int) {
	if n = slices.IndexFunc(c.Messages, func(m Message) bool { return m.Role == User }); n >= 0 {
		return n
	}
	for n = 0; n < len(c.Messages) && IsPrompt(c.Messages[n].Role); n++ {
	}
	return n
}

// LaterPrompts reports whether a conversation has a system prompt after the user's first message.
func (c *Conversation) LaterPrompts() bool {
	return slices.ContainsFunc(c.Messages[c.leading():], func(m Message) bool { return IsPrompt(m.Role) })
}

// TakesLaterPrompts reports whether the template accepts such prompts. If not, they become marked text of the user.
func (j *Template) TakesLaterPrompts() bool { return j.traits.laterPrompts }

// add adds a message to those of a conversation, in the order of roles that the template accepts.
func (j *Template) add(msgs []Message, m Message) []Message {
	told := IsPrompt(m.Role) && !j.traits.laterPrompts
	if told {
		m.Role, m.Content = User, "<system>\n"+m.Content+"\n</system>"
	}
	if j.traits.usersInRow {
		return append(msgs, m)
	}
	return inTurns(msgs, m, told, j.traits.calls)
}

// inTurns adds a message for a template that takes the user and the assistant in turns. Calls and results come before
// the assistant's text if the template has a place for them, and else are text. told says that the message was a system
// prompt.
func inTurns(msgs []Message, m Message, told, places bool) []Message {
	switch {
	case !places && m.Role == ToolRole:
		m.Role, m.Content = User, "<result>\n"+m.Content+"\n</result>"
	case !places && len(m.ToolCalls) > 0:
		if m.Content = m.Preamble + callsText(m.ToolCalls); m.Unseen&UnseenCalls != 0 {
			m.Unseen |= UnseenText
		}
		m.Preamble, m.ToolCalls = "", nil
	case m.Role == Assistant && len(m.ToolCalls) == 0 && m.Content+m.Preamble == "":
		m.Content = nothingSaid
	}
	if len(msgs) == 0 && m.Role == Assistant {
		msgs = append(msgs, Message{Role: User, Content: nothingSaid})
	}
	if len(msgs) == 0 {
		return append(msgs, m)
	}
	last := &msgs[len(msgs)-1]
	calls := last.Role == ToolRole || len(last.ToolCalls) > 0
	switch {
	case m.Role == User && (last.Role == User || told && last.Role == ToolRole),
		m.Role == Assistant && last.Role == Assistant && !calls && len(m.ToolCalls) == 0:
		last.Content, last.Reasoning = joined(last.Content, m.Content), joined(last.Reasoning, m.Reasoning)
		last.Unseen |= m.Unseen
		return msgs
	case m.Role == User && calls:
		msgs = append(msgs, Message{Role: Assistant, Content: nothingSaid})
	case m.Role == Assistant && last.Role == Assistant && !calls: // the text before its calls
		m.Preamble, m.Reasoning = joined(last.Content, m.Preamble), joined(last.Reasoning, m.Reasoning)
		m.Unseen |= last.Unseen
		msgs = msgs[:len(msgs)-1]
	}
	return append(msgs, m)
}

// joined returns two texts with an empty line between them.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// nothingSaid is the text of a turn without one, where a template demands it.
const nothingSaid = "…"

// withPrompt puts a system prompt before the messages, or into the first one.
func withPrompt(msgs []Message, prompt string, systemRole bool) []Message {
	if systemRole {
		return append([]Message{{Role: System, Content: prompt}}, msgs...)
	}
	if len(msgs) == 0 || msgs[0].Role != User {
		return append([]Message{{Role: User, Content: prompt}}, msgs...)
	}
	merged := append([]Message(nil), msgs...)
	merged[0].Content = prompt + "\n\n" + merged[0].Content
	return merged
}

// message returns one message. Its keys and its role are trusted; everything else is outside text.
func (j *Template) message(m *Message, ids *callIDs) jinja.Value {
	role := m.Role
	if role == Developer {
		role = System
	}
	text, calls := joined(m.Preamble, m.Content), m.ToolCalls
	if len(calls) > 0 && !j.traits.calls {
		text, calls = text+callsText(calls), nil
	}
	entries := []jinja.Entry{{Key: "role", Value: trusted(string(role))}}
	add := func(key string, v jinja.Value) { entries = append(entries, jinja.Entry{Key: key, Value: v}) }
	add("content", j.content(text, m.from(UnseenText), len(calls) > 0))
	if m.Reasoning != "" && role == Assistant {
		thought := jinja.String(jinja.NewText(m.Reasoning, m.from(UnseenReasoning)))
		add("reasoning_content", thought)
		add("thinking", thought)
	}
	if len(calls) > 0 {
		ids.begin()
		list := make([]jinja.Value, len(calls))
		for i, call := range calls {
			list[i] = jinja.Dict(jinja.Trusted,
				jinja.Entry{Key: "id", Value: outside(ids.call(&call))},
				jinja.Entry{Key: "type", Value: trusted("function")},
				jinja.Entry{Key: "function", Value: jinja.Dict(jinja.Trusted,
					jinja.Entry{Key: "name", Value: outside(call.Name)},
					jinja.Entry{Key: "arguments", Value: j.arguments(call.Arguments, m.from(UnseenCalls))},
				)},
			)
		}
		add("tool_calls", jinja.List(list...))
	}
	if role == ToolRole {
		add("tool_call_id", outside(ids.result(m)))
		add("name", outside(m.ToolName))
	} else if m.Name != "" {
		add("name", outside(m.Name))
	}
	return jinja.Dict(jinja.Trusted, entries...)
}

// content returns a message's text in the type that the template accepts.
func (j *Template) content(text string, from jinja.Origin, calls bool) jinja.Value {
	value := jinja.String(jinja.NewText(text, from))
	switch {
	case text == "" && calls && j.traits.noneContent:
		return jinja.None()
	case j.traits.typedContent:
		return jinja.List(jinja.Dict(jinja.Trusted,
			jinja.Entry{Key: "type", Value: trusted("text")}, jinja.Entry{Key: "text", Value: value}))
	}
	return value
}

// arguments returns a call's arguments in the type that the template accepts. Arguments that are no object, such as
// those of a call that was cut, become the only member of one where a template takes nothing else.
func (j *Template) arguments(text string, from jinja.Origin) jinja.Value {
	value := jinja.String(jinja.NewText(text, from))
	if !j.traits.objectArguments {
		return value
	}
	given := strings.TrimLeft(text, " \t\r\n")
	if strings.HasPrefix(given, "{") {
		if v, err := jinja.FromJSON([]byte(text), from); err == nil {
			return v
		}
	}
	switch {
	case j.traits.textArguments:
		return value
	case given == "" || given == "null":
		return jinja.Dict(jinja.Trusted)
	}
	return jinja.Dict(jinja.Trusted, jinja.Entry{Key: "arguments", Value: value})
}

// callsText writes calls as text, for templates that have no place for them.
func callsText(calls []ToolCall) string {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	list := make([]call, len(calls))
	for i, c := range calls {
		args := json.RawMessage(c.Arguments)
		if !json.Valid(args) {
			args, _ = json.Marshal(c.Arguments) // a string always encodes
		}
		list[i] = call{c.Name, args}
	}
	text, _ := json.Marshal(list) // valid JSON always encodes
	return string(text)
}

// schemaOf returns the schema of a tool's parameters, which for a tool without parameters is one of an empty object.
func schemaOf(t Tool) json.RawMessage {
	if s := strings.TrimSpace(string(t.Parameters)); s == "" || s == "null" {
		return json.RawMessage(`{"type": "object", "properties": {}}`)
	}
	return t.Parameters
}

// toolValues returns the tools in the form of OpenAI's API.
func toolValues(tools []Tool) (jinja.Value, error) {
	values := make([]jinja.Value, len(tools))
	for i, t := range tools {
		schema := schemaOf(t)
		if len(schema) > MaxSchema {
			return nil, ToolError(i, DefinitionAdvice, errSchemaSize)
		}
		parameters, err := jinja.FromJSON(schema, jinja.Outside)
		if err != nil {
			return nil, ToolError(i, DefinitionAdvice, errSchema)
		}
		values[i] = jinja.Dict(jinja.Trusted,
			jinja.Entry{Key: "type", Value: trusted("function")},
			jinja.Entry{Key: "function", Value: jinja.Dict(jinja.Trusted,
				jinja.Entry{Key: "name", Value: outside(t.Name)},
				jinja.Entry{Key: "description", Value: outside(t.Description)},
				jinja.Entry{Key: "parameters", Value: parameters},
			)},
		)
	}
	return jinja.List(values...), nil
}

// effortVariables returns the variables that an effort sets. The default effort sets none.
func (j *Template) effortVariables(e reasoning.Effort) []Variable {
	switch e {
	case reasoning.EffortDefault:
		return nil
	case reasoning.EffortNone:
		return slices.Clone(j.off)
	case reasoning.EffortMinimal:
		if !strings.Contains(j.source, string(reasoning.EffortMinimal)) {
			e = reasoning.EffortLow
		}
	}
	set := []Variable{{"reasoning_effort", string(e)}}
	for _, v := range j.on {
		if v.Name != "reasoning_effort" {
			set = append(set, v)
		}
	}
	return set
}
