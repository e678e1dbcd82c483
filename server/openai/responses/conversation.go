package responses

import (
	"slices"

	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// opener opens the sealed values of a conversation.
type opener struct {
	*contract.Restorer
	// model is the digest of the model that goes on with it.
	model string
}

// value returns the sealed value of an entry. ok is false where it belongs to another model of the store: a
// conversation may go on with a new model, which has no use for these thoughts.
func (o *opener) value(e *entry, item *Reasoning) (v contract.Carried, ok bool) {
	v = contract.Carried{Value: seal.Value{Sealed: item.EncryptedContent}, Param: "previous_response_id"}
	if e.path != "" {
		v.Param = e.path + ".encrypted_content"
	}
	if e.sealed != "" {
		v.Value.Sealed = e.sealed
	}
	if e.home == nil {
		return v, true
	}
	v.Value.Elsewhere = &e.home.Conversation
	return v, e.home.Model == o.model
}

// assembler makes messages of items. What an assistant thinks, says and calls in one go becomes one message.
type assembler struct {
	messages []chattemplate.Message
	// turn is the assistant's message in the making; nil between two.
	turn *chattemplate.Message
	// values are the turn's sealed values. sealed says that there are some, so that plain text does not count.
	values []contract.Carried
	sealed bool
	opener *opener
	// plain lists the messages whose reasoning a client sent as plain text.
	plain []int
	calls map[string]bool
}

// messages makes the messages of a conversation, its sealed values opened.
func messages(entries []entry, o *opener) ([]chattemplate.Message, error) {
	a := &assembler{calls: map[string]bool{}, opener: o}
	for i := range entries {
		var err error
		switch item := entries[i].item.(type) {
		case *Message:
			err = a.message(item)
		case *Reasoning:
			err = a.reasoning(&entries[i], item)
		case *FunctionCall:
			a.call(item)
		case *FunctionCallOutput:
			err = a.output(item, entries[i].path)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.flush(); err != nil {
		return nil, err
	}
	wire.DropPlain(a.messages, func(i int) bool { return slices.Contains(a.plain, i) })
	return a.messages, nil
}

// flush ends the assistant's message. Now that its calls are known, its sealed values are opened.
func (a *assembler) flush() (err error) {
	t, values := a.turn, a.values
	a.turn, a.values = nil, nil
	if len(values) > 0 {
		if t.Reasoning, err = a.opener.Message(a.messages, t, values); err != nil {
			return err
		}
	}
	if t != nil && (t.Content != "" || t.Reasoning != "" || t.Preamble != "" || len(t.ToolCalls) > 0) {
		if t.Reasoning != "" && !a.sealed {
			a.plain = append(a.plain, len(a.messages))
		}
		a.messages = append(a.messages, *t)
	}
	a.sealed = false
	return nil
}

// assistant returns the assistant's message in the making.
func (a *assembler) assistant() *chattemplate.Message {
	if a.turn == nil {
		a.turn = &chattemplate.Message{Role: chattemplate.Assistant}
	}
	return a.turn
}

func (a *assembler) message(m *Message) error {
	if m.Role != string(chattemplate.Assistant) {
		err := a.flush()
		a.messages = append(a.messages, chattemplate.Message{Role: chattemplate.Role(m.Role), Content: joined(m.Content)})
		return err
	}
	if err := a.settle(); err != nil {
		return err
	}
	t := a.assistant()
	if m.Phase != phaseCommentary {
		t.Content = joined(m.Content)
		return nil
	}
	if t.Preamble != "" {
		t.Preamble += "\n\n"
	}
	t.Preamble += joined(m.Content)
	return nil
}

// settle ends the assistant's message if it has come to an answer or to calls.
func (a *assembler) settle() error {
	if t := a.turn; t != nil && (t.Content != "" || len(t.ToolCalls) > 0) {
		return a.flush()
	}
	return nil
}

func (a *assembler) reasoning(e *entry, item *Reasoning) error {
	if err := a.settle(); err != nil {
		return err
	}
	t := a.assistant()
	if item.EncryptedContent != "" || e.sealed != "" {
		if v, ok := a.opener.value(e, item); ok {
			a.values = append(a.values, v)
		}
		a.sealed, t.Reasoning = true, ""
		return nil
	}
	if !a.sealed {
		if t.Reasoning != "" {
			t.Reasoning += "\n\n"
		}
		t.Reasoning += textOf(item.Content)
	}
	return nil
}

func (a *assembler) call(c *FunctionCall) {
	t := a.assistant()
	if t.Content != "" { // what stands before a call is told on the way to it
		if t.Preamble != "" {
			t.Preamble += "\n\n"
		}
		t.Preamble, t.Content = t.Preamble+t.Content, ""
	}
	arguments := c.Arguments
	if c.Type == typeCustom {
		arguments = contract.FreeInput(arguments)
	}
	t.ToolCalls = append(t.ToolCalls, chattemplate.ToolCall{ID: c.CallID, Name: c.Name, Arguments: arguments})
	a.calls[c.CallID] = true
}

func (a *assembler) output(o *FunctionCallOutput, path string) error {
	if !a.calls[o.CallID] {
		return wire.Invalid(path+".call_id", "no call before it has this id")
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.messages = append(a.messages, chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: o.CallID,
		Content: o.text})
	return nil
}
