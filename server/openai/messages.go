package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/generation/delegation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Message is one message of a conversation.
//
//openapi:request ChatMessage
type Message struct {
	// The author's role. `function` is the older name of `tool`.
	Role string `json:"role" api:"=developer,system,user,assistant,tool,function required"`
	// The text. In assistant messages it may be left out or null. The texts of parts are joined by line breaks.
	Content json.RawMessage `json:"content" api:"string|[..1000]#ContentPart|null"`
	// An assistant's refusal, if it has no content.
	Refusal *string `json:"refusal" api:"|null"`
	// The author's name, or the function's name if the role is `function`. 1 to 256 bytes without white space, control
	// characters, and angle, square and curly brackets.
	Name *string `json:"name" api:"[..256]|null"`
	// The assistant's calls.
	ToolCalls []json.RawMessage `json:"tool_calls" api:"[..1024]#MessageToolCall|null"`
	// The older form of a single call.
	FunctionCall json.RawMessage `json:"function_call" api:"#FunctionCall|null deprecated"`
	// The call that a message with role `tool` answers. It is required there unless `name` has the function's name.
	ToolCallID *string `json:"tool_call_id" api:"|null"`

	// The sealed value that came with this assistant message. It restores the reasoning. A value that does not belong to
	// the message is ignored with the warning `sealed_dropped`; with `runner serve --sealed strict` the request is
	// refused.
	ReasoningEncryptedContent *string `json:"reasoning_encrypted_content" api:"|null"`
	// The assistant's reasoning as plain text. It is used only while this message's calls are pending, if there is no
	// sealed value and the key has the permission `reasoning:full`.
	Reasoning *string `json:"reasoning" api:"|null"`
	// Another name of `reasoning`.
	ReasoningContent *string `json:"reasoning_content" api:"|null"`
	// Who reasons from this message on. Send back the instructions of an assistant message with the message.
	Instructions []json.RawMessage `json:"instructions" api:"[..16]#Instruction|null"`
}

// Part is a part of a message's content.
//
//openapi:request ContentPart
type Part struct {
	// The type of the part: `text`, or `refusal` in assistant messages. An image, a file or another part is refused in
	// the last message; elsewhere a note takes its place, with the warning `media_skipped`.
	Type string `json:"type" api:"required"`
	// The text, if the type is `text`.
	Text *string `json:"text"`
	// The text, if the type is `refusal`.
	Refusal *string `json:"refusal"`
}

// MessageToolCall is an assistant's call.
//
//openapi:request MessageToolCall
type MessageToolCall struct {
	// The id of the call. It must be unique within the message.
	ID string `json:"id" api:"[1..512] required"`
	// The kind of call.
	Type     string        `json:"type" api:"=function,custom default=function"`
	Function *FunctionCall `json:"function"`
	Custom   *struct {
		// The name of the tool.
		Name string `json:"name"`
		// The text of the call.
		Input string `json:"input"`
	} `json:"custom"`
}

// FunctionCall is the function that is called, with its arguments as the model wrote them.
//
//openapi:request FunctionCall
type FunctionCall struct {
	// The name of the function.
	Name string `json:"name" api:"required"`
	// The arguments as the model wrote them, usually a JSON object.
	Arguments string `json:"arguments" api:"required"`
}

// conversation holds the messages of a request.
type conversation struct {
	messages []chattemplate.Message
	sealed   []contract.Carried
	// instructions are the instructions in messages, by the index of the message.
	instructions map[int][]delegation.Instruction
	warnings     wire.Warnings
}

// readMessages reads the messages of a conversation.
func readMessages(raw []json.RawMessage) (*conversation, error) {
	if len(raw) == 0 {
		return nil, wire.Invalid("messages", "there are none; give at least one")
	}
	c := &conversation{messages: make([]chattemplate.Message, len(raw))}
	i := -1
	err := wire.Each("messages", raw, func(path string, m *Message) error {
		i++
		return c.read(i, path, m)
	})
	return c, err
}

// read reads message i.
func (c *conversation) read(i int, path string, m *Message) error {
	to := &c.messages[i]
	if to.Role = chattemplate.Role(m.Role); m.Role == "function" {
		to.Role = chattemplate.ToolRole
	}
	err := contract.Instructions(&c.instructions, i, path+".instructions", m.Instructions, &c.warnings)
	if err != nil {
		return err
	}
	if to.Content, err = c.content(i, m.Content, path+".content"); err != nil {
		return err
	}
	if m.Name != nil && *m.Name != "" {
		if to.Name = *m.Name; !chattemplate.ValidName(to.Name) {
			return wire.Invalid(path+".name", chattemplate.NameAdvice)
		}
	}
	switch {
	case to.Role == chattemplate.Assistant:
		return c.readAssistant(i, path, m)
	case m.Role == "function":
		if to.ToolName = to.Name; to.ToolName == "" {
			return wire.Invalid(path+".name", "it is missing; it names the function that was called")
		}
		to.Name = ""
	case to.Role == chattemplate.ToolRole:
		if m.ToolCallID == nil || *m.ToolCallID == "" {
			return wire.Invalid(path+".tool_call_id", "it is missing; it says which call this message answers")
		}
		to.ToolCallID = *m.ToolCallID
	}
	return nil
}

