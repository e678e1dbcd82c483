package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
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
// A block of a message. Blocks of types that are not known here are left out with the warning `block_skipped`. An image
// or a file in the last message is refused; elsewhere a note takes its place, with the warning `media_skipped`.
//
//openapi:request ContentBlockParam
type Block struct {
	// The type of the block: `text`, `document`, `search_result`, `tool_use`, `tool_result`, `tool_reference`, `thinking`,
	// `redacted_thinking`, or another. `tool_result` is for user messages. `tool_use`, `thinking` and `redacted_thinking`
	// are for assistant messages. `tool_reference` is for results.
	Type string `json:"type" api:"required"`
	// The text of a `text` block.
	Text *string `json:"text"`
	// The title of a `document` or a `search_result`.
	Title string `json:"title"`
	// What the model should know about a `document`.
	Context string `json:"context"`
	// The text of a `document`. In a `search_result`, the place where it was found.
	Source json.RawMessage `json:"source" api:"string|#DocumentSource"`
	// The id of the call, in a `tool_use` block.
	ID string `json:"id"`
	// The name of the tool, in a `tool_use` block.
	Name string `json:"name"`
	// The arguments, in a `tool_use` block. Usually an object.
	Input json.RawMessage `json:"input" api:"any"`
	// The id of the call, in a `tool_result` block.
	ToolUseID string `json:"tool_use_id"`
	// The name of a tool that was found, in a `tool_reference` block. From there on the model knows a tool with
	// `defer_loading`.
	ToolName string `json:"tool_name"`
	// The result of the call, in a `tool_result` block, or the text of a `search_result`.
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

// DocumentSource is the text of a document.
//
//openapi:request DocumentSource
type DocumentSource struct {
	// `text` or `content`. Documents of other types are treated like images.
	Type string `json:"type" api:"required"`
	// The text, for type `text`.
	Data json.RawMessage `json:"data" api:"string"`
	// The text or its blocks, for type `content`.
	Content json.RawMessage `json:"content" api:"string|[]#ContentBlockParam"`
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
	// asked says that the block stands in the last message.
	asked bool
}

// billing begins a line that Claude Code puts before its system prompt. It says nothing to the model, and it differs in
// each request, so that no prompt with it begins like an earlier one.
const billing = "x-anthropic-billing-header:"

// history reads the system prompt and the messages of a conversation.
func (p *prompt) history(body *MessagesRequest) error {
	if wire.Given(body.System) {
		blocks, err := readBlocks("system", body.System, false)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if b.Text != nil && strings.HasPrefix(*b.Text, billing) {
				_, *b.Text, _ = strings.Cut(*b.Text, "\n")
			}
		}
		text, err := p.text(blocks)
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
	p.req.Continues = turns[len(turns)-1].role == "assistant"
	for _, t := range turns {
		switch t.role {
		case "user":
			err = p.user(t)
		case "assistant":
			err = p.assistant(t)
		case "system":
			var text string
			if text, err = p.text(t.blocks); err == nil {
				p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.System, Content: text})
			}
		}
		if err != nil {
			return err
		}
	}
	p.reveal()
	return nil
}

// reveal leaves out the tools that a search has not found yet. Where no search can find them, all are known: without
// another tool, and with a search of Anthropic's own, which this server does not have.
func (p *prompt) reveal() {
	known := map[string]bool{p.req.ToolName: true}
	for _, m := range p.req.Messages {
		for _, c := range m.ToolCalls {
			known[c.Name] = true
		}
	}
	searches := !p.hostedSearch && slices.ContainsFunc(p.req.Tools, func(t chattemplate.Tool) bool { return !t.Told })
	var kept []chattemplate.Tool
	for _, t := range p.req.Tools {
		switch {
		case !t.Told || p.found[t.Name]:
		case searches && !known[t.Name]:
			continue
		default:
			t.Told = false // no message describes it
		}
		kept = append(kept, t)
	}
	p.req.Tools = kept
}

