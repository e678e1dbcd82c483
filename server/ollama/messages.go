package ollama

import (
	"encoding/json"
	"strings"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Message is a message of a conversation, in requests and in answers.
//
//openapi:request OllamaMessage
type Message struct {
	// The author's role.
	Role string `json:"role" api:"#OllamaRole required"`
	// The text.
	Content string `json:"content"`
	// The assistant's reasoning. It is used only while calls are pending and by keys with the permission
	// `reasoning:full`.
	Thinking string `json:"thinking,omitempty"`
	// The assistant's calls.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// The name of the function whose result a tool message has. Without this and `tool_call_id`, tool messages answer
	// the calls in order.
	ToolName string `json:"tool_name,omitempty"`
	// The id of the call whose result a tool message has.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Models here read only text. Images in the last message are refused; elsewhere a note takes their place, with the
	// warning `media_skipped`.
	Images []json.RawMessage `json:"images,omitempty" api:"array"`
}

// ToolCall is a call of a function.
//
//openapi:request OllamaToolCall
type ToolCall struct {
	// The id of the call.
	ID string `json:"id,omitempty"`
	// The function that is called.
	Function ToolCallFunction `json:"function" api:"required"`
}

// ToolCallFunction is the function that is called.
//
//openapi:request
type ToolCallFunction struct {
	// The index of the call in its message.
	Index int `json:"index" api:"[0..]"`
	// The name of the function.
	Name string `json:"name" api:"required"`
	// The arguments, an object. Requests may also have a string; answers never do.
	Arguments json.RawMessage `json:"arguments" api:"{}|string"`
}

// Tool is a function that the model may call.
//
//openapi:request OllamaTool
type Tool struct {
	// `function`. Tools of other types are ignored with the warning `unknown_tool_type`.
	Type string `json:"type" api:"default=function"`
	// The function.
	Function struct {
		// 1 to 256 bytes without white space and without angle, square and curly brackets.
		Name string `json:"name" api:"[1..256] required"`
		// What the tool does. The model reads this.
		Description string `json:"description"`
		// A JSON Schema of the arguments.
		Parameters json.RawMessage `json:"parameters" api:"{}"`
	} `json:"function" api:"required"`
}

func (p *prompt) tools(list []json.RawMessage) error {
	return wire.Each("tools", list, func(path string, t *Tool) error {
		if t.Type != "" && t.Type != "function" {
			p.head.warnings.Add("unknown_tool_type", path+" was left out: only tools of type function are known here")
			return nil
		}
		return contract.AddTool(&p.req, path+".function", path+".function.parameters", chattemplate.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters,
		})
	})
}

// history reads the messages of a conversation.
func (p *prompt) history(list []json.RawMessage) error {
	left := len(list)
	err := wire.Each("messages", list, func(path string, in *Message) error {
		left--
		if len(in.Images) > 0 {
			if path += ".images"; left == 0 {
				return wire.Unsupported(path, "models here read text only")
			}
			in.Content = strings.TrimSpace(contract.Unread(&p.head.warnings, path, "image") + "\n" + in.Content)
		}
		m := chattemplate.Message{Role: chattemplate.Role(strings.ToLower(in.Role)), Content: in.Content}
		switch m.Role {
		case chattemplate.System, chattemplate.Developer, chattemplate.User:
		case chattemplate.ToolRole:
			m.ToolName, m.ToolCallID = in.ToolName, in.ToolCallID
		case chattemplate.Assistant:
			m.Reasoning = in.Thinking
			for _, c := range in.ToolCalls {
				m.ToolCalls = append(m.ToolCalls, chattemplate.ToolCall{ID: c.ID, Name: c.Function.Name,
					Arguments: contract.Arguments(c.Function.Arguments)})
			}
			if len(m.ToolCalls) > 0 {
				m.Preamble, m.Content = m.Content, ""
			}
		default:
			return wire.Invalid(path+".role", "it takes system, user, assistant or tool")
		}
		p.req.Messages = append(p.req.Messages, m)
		p.req.Continues = m.Role == chattemplate.Assistant && len(m.ToolCalls) == 0
		return nil
	})
	return err
}

// callOf returns a call for an answer. ok is false if its arguments are no object: this API has no place for them.
func callOf(call reasoning.Call, arguments string) (c ToolCall, ok bool) {
	c = ToolCall{ID: call.ID, Function: ToolCallFunction{Index: call.Index, Name: call.Name}}
	c.Function.Arguments, ok = contract.Object(arguments)
	return c, ok
}
