package openai

import (
	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// place says where in a conversation the reply to its first n messages stands: clients of this API send back neither ids of
// conversations nor of messages, so it is made of the first user message and of the user or tool messages that the reply follows.
func (c *conversation) place(n int) (seal.Conversation, seal.Entity) {
	first := ""
	for i := range c.messages {
		if c.messages[i].Role == chattemplate.User {
			first = c.messages[i].Content
			break
		}
	}
	asks := func(m *chattemplate.Message) bool {
		return m.Role == chattemplate.User || m.Role == chattemplate.ToolRole
	}
	for n > 0 && !asks(&c.messages[n-1]) {
		n--
	}
	from := n
	for from > 0 && asks(&c.messages[from-1]) {
		from--
	}
	preceding := make([]string, 0, n-from)
	for i := from; i < n; i++ {
		preceding = append(preceding, c.messages[i].Content)
	}
	return seal.ConversationOf(first), seal.EntityOf(preceding...)
}

// binding is where the reasoning of the reply to the first n messages belongs.
func (c *conversation) binding(p *wire.Principal, m wire.Model, n int) seal.Binding {
	conversation, entity := c.place(n)
	return seal.Binding{Principal: p.ID, Conversation: conversation, Entity: entity, Model: m.Runner().Info().Digest}
}

// sealedParam is where the value of a message stands.
func sealedParam(message int) string {
	return index("messages", message) + ".reasoning_encrypted_content"
}

// restore opens the values that came with the conversation and puts the reasoning back to its messages.
func (c *conversation) restore(keys *seal.Keyring, p *wire.Principal, m wire.Model) error {
	for _, s := range c.sealed {
		param := sealedParam(s.message)
		if keys == nil {
			return contract.SealedError(param, seal.ErrUnknownKey)
		}
		text, err := keys.Open(c.binding(p, m, s.message), s.value)
		if err != nil {
			return contract.SealedError(param, err)
		}
		c.messages[s.message].Reasoning = text
	}
	return nil
}
