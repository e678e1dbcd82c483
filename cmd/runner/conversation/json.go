package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"runner/chattemplate"
)

// The limits of a file.
const (
	MaxBytes    = 16 << 20
	MaxMessages = 10_000
)

// document is the JSON of a conversation. Messages are as in requests of OpenAI's chat completions.
type document struct {
	// Model is the model that the conversation was had with.
	Model    string    `json:"model,omitempty"`
	Messages []message `json:"messages"`
}

type message struct {
	Role    chattemplate.Role `json:"role"`
	Content string            `json:"content"`
	// Name is the author, or the function of a message with role tool.
	Name       string     `json:"name,omitempty"`
	Reasoning  string     `json:"reasoning,omitempty"`
	Preamble   string     `json:"preamble,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// maxName is the size of the longest name of an unknown field that an error shows, in bytes.
const maxName = 64

// callType is the only type of a call.
const callType = "function"

// JSON returns a conversation with a model as JSON. [Parse] reads it.
func (c *Conversation) JSON(model string) ([]byte, error) {
	d := document{Model: model, Messages: []message{}}
	for _, m := range c.Messages() {
		to := message{Role: m.Role, Content: m.Content, Name: m.Name, Reasoning: m.Reasoning, Preamble: m.Preamble,
			ToolCallID: m.ToolCallID}
		if m.Role == chattemplate.ToolRole {
			to.Name = m.ToolName
		}
		for _, call := range m.ToolCalls {
			to.ToolCalls = append(to.ToolCalls, toolCall{call.ID, callType, function{call.Name, call.Arguments}})
		}
		d.Messages = append(d.Messages, to)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(d)
	return b.Bytes(), err
}

// Parse reads the JSON of a conversation and the model that it was had with, which may be empty. The text is not
// trusted. Its errors name places and never quote the text.
func Parse(data []byte) (c Conversation, model string, err error) {
	switch {
	case len(data) > MaxBytes:
		return c, "", fmt.Errorf("it is larger than %d MiB", MaxBytes>>20)
	case !utf8.Valid(data):
		return c, "", errors.New("it is not UTF-8 text")
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return c, "", jsonError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return c, "", errors.New("it has more than one JSON object")
	}
	if len(d.Messages) > MaxMessages {
		return c, "", fmt.Errorf("it has %d messages, and %d are allowed", len(d.Messages), MaxMessages)
	}
	var list []chattemplate.Message
	for i, m := range d.Messages {
		to, err := m.read()
		if err != nil {
			return c, "", fmt.Errorf("messages[%d]: %w", i, err)
		}
		list = append(list, to)
	}
	if list, err = check(list); err != nil {
		return c, "", err
	}
	return fromMessages(list), d.Model, nil
}

// jsonError explains an error of the JSON decoder.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON: error at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is a JSON %s, not an object with messages", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s cannot be a JSON %s (byte %d)", kind.Field, kind.Value, kind.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not JSON: its end is missing")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok && len(name) <= maxName {
		return fmt.Errorf("it has an unknown field %s", name)
	}
	return errors.New("it has an unknown field")
}

func (m *message) read() (to chattemplate.Message, err error) {
	to = chattemplate.Message{Role: m.Role, Content: m.Content, Name: m.Name, Reasoning: m.Reasoning,
		Preamble: m.Preamble, ToolCallID: m.ToolCallID}
	if m.Role == chattemplate.ToolRole {
		to.Name, to.ToolName = "", m.Name
	}
	if m.Role != chattemplate.Assistant && (m.Reasoning != "" || m.Preamble != "" || len(m.ToolCalls) > 0) {
		return to, errors.New("only an assistant has reasoning, a preamble and calls")
	}
	if m.Role != chattemplate.ToolRole && m.ToolCallID != "" {
		return to, errors.New("only the result of a tool has a tool_call_id")
	}
	for _, call := range m.ToolCalls {
		if call.Type != callType {
			return to, errors.New("a call's type can only be function")
		}
		to.ToolCalls = append(to.ToolCalls, chattemplate.ToolCall{ID: call.ID, Name: call.Function.Name,
			Arguments: call.Function.Arguments})
	}
	return to, nil
}

// check returns the messages with the names of tools filled in. It refuses messages that a chat cannot go on from.
func check(list []chattemplate.Message) ([]chattemplate.Message, error) {
	if len(list) == 0 {
		return nil, errors.New("it has no messages")
	}
	whole, err := chattemplate.Normalize(chattemplate.Conversation{Messages: list})
	if bad := (*chattemplate.ConversationError)(nil); errors.As(err, &bad) && bad.Message >= 0 {
		return nil, fmt.Errorf("messages[%d]: %w; %s", bad.Message, bad.Err, bad.Advice)
	}
	if err != nil {
		return nil, err
	}
	begun := false
	open := map[string]bool{} // the calls without a result
	for i, m := range whole.Messages {
		var wrong string
		switch {
		case chattemplate.IsPrompt(m.Role):
			if begun {
				wrong = "a system message can only come first"
			}
		case m.Role == chattemplate.ToolRole:
			if !open[m.ToolCallID] {
				wrong = "no call before it waits for this result"
			}
			delete(open, m.ToolCallID)
		case len(open) > 0:
			wrong = "a call before it has no result"
		case m.Role == chattemplate.User:
			begun = true
		case !begun:
			wrong = "the user has to begin"
		}
		for _, call := range m.ToolCalls {
			if open[call.ID] {
				wrong = "two of its calls have the same id"
			}
			open[call.ID] = true
		}
		if wrong != "" {
			return nil, fmt.Errorf("messages[%d]: %s", i, wrong)
		}
	}
	if len(open) > 0 {
		return nil, errors.New("the last call has no result")
	}
	return whole.Messages, nil
}
