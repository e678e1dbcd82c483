package responses

import (
	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// opener opens the sealed values of a conversation.
type opener struct {
	*contract.Restorer
	// model is the model that continues it.
	model seal.Model
}

// value returns the sealed value of an entry. ok is false if it is a stored value of another model: a conversation may
// continue with a new model, which cannot use it.
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
	return v, e.home.Model.Same(o.model)
}

// assembler turns items into messages. Consecutive reasoning, text and calls of the assistant become one message.
type assembler struct {
	messages []chattemplate.Message
	// turn is the unfinished message of the assistant; nil if there is none.
	turn *chattemplate.Message
	// values are the turn's sealed values. sealed says that there are some, so that plain text is not used.
	values []contract.Carried
	sealed bool
	opener *opener
	// calls has the latest call with each id.
	calls map[string]called
}

// called is a call in a message.
type called struct {
	in   *chattemplate.Message
	call chattemplate.ToolCall
}

// messages returns the messages of a conversation, with its sealed values opened.
func messages(entries []entry, o *opener) ([]chattemplate.Message, error) {
	a := &assembler{calls: map[string]called{}, opener: o}
	last := len(entries) - 1 // the last item that is no result
	for ; last >= 0; last-- {
		if _, result := entries[last].item.(*FunctionCallOutput); !result {
			break
		}
	}
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
			if a.calls[item.CallID].in == nil && i > last { // an earlier one may have lost its call
				return nil, wire.Invalid(entries[i].path+".call_id", "no call before it has this id")
			}
			err = a.output(item)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.messages, a.flush()
}

// flush ends the assistant's message. It opens the sealed values, because now the calls are known.
func (a *assembler) flush() (err error) {
	t, values := a.turn, a.values
	a.turn, a.values = nil, nil
	if len(values) > 0 {
		if err = a.opener.Message(a.messages, t, values); err != nil {
			return err
		}
	}
	if t != nil && (t.Content != "" || t.Reasoning != "" || t.Preamble != "" || len(t.ToolCalls) > 0) {
		a.messages = append(a.messages, *t)
	}
	a.sealed = false
	return nil
}

// assistant returns the unfinished message of the assistant.
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

// settle ends the assistant's message if it has an answer or calls.
func (a *assembler) settle() error {
	if t := a.turn; t != nil && (t.Content != "" || len(t.ToolCalls) > 0) {
		return a.flush()
	}
	return nil
}

func (a *assembler) reasoning(e *entry, item *Reasoning) error {
	if t := a.turn; t != nil && t.Content != "" { // after a call without a result the turn goes on
		if err := a.flush(); err != nil {
			return err
		}
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
	if t.Content != "" { // text before a call is a preamble
		if t.Preamble != "" {
			t.Preamble += "\n\n"
		}
		t.Preamble, t.Content = t.Preamble+t.Content, ""
	}
	arguments := c.Arguments
	if c.Type == typeCustom {
		arguments = contract.FreeInput(arguments)
	}
	now := called{t, chattemplate.ToolCall{ID: c.CallID, Name: fullName(c.Namespace, c.Name), Arguments: arguments}}
	if a.calls[c.CallID] == now {
		return // some clients send a call of an earlier response again
	}
	t.ToolCalls = append(t.ToolCalls, now.call)
	a.calls[c.CallID] = now
}

func (a *assembler) output(o *FunctionCallOutput) error {
	if err := a.flush(); err != nil {
		return err
	}
	a.messages = append(a.messages, chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: o.CallID,
		Content: o.text})
	return nil
}
