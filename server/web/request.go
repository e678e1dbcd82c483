package web

import (
	"encoding/json"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Request is the body of POST /web/chat.
//
// Unknown fields are ignored. Settings of sampling that are left out have the server's values (`--temperature` and
// others).
//
//openapi:request WebRequest
type Request struct {
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// The id of the conversation, at most 1,024 bytes. Sealed values are valid only in their conversation.
	Conversation string `json:"conversation" api:"[1..1024] required"`
	// The whole conversation.
	Messages []Message `json:"messages" api:"[1..100000] required" of:"Messages"`
	// Fields are the options for the reasoning.
	contract.Fields
	// The tools that the model may call. Their results are sent as messages with the role `tool`.
	Tools []Tool `json:"tools" api:"[..1024]" of:"Tools"`
	// Whether the model may or must call a tool. The default is `auto`.
	ToolChoice *string `json:"tool_choice" api:"=auto,none,required" of:"ToolChoice"`
	// A JSON Schema that the answer must match.
	Schema json.RawMessage `json:"schema" api:"{}" of:"Form,ResponseFormat"`
	// The maximum number of tokens to generate, including reasoning.
	MaxTokens *int `json:"max_tokens" api:"[1..2147483647]" sets:"MaxTokens"`

	wire.Sampling
	// Makes the run repeatable. Without it a random seed is used.
	Seed *uint64 `json:"seed" api:"[0..9007199254740991]" sets:"Seed"`
	// The answer ends before the first of these texts.
	Stop []string `json:"stop" api:"[..16]string[1..1024]" of:"Stop"`
}

// Message is a message of the conversation.
//
//openapi:request WebMessage
type Message struct {
	// The author's role.
	Role string `json:"role" api:"=system,user,assistant,tool required"`
	// The text.
	Content string `json:"content"`
	// The assistant's calls.
	Calls []Call `json:"calls" api:"[..1024]"`
	// The id of the call that a message with role `tool` answers.
	CallID string `json:"call_id" api:"[..1024]"`
	// The sealed value of the reasoning before an assistant's message, as the server sent it.
	Sealed string `json:"sealed"`
	// The instructions of an assistant's message, as the server sent them.
	Instructions []json.RawMessage `json:"instructions" api:"[..16]#Instruction|null"`
}

// Call is a call of a tool by the model.
//
//openapi:request WebCall
type Call struct {
	// The id of the call, at most 1,024 bytes.
	ID string `json:"id" api:"[1..1024] required"`
	// The name of the tool.
	Name string `json:"name" api:"[1..] required"`
	// The arguments as the model wrote them.
	Arguments string `json:"arguments"`
}

// Tool is a function that the model may call.
//
//openapi:request WebTool
type Tool struct {
	// 1 to 256 bytes without white space and without angle, square and curly brackets.
	Name string `json:"name" api:"[1..256] required"`
	// What the tool does. The model reads this.
	Description string `json:"description"`
	// A JSON Schema of the arguments. Leave it out if there are none.
	Parameters json.RawMessage `json:"parameters" api:"{}"`
}

// turn is a decoded request.
type turn struct {
	req    generation.Request
	values []contract.Carried
	// trace asks for a trace of the run.
	trace  bool
	schema json.RawMessage
	// warnings are about what was left out of the request.
	warnings wire.Warnings
}

// decode reads a principal's request, except for what needs the model.
func (a *API) decode(who *wire.Principal, in *Request) (*turn, error) {
	if err := wire.CheckID("conversation", in.Conversation); err != nil {
		return nil, err
	}
	t := &turn{req: a.cfg.Request(who)}
	asked, err := in.Parse(nil)
	if err != nil {
		return nil, err
	}
	asked.Apply(&t.req)
	if err := asked.CanTrace(a.cfg.Traces); err != nil {
		return nil, err
	}
	t.warnings, t.trace = asked.Warnings, asked.Encrypt
	for _, step := range []func(*Request) error{t.history, t.tools, t.form, t.sampling} {
		if err := step(in); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// history reads the messages.
func (t *turn) history(in *Request) error {
	if len(in.Messages) == 0 {
		return wire.Invalid("messages", "at least one message is required")
	}
	for i := range in.Messages {
		m, path := &in.Messages[i], wire.Index("messages", i)
		to := chattemplate.Message{Role: chattemplate.Role(m.Role), Content: m.Content}
		switch m.Role {
		case "tool":
			if err := wire.CheckID(path+".call_id", m.CallID); err != nil {
				return err
			}
			to.Role, to.ToolCallID = chattemplate.ToolRole, m.CallID
		case "assistant":
			if err := says(m, &to, path); err != nil {
				return err
			}
		}
		if m.Sealed != "" {
			place := i
			if m.Role != "assistant" {
				place = contract.Nowhere
			}
			t.values = append(t.values, contract.Carried{Message: place, Value: seal.Value{Sealed: m.Sealed},
				Param: path + ".sealed"})
		}
		err := contract.Instructions(&t.req.Delegation.Instructions, i, path+".instructions", m.Instructions, &t.warnings)
		if err != nil {
			return err
		}
		t.req.Messages = append(t.req.Messages, to)
	}
	return nil
}

// says reads the calls of an assistant's message. The text before calls is no answer.
func says(m *Message, to *chattemplate.Message, path string) error {
	for i, c := range m.Calls {
		path := wire.Index(path+".calls", i)
		if err := wire.CheckID(path+".id", c.ID); err != nil {
			return err
		}
		if c.Name == "" {
			return wire.Invalid(path+".name", "it is required")
		}
		to.ToolCalls = append(to.ToolCalls, chattemplate.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if len(to.ToolCalls) > 0 {
		to.Preamble, to.Content = to.Content, ""
	}
	return nil
}

func (t *turn) tools(in *Request) error {
	for i, tool := range in.Tools {
		path := wire.Index("tools", i)
		if err := contract.AddTool(&t.req, path, path+".parameters", chattemplate.Tool{Name: tool.Name,
			Description: tool.Description, Parameters: tool.Parameters}); err != nil {
			return err
		}
	}
	if in.ToolChoice != nil {
		t.req.ToolChoice = generation.ToolChoice(*in.ToolChoice)
	}
	return nil
}

// form reads the schema of the answer.
func (t *turn) form(in *Request) error {
	schema, err := wire.Schema("schema", in.Schema)
	if t.schema = schema; schema != nil {
		t.req.Form = grammar.JSONSchema(schema)
	}
	return err
}

// sampling reads the options for generating the answer.
func (t *turn) sampling(in *Request) error {
	wire.Set(&t.req, in)
	return wire.SetStops("stop", in.Stop, &t.req.Stop)
}