// readAssistant reads the fields that only an assistant's message has.
func (c *conversation) readAssistant(i int, path string, m *Message) error {
	to := &c.messages[i]
	if to.Content == "" && m.Refusal != nil {
		to.Content = *m.Refusal
	}
	own := map[string]bool{}
	err := wire.Each(path+".tool_calls", m.ToolCalls, func(path string, m *MessageToolCall) error {
		call, err := readCall(path, m)
		if err == nil && own[call.ID] {
			err = wire.Invalid(path+".id", "another call of this message has the same id")
		}
		own[call.ID] = true
		to.ToolCalls = append(to.ToolCalls, call)
		return err
	})
	if err != nil {
		return err
	}
	if wire.Given(m.FunctionCall) {
		path += ".function_call"
		if len(to.ToolCalls) > 0 {
			return conflict(path, "tool_calls")
		}
		var f FunctionCall
		if err := wire.Object(path, m.FunctionCall, &f); err != nil {
			return err
		}
		if !chattemplate.ValidName(f.Name) {
			return wire.Invalid(path+".name", chattemplate.NameAdvice)
		}
		to.ToolCalls = []chattemplate.ToolCall{{Name: f.Name, Arguments: f.Arguments}}
	}
	for _, text := range []*string{m.Reasoning, m.ReasoningContent} {
		if text != nil && to.Reasoning == "" {
			to.Reasoning = *text
		}
	}
	if m.ReasoningEncryptedContent != nil && *m.ReasoningEncryptedContent != "" {
		c.sealed = append(c.sealed, contract.Carried{
			Message: i, Value: seal.Value{Sealed: *m.ReasoningEncryptedContent}, Param: sealedParam(i),
		})
	}
	return nil
}

func readCall(path string, m *MessageToolCall) (call chattemplate.ToolCall, err error) {
	switch {
	case m.ID == "":
		return call, wire.Invalid(path+".id", "it is missing")
	case m.Type == typeCustom && m.Custom != nil:
		call = chattemplate.ToolCall{ID: m.ID, Name: m.Custom.Name, Arguments: contract.FreeInput(m.Custom.Input)}
		path += ".custom"
	case m.Type != "" && m.Type != "function":
		return call, wire.Unsupported(path+".type", "%q is not known here; function is", wire.Clip(m.Type))
	case m.Function == nil:
		return call, wire.Invalid(path+".function", "it is missing")
	default:
		call = chattemplate.ToolCall{ID: m.ID, Name: m.Function.Name, Arguments: m.Function.Arguments}
		path += ".function"
	}
	if !chattemplate.ValidName(call.Name) {
		return call, wire.Invalid(path+".name", chattemplate.NameAdvice)
	}
	return call, nil
}

// content reads the text of message i. It joins the texts of parts with line breaks, as other servers do.
func (c *conversation) content(i int, raw json.RawMessage, path string) (string, error) {
	role := c.messages[i].Role
	assistant := role == chattemplate.Assistant
	switch {
	case !wire.Given(raw) && assistant:
		return "", nil
	case !wire.Given(raw):
		return "", wire.Invalid(path, "it is missing")
	}
	var texts []string
	err := wire.TextOrEach(path, raw, func(s string) { texts = []string{s} }, func(path string, p *Part) error {
		var unread *wire.Warnings // nil where what cannot be read is refused
		if role != chattemplate.User || i+1 < len(c.messages) {
			unread = &c.warnings
		}
		text, err := readPart(path, p, assistant, unread)
		texts = append(texts, text)
		return err
	})
	if err == nil && texts == nil && !assistant {
		err = wire.Invalid(path, "it has no parts")
	}
	return strings.Join(texts, "\n"), err
}

// media are the types of parts that this API has and that are not text.
var media = []string{"image_url", "input_audio", "file", "video_url", "audio_url"}

func readPart(path string, p *Part, assistant bool, unread *wire.Warnings) (string, error) {
	text := p.Text
	switch p.Type {
	case "text":
	case "refusal":
		if !assistant {
			return "", wire.Invalid(path+".type", "only an assistant's message has refusals")
		}
		text = p.Refusal
	case "":
		return "", wire.Invalid(path+".type", "it is missing; text is known")
	default:
		if unread == nil && !slices.Contains(media, p.Type) {
			return "", wire.Unsupported(path+".type", "%q is not known here; text is", wire.Clip(p.Type))
		}
		if unread == nil {
			return "", wire.Unsupported(path+"."+p.Type, "models here read text only")
		}
		return contract.Unread(unread, path, p.Type), nil
	}
	if text == nil {
		return "", wire.Invalid(path+"."+p.Type, "it is missing")
	}
	return *text, nil
}