func readTurns(messages []json.RawMessage) ([]turn, error) {
	if len(messages) == 0 {
		return nil, wire.Invalid("messages", "at least one message is required")
	}
	var turns []turn
	left := len(messages)
	err := wire.Each("messages", messages, func(path string, m *MessageParam) error {
		left--
		blocks, err := readBlocks(path+".content", m.Content, left == 0)
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
	return turns, err
}

// readBlocks reads content: a string, which is one text block, or a list of blocks. asked says that it is in the last
// message.
func readBlocks(path string, raw json.RawMessage, asked bool) (blocks []placed, err error) {
	return blocks, wire.TextOrEach(path, raw, func(s string) {
		blocks = append(blocks, placed{Block{Type: "text", Text: &s}, path, asked})
	}, func(path string, b *Block) error {
		if b.Type == "text" && b.Text == nil {
			return wire.Invalid(path+".text", "it is required")
		}
		blocks = append(blocks, placed{*b, path, asked})
		return nil
	})
}

// paragraphs joins texts with blank lines.
func paragraphs(texts []string) string { return strings.Join(texts, "\n\n") }

// text returns what the model reads of blocks in a place for text.
func (p *prompt) text(blocks []placed) (string, error) {
	var texts []string
	for i := range blocks {
		text, err := p.read(&blocks[i])
		if err != nil {
			return "", err
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return paragraphs(texts), nil
}

// read returns what the model reads of a block. It is empty for a block that is left out.
func (p *prompt) read(b *placed) (string, error) {
	switch b.Type {
	case "text":
		return *b.Text, nil
	case "document":
		return p.document(b)
	case "search_result":
		source, err := wire.Text(b.path+".source", b.Source)
		if err != nil {
			return "", err
		}
		return p.quoted(b, "search_result", source, b.path+".content", b.Content)
	case "tool_reference":
		return p.reference(b)
	case "image", "container_upload":
		return p.unread(b)
	case "tool_use", "tool_result", "thinking", "redacted_thinking":
		return "", wire.Invalid(b.path, "a block of type %s cannot stand here", b.Type)
	}
	p.warnings.AddOnce("block_skipped",
		b.path+" was left out: blocks of the type "+wire.Clip(b.Type)+" are not known here")
	return "", nil
}

// unread returns the note in place of a block that models here cannot read. In the last message it is an error.
func (p *prompt) unread(b *placed) (string, error) {
	if b.asked {
		return "", wire.Unsupported(b.path, "a block of type %s cannot be read here; local models take text", b.Type)
	}
	return contract.Unread(&p.warnings, b.path, b.Type), nil
}

// document returns the text of a document, if it is text.
func (p *prompt) document(b *placed) (string, error) {
	var source DocumentSource
	if err := wire.Object(b.path+".source", b.Source, &source); err != nil {
		return "", err
	}
	switch source.Type {
	case "text":
		return p.quoted(b, "document", "", b.path+".source.data", source.Data)
	case "content":
		return p.quoted(b, "document", "", b.path+".source.content", source.Content)
	}
	return p.unread(b)
}

// quoted returns a text from elsewhere, marked with its kind, its title and its source.
func (p *prompt) quoted(b *placed, kind, source, path string, content json.RawMessage) (string, error) {
	blocks, err := readBlocks(path, content, b.asked)
	if err != nil {
		return "", err
	}
	text, err := p.text(blocks)
	mark := "<" + kind
	for _, about := range [][2]string{{"title", b.Title}, {"source", source}, {"context", b.Context}} {
		if about[1] != "" {
			mark += " " + about[0] + "=" + wire.Quote(about[1])
		}
	}
	return mark + ">\n" + text + "\n</" + kind + ">", err
}

// reference returns the definition of a tool that a search has found, once. From here on the model may call it.
func (p *prompt) reference(b *placed) (string, error) {
	i := slices.IndexFunc(p.req.Tools, func(t chattemplate.Tool) bool { return t.Name == b.ToolName })
	if i < 0 {
		p.warnings.Add("block_skipped", b.path+" was left out: tools has no tool with this name")
		return "", nil
	}
	if p.found[b.ToolName] {
		return b.ToolName, nil // an earlier result describes it
	}
	if p.found == nil {
		p.found = map[string]bool{}
	}
	p.found[b.ToolName] = true
	text, err := wire.Marshal(p.req.Tools[i])
	return string(text), err
}

// user adds a user's messages and the answers of tools in order.
func (p *prompt) user(t turn) error {
	before := len(p.req.Messages)
	var texts []string
	flush := func() {
		if texts != nil {
			p.req.Messages = append(p.req.Messages, chattemplate.Message{Role: chattemplate.User, Content: paragraphs(texts)})
			texts = nil
		}
	}
	for _, b := range t.blocks {
		if b.Type == "tool_result" {
			flush()
			if b.ToolUseID == "" {
				return wire.Invalid(b.path+".tool_use_id", "it is required")
			}
			var content string
			if wire.Given(b.Content) {
				// A client sends the same results again with each request, so that a refusal would end the conversation.
				blocks, err := readBlocks(b.path+".content", b.Content, false)
				if err != nil {
					return err
				}
				if content, err = p.text(blocks); err != nil {
					return err
				}
			}
			if b.IsError {
				content = "Error: " + content
			}
			p.req.Messages = append(p.req.Messages, chattemplate.Message{
				Role: chattemplate.ToolRole, ToolCallID: b.ToolUseID, Content: content,
			})
			continue
		}
		text, err := p.read(&b)
		if err != nil {
			return err
		}
		if text != "" || b.Type == "text" {
			texts = append(texts, text)
		}
	}
	flush()
	if last := t.blocks[len(t.blocks)-1]; last.asked && len(p.req.Messages) == before {
		return wire.Unsupported(last.path+".type", "nothing in the last message can be read here")
	}
	return nil
}

// assistant adds a reply of the model.
func (p *prompt) assistant(t turn) error {
	m := chattemplate.Message{Role: chattemplate.Assistant}
	var texts, unsigned []string
	for _, b := range t.blocks {
		switch b.Type {
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
			text, err := p.read(&b)
			if err != nil {
				return err
			}
			if text != "" {
				texts = append(texts, text)
			}
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
