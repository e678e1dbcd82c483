package agui

import (
	"encoding/json"
	"strings"

	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Message is a message of the conversation.
//
//openapi:request AguiMessage
type Message struct {
	// The id of the message, at most 1,024 bytes.
	ID string `json:"id" api:"[1..1024] required"`
	// The author's role. Messages with the role `activity` are ignored.
	Role string `json:"role" api:"=developer,system,user,assistant,tool,reasoning,activity required"`
	// A text. Messages with the roles `user` and `tool` may have a list of parts instead. Assistant messages may leave
	// it out. It is not read for the role `activity`.
	Content json.RawMessage `json:"content" api:"string|[]#AguiPart|{}"`
	// The assistant's calls.
	ToolCalls []ToolCall `json:"toolCalls" api:"[..1024]"`
	// The id of the call that a message with role `tool` answers.
	ToolCallID string `json:"toolCallId" api:"[1..1024]"`
	// What went wrong with the call, in a message with role `tool`.
	Error          string `json:"error"`
	EncryptedValue string `json:"encryptedValue" api:"#AguiSealed"`
}

// ToolCall is a call of a tool by the model.
//
//openapi:request AguiToolCall
type ToolCall struct {
	// The id of the call, at most 1,024 bytes.
	ID             string       `json:"id" api:"[1..1024] required"`
	Function       FunctionCall `json:"function" api:"required"`
	EncryptedValue string       `json:"encryptedValue" api:"#AguiSealed"`
}

// FunctionCall is the tool that is called.
//
//openapi:request AguiFunctionCall
type FunctionCall struct {
	// The name of the tool.
	Name string `json:"name" api:"[1..] required"`
	// The arguments as the model wrote them.
	Arguments string `json:"arguments"`
}

// Part is a part of a message's content.
//
//openapi:request AguiPart
type Part struct {
	// Models read only `text`. In place of other parts of results, and of messages before the last, a note stands, with
	// the warning `media_skipped`.
	Type string `json:"type" api:"required"`
	// The text of a part of type `text`.
	Text *string `json:"text"`
}

// thoughts are reasoning messages that wait for the assistant's message that they belong to.
type thoughts struct {
	texts  []string
	values []int
}

// summaryPrefix begins the ids of messages with a summary, so that they are not taken for reasoning when they are sent
// back.
const summaryPrefix = "summary_"

// history turns the messages into a conversation. Reasoning belongs to the next message of the assistant. If another
// role speaks first, it belongs to the assistant's message before it.
func (p *prompt) history(input *RunAgentInput) error {
	if len(input.Messages) == 0 {
		return wire.Invalid("messages", "at least one message is required")
	}
	var waiting thoughts
	last, asked := contract.Nowhere, wire.Index("messages", len(input.Messages)-1)
	err := wire.Each("messages", input.Messages, func(path string, m *Message) error {
		err := wire.CheckID(path+".id", m.ID)
		if err != nil {
			return err
		}
		switch m.Role {
		case "activity":
			p.sealed(contract.Nowhere, m.EncryptedValue, path)
		case "reasoning":
			err = p.thinks(&waiting, m, path)
		case "assistant":
			last = len(p.req.Messages)
			if err = p.says(m, path); err == nil {
				p.attach(&waiting, last)
			}
		default:
			p.attach(&waiting, last)
			last = contract.Nowhere
			err = p.hears(m, path, path == asked)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.attach(&waiting, last)
	if len(p.req.Messages) == 0 {
		return wire.Invalid("messages", "none of them is for the model; at least one must be")
	}
	return nil
}

// attach adds the waiting reasoning to a message. contract.Nowhere means that there is no message for it.
func (p *prompt) attach(waiting *thoughts, message int) {
	for _, i := range waiting.values {
		p.values[i].Message = message
	}
	if message != contract.Nowhere {
		m := &p.req.Messages[message]
		m.Reasoning = paragraphs(append([]string{m.Reasoning}, waiting.texts...)...)
	}
	*waiting = thoughts{}
}

// sealed notes a value that the client sent back.
func (p *prompt) sealed(message int, value, path string) {
	if value != "" {
		p.values = append(p.values, contract.Carried{Message: message, Value: seal.Value{Sealed: value},
			Param: path + ".encryptedValue"})
	}
}

// thinks handles a reasoning message.
func (p *prompt) thinks(waiting *thoughts, m *Message, path string) error {
	text, err := stringOf(m, path)
	switch {
	case err != nil:
		return err
	case m.EncryptedValue != "":
		waiting.values = append(waiting.values, len(p.values))
		p.sealed(contract.Nowhere, m.EncryptedValue, path)
	case p.form != FormLegacy && !strings.HasPrefix(m.ID, summaryPrefix):
		waiting.texts = append(waiting.texts, text)
	}
	return nil
}

// says adds a message of the assistant.
func (p *prompt) says(m *Message, path string) error {
	text, err := stringOf(m, path)
	if err != nil {
		return err
	}
	place := len(p.req.Messages)
	p.sealed(place, m.EncryptedValue, path)
	to := chattemplate.Message{Role: chattemplate.Assistant}
	for i, c := range m.ToolCalls {
		path := wire.Index(path+".toolCalls", i)
		if err := wire.CheckID(path+".id", c.ID); err != nil {
			return err
		}
		if c.Function.Name == "" {
			return wire.Invalid(path+".function.name", "it is required")
		}
		to.ToolCalls = append(to.ToolCalls, chattemplate.ToolCall{ID: c.ID, Name: c.Function.Name,
			Arguments: c.Function.Arguments})
		p.sealed(place, c.EncryptedValue, path)
	}
	if len(to.ToolCalls) > 0 {
		to.Preamble = text
	} else {
		to.Content = text
	}
	p.req.Messages = append(p.req.Messages, to)
	return nil
}

// hears adds a message that is not the model's. Such messages never have a value. asked says that it is the last one.
func (p *prompt) hears(m *Message, path string, asked bool) error {
	p.sealed(contract.Nowhere, m.EncryptedValue, path)
	to := chattemplate.Message{Role: chattemplate.Role(m.Role)}
	var err error
	switch m.Role {
	case "user":
		to.Content, err = p.parts(m, path, asked)
	case "tool":
		if err := wire.CheckID(path+".toolCallId", m.ToolCallID); err != nil {
			return err
		}
		to.Role, to.ToolCallID = chattemplate.ToolRole, m.ToolCallID
		if to.Content, err = p.parts(m, path, false); m.Error != "" {
			to.Content = paragraphs("Error: "+m.Error, to.Content)
		}
	default:
		to.Content, err = stringOf(m, path)
	}
	p.req.Messages = append(p.req.Messages, to)
	return err
}

// stringOf returns content that must be a string.
func stringOf(m *Message, path string) (text string, err error) {
	switch {
	case wire.Given(m.Content):
		err = wire.UnmarshalAt(path+".content", m.Content, &text)
	case m.Role != "assistant":
		err = wire.Invalid(path+".content", "it is required")
	}
	return text, err
}

// parts returns the text of content that is a string or a list of parts. Parts that are not text are refused if asked
// is true; else a note stands in their place.
func (p *prompt) parts(m *Message, path string, asked bool) (string, error) {
	if !wire.Is(m.Content, '[') {
		return stringOf(m, path)
	}
	var texts []string
	err := wire.TextOrEach(path+".content", m.Content, nil, func(path string, part *Part) error {
		switch {
		case part.Type != "text" && asked:
			return wire.Unsupported(path+".type", "only text can be read here")
		case part.Type != "text":
			texts = append(texts, contract.Unread(&p.warnings, path, part.Type))
			return nil
		case part.Text == nil:
			return wire.Invalid(path+".text", "it is required")
		}
		texts = append(texts, *part.Text)
		return nil
	})
	return paragraphs(texts...), err
}

// resume adds the results with which the client answers the last calls.
func (p *prompt) resume(input *RunAgentInput) error {
	if len(input.Resume) == 0 {
		return nil
	}
	waiting := map[string]bool{}
	for _, m := range p.req.Messages {
		if len(m.ToolCalls) > 0 {
			clear(waiting)
		}
		for _, c := range m.ToolCalls {
			waiting[c.ID] = true
		}
		delete(waiting, m.ToolCallID)
	}
	err := wire.Each("resume", input.Resume, func(path string, r *Resume) (err error) {
		if !waiting[r.InterruptID] {
			return wire.Invalid(path+".interruptId", "no call with this id waits")
		}
		delete(waiting, r.InterruptID)
		to := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: r.InterruptID, Content: string(r.Payload)}
		if r.Status == "cancelled" {
			to.Content = "Error: the user cancelled the call"
		} else if wire.Is(r.Payload, '"') {
			to.Content, err = wire.Text(path+".payload", r.Payload)
		}
		p.req.Messages = append(p.req.Messages, to)
		return err
	})
	if err == nil && len(waiting) > 0 {
		err = wire.Invalid("resume", "it must answer all calls that wait")
	}
	return err
}
