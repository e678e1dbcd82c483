package responses

import (
	"errors"
	"slices"

	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// asks returns the text of an item that a reply follows: a user's message or the output of a call.
func asks(item Item) (string, bool) {
	switch item := item.(type) {
	case *Message:
		return joined(item.Content), item.Role == string(chattemplate.User)
	case *FunctionCallOutput:
		return item.text, true
	}
	return "", false
}

// preceding returns the texts of the items that a reply at the end of a conversation follows: the last run of users' messages and
// outputs of calls.
func preceding(before []entry) []string {
	end := len(before)
	for end > 0 {
		if _, ok := asks(before[end-1].item); ok {
			break
		}
		end--
	}
	from := end
	for from > 0 {
		if _, ok := asks(before[from-1].item); !ok {
			break
		}
		from--
	}
	texts := make([]string, 0, end-from)
	for _, e := range before[from:end] {
		said, _ := asks(e.item)
		texts = append(texts, said)
	}
	return texts
}

// firstQuestion returns the text of the first user message, which may be none.
func firstQuestion(entries []entry) string {
	for _, e := range entries {
		if m, ok := e.item.(*Message); ok && m.Role == string(chattemplate.User) {
			return joined(m.Content)
		}
	}
	return ""
}

// opener opens the sealed values of a conversation.
type opener struct {
	keys    *seal.Keyring
	binding seal.Binding // without the entity
}

// open returns the reasoning of the sealed value of entry i. A value belongs to its item's id, or, where it was made for clients that drop
// ids, to what the reply follows.
func (o *opener) open(entries []entry, i int, item *Reasoning) (string, error) {
	e := &entries[i]
	param := "previous_response_id"
	if e.path != "" {
		param = e.path + ".encrypted_content"
	}
	if from := e.home; from == nil && e.place != nil && e.place.Model != o.binding.Model || from != nil && from.Model != o.binding.Model {
		return "", nil // a conversation may go on with another model, which has no use for these thoughts
	}
	if e.sealed != "" {
		thoughts, err := o.keys.Open(*e.home, e.sealed)
		return thoughts, contract.SealedError(param, err)
	}
	b := o.binding
	if e.place != nil {
		b = *e.place
	}
	if item.ID != "" {
		b.Entity = seal.EntityID(item.ID)
		if thoughts, err := o.keys.Open(b, item.EncryptedContent); !errors.Is(err, seal.ErrForeign) {
			return thoughts, contract.SealedError(param, err)
		}
	}
	b.Entity = seal.EntityOf(preceding(entries[:i])...)
	thoughts, err := o.keys.Open(b, item.EncryptedContent)
	return thoughts, contract.SealedError(param, err)
}

// assembler makes messages of items. What an assistant thinks, says and calls in one go becomes one message.
type assembler struct {
	messages []chattemplate.Message
	// turn is the assistant's message in the making; nil between two.
	turn *chattemplate.Message
	// sealed says that the turn's reasoning was opened from a sealed value, so that plain text does not count.
	sealed bool
	// plain lists the messages whose reasoning a client sent as plain text.
	plain []int
	calls map[string]bool
}

// messages makes the messages of a conversation, its sealed values opened.
func messages(entries []entry, o *opener) ([]chattemplate.Message, error) {
	a := &assembler{calls: map[string]bool{}}
	for i := range entries {
		var err error
		switch item := entries[i].item.(type) {
		case *Message:
			a.message(item)
		case *Reasoning:
			err = a.reasoning(entries, i, item, o)
		case *FunctionCall:
			a.call(item)
		case *FunctionCallOutput:
			err = a.output(item, entries[i].path)
		}
		if err != nil {
			return nil, err
		}
	}
	a.flush()
	wire.DropPlain(a.messages, func(i int) bool { return slices.Contains(a.plain, i) })
	return a.messages, nil
}

// flush ends the assistant's message.
func (a *assembler) flush() {
	t := a.turn
	a.turn = nil
	if t != nil && (t.Content != "" || t.Reasoning != "" || t.Preamble != "" || len(t.ToolCalls) > 0) {
		if t.Reasoning != "" && !a.sealed {
			a.plain = append(a.plain, len(a.messages))
		}
		a.messages = append(a.messages, *t)
	}
	a.sealed = false
}

// assistant returns the assistant's message in the making.
func (a *assembler) assistant() *chattemplate.Message {
	if a.turn == nil {
		a.turn = &chattemplate.Message{Role: chattemplate.Assistant}
	}
	return a.turn
}

func (a *assembler) message(m *Message) {
	if m.Role != string(chattemplate.Assistant) {
		a.flush()
		a.messages = append(a.messages, chattemplate.Message{Role: chattemplate.Role(m.Role), Content: joined(m.Content)})
		return
	}
	if t := a.turn; t != nil && (t.Content != "" || len(t.ToolCalls) > 0) {
		a.flush()
	}
	t := a.assistant()
	if m.Phase != phaseCommentary {
		t.Content = joined(m.Content)
		return
	}
	if t.Preamble != "" {
		t.Preamble += "\n\n"
	}
	t.Preamble += joined(m.Content)
}

func (a *assembler) reasoning(entries []entry, i int, item *Reasoning, o *opener) error {
	if t := a.turn; t != nil && (t.Content != "" || len(t.ToolCalls) > 0) {
		a.flush()
	}
	t := a.assistant()
	if item.EncryptedContent != "" || entries[i].sealed != "" {
		thoughts, err := o.open(entries, i, item)
		if err != nil {
			return err
		}
		if !a.sealed {
			t.Reasoning = ""
		}
		a.sealed = true
		t.Reasoning += thoughts
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
	t.ToolCalls = append(t.ToolCalls, chattemplate.ToolCall{ID: c.CallID, Name: c.Name, Arguments: c.Arguments})
	a.calls[c.CallID] = true
}

func (a *assembler) output(o *FunctionCallOutput, path string) error {
	if !a.calls[o.CallID] {
		return wire.Invalid(path+".call_id", "no function_call before it has this id")
	}
	a.flush()
	a.messages = append(a.messages, chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: o.CallID, Content: o.text})
	return nil
}

// cut is a conversation without its middle: what stays of its front, and its end.
type cut struct{ front, end []chattemplate.Message }

func (c cut) messages() []chattemplate.Message { return slices.Concat(c.front, c.end) }

// cuts returns what a conversation can be shortened to, longest first, without the whole. Its prompts at the front always stay. First the
// oldest turns go, each with all that came of its user's message; of the last turn the oldest calls go with their outputs, but neither the
// user's message nor what came last.
func cuts(all []chattemplate.Message) []cut {
	first := 0
	for first < len(all) && (all[first].Role == chattemplate.System || all[first].Role == chattemplate.Developer) {
		first++
	}
	front := all[:first:first]
	last := first // the last turn's user message
	var shorter []cut
	for i := first; i < len(all); i++ {
		if all[i].Role == chattemplate.User {
			if i > first {
				shorter = append(shorter, cut{front, all[i:]})
			}
			last = i
		}
	}
	if last < len(all) && all[last].Role == chattemplate.User {
		front = append(front, all[last])
		last++
	}
	for i := last + 1; i < len(all); i++ {
		if all[i].Role != chattemplate.ToolRole {
			shorter = append(shorter, cut{front, all[i:]})
		}
	}
	return shorter
}
