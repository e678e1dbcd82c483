package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// MessageParam is a message of the conversation.
//
//openapi:request MessageParam
type MessageParam struct {
	// The author's role.
	Role string `json:"role" api:"=user,assistant,system required"`
	// The text or the blocks. It may be empty only in assistant messages.
	Content json.RawMessage `json:"content" api:"string|[]#ContentBlockParam required"`
}

// Block is a content block of a message in a request.
//
// A block of a message. Images, documents and search results are refused, and the error says where they are.
//
//openapi:request ContentBlockParam
type Block struct {
	// The type of the block. `tool_result` is for user messages. `tool_use`, `thinking` and `redacted_thinking` are for
	// assistant messages.
	Type string `json:"type" api:"=text,tool_use,tool_result,thinking,redacted_thinking required"`
	// The text of a `text` block.
	Text *string `json:"text"`
	// The id of the call, in a `tool_use` block.
	ID string `json:"id"`
	// The name of the tool, in a `tool_use` block.
	Name string `json:"name"`
	// The arguments, in a `tool_use` block. Usually an object.
	Input json.RawMessage `json:"input" api:"any"`
	// The id of the call, in a `tool_result` block.
	ToolUseID string `json:"tool_use_id"`
	// The result of the call, in a `tool_result` block.
	Content json.RawMessage `json:"content" api:"string|[]#ContentBlockParam"`
	// Whether the tool failed, in a `tool_result` block.
	IsError bool `json:"is_error" api:"default=false"`
	// The text of a `thinking` block. The signature, not this text, restores the reasoning. Without a signature the text
	// is used only while calls are pending and by keys with the permission `reasoning:full`.
	Thinking string `json:"thinking"`
	// The signature of a `thinking` block, as the server sent it.
	Signature string `json:"signature"`
	// The sealed reasoning of a `redacted_thinking` block, as the server sent it.
	Data string `json:"data"`
}

// turn holds the blocks of neighbouring messages of one role.
type turn struct {
	role   string
	blocks []placed
}

// placed is a block with its place in the request.
type placed struct {
	Block
	path string
}

// history reads the system prompt and the messages of a conversation.
func (p *prompt) history(body *MessagesRequest) error {
	if wire.Given(body.System) {
		blocks, err := readBlocks("system", body.System)
		if err != nil {
			return err
		}
		text, err := textOf(blocks)
		if err != nil {
			return err
		}
		if text != "" {
			p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.System, Content: text})
		}
	}
	turns, err := readTurns(body.Messages)
	if err != nil {
		return err
	}
	for _, t := range turns {
		switch t.role {
		case "user":
			err = p.user(t)
		case "assistant":
			err = p.assistant(t)
		case "system":
			var text string
			if text, err = textOf(t.blocks); err == nil {
				p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.System, Content: text})
			}
		}
		if err != nil {
			return err
		}
	}
	wire.DropPlain(p.req.Messages, nil)
	return nil
}

func readTurns(messages []json.RawMessage) ([]turn, error) {
	if len(messages) == 0 {
		return nil, wire.Invalid("messages", "at least one message is required")
	}
	var turns []turn
	err := wire.Each("messages", messages, func(path string, m *MessageParam) error {
		blocks, err := readBlocks(path+".content", m.Content)
		if err == nil && len(blocks) == 0 && m.Role != "assistant" {
			err = wire.Invalid(path+".content", "it is empty")
		}
		if last := len(turns) - 1; last >= 0 && turns[last].role == m.Role {
			turns[last].blocks = append(turns[last].blocks, blocks...)
		} else {
			turns = append(turns, turn{m.Role, blocks})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if turns[len(turns)-1].role == "assistant" {
		return nil, wire.Unsupported(wire.Index("messages", len(messages)-1),
			"a reply cannot go on from a beginning that is given (prefill); end with a message of the user")
	}
	return turns, nil
}

// readBlocks reads content: a string, which is one text block, or a list of blocks.
func readBlocks(path string, raw json.RawMessage) (blocks []placed, err error) {
	return blocks, wire.TextOrEach(path, raw, func(s string) {
		blocks = append(blocks, placed{Block{Type: "text", Text: &s}, path})
	}, func(path string, b *Block) error {
		if b.Type == "text" && b.Text == nil {
			return wire.Invalid(path+".text", "it is required")
		}
		blocks = append(blocks, placed{*b, path})
		return nil
	})
}

// refused returns the error for a block that is not allowed in its place.
func (b *placed) refused(where string) error {
	switch b.Type {
	case "image", "document", "search_result", "container_upload":
		return wire.Unsupported(b.path, "a block of type %s cannot be read here; local models take text", b.Type)
	case "text", "tool_use", "tool_result", "thinking", "redacted_thinking":
		return wire.Invalid(b.path, "a block of type %s cannot stand in %s", b.Type, where)
	}
	return wire.Unsupported(b.path+".type", "blocks of this type are not known here")
}

// paragraphs joins texts with blank lines.
func paragraphs(texts []string) string { return strings.Join(texts, "\n\n") }

// textOf returns the text of blocks, all of which must be text blocks.
func textOf(blocks []placed) (string, error) {
	var texts []string
	for _, b := range blocks {
		if b.Type != "text" {
			return "", b.refused("a place for text")
		}
		texts = append(texts, *b.Text)
	}
	return paragraphs(texts), nil
}

// user adds a user's messages and the answers of tools in order.
func (p *prompt) user(t turn) error {
	var texts []string
	flush := func() {
		if texts != nil {
			p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.User, Content: paragraphs(texts)})
			texts = nil
		}
	}
	for _, b := range t.blocks {
		switch b.Type {
		case "text":
			texts = append(texts, *b.Text)
		case "tool_result":
			flush()
			if b.ToolUseID == "" {
				return wire.Invalid(b.path+".tool_use_id", "it is required")
			}
			var content string
			if wire.Given(b.Content) {
				blocks, err := readBlocks(b.path+".content", b.Content)
				if err != nil {
					return err
				}
				if content, err = textOf(blocks); err != nil {
					return err
				}
			}
			if b.IsError {
				content = "Error: " + content
			}
			p.req.Messages = append(p.req.Messages, chattemplate.Message{
				Role: chattemplate.ToolRole, ToolCallID: b.ToolUseID, Content: content,
			})
		default:
			return b.refused("a message of the user")
		}
	}
	flush()
	return nil
}

// assistant adds a reply of the model.
func (p *prompt) assistant(t turn) error {
	m := chattemplate.Message{Role: chattemplate.Assistant}
	var texts, unsigned []string
	for _, b := range t.blocks {
		switch b.Type {
		case "text":
			texts = append(texts, *b.Text)
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return wire.Invalid(b.path, "a call needs an id and a name")
			}
			m.ToolCalls = append(m.ToolCalls, chattemplate.ToolCall{ID: b.ID, Name: b.Name,
				Arguments: contract.Arguments(b.Input)})
		case "thinking":
			if b.Signature == "" {
				unsigned = append(unsigned, b.Thinking)
				continue
			}
			p.values = append(p.values, p.carried(&b, "signature", b.Signature))
		case "redacted_thinking":
			p.values = append(p.values, p.carried(&b, "data", b.Data))
		default:
			return b.refused("a message of the assistant")
		}
	}
	if len(m.ToolCalls) > 0 {
		m.Preamble = paragraphs(texts)
	} else {
		m.Content = paragraphs(texts)
	}
	if n := len(p.values); n == 0 || p.values[n-1].Message != len(p.req.Messages) {
		m.Reasoning = paragraphs(unsigned)
	}
	p.req.Messages = append(p.req.Messages, m)
	return nil
}

// carried returns a sealed value of the next message. field is the value's field in the block.
func (p *prompt) carried(b *placed, field, value string) contract.Carried {
	return contract.Carried{
		Message: len(p.req.Messages), Value: seal.Value{Sealed: value}, Param: b.path + "." + field,
		Refusal: fmt.Sprintf("%s: Invalid `%s` in `%s` block", dotted(b.path), field, b.Type),
	}
}

// dotted returns a path as in Anthropic's errors, for example messages.1.content.0. Clients look for it.
func dotted(path string) string {
	return strings.NewReplacer("[", ".", "]", "").Replace(path)
}
