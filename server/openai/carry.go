package openai

import (
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// sealedParam returns the path of a message's sealed value.
func sealedParam(message int) string {
	return index("messages", message) + ".reasoning_encrypted_content"
}

// restore opens the sealed values of the conversation and adds their reasoning to its messages. It adds warnings about
// values that do not open.
func (c *chatOrder) restore(a *API, s seal.Scope) error {
	r := contract.NewRestorer(a.cfg.Seal, s, a.cfg.StrictSeal)
	if err := r.Conversation(c.talk.messages, c.talk.sealed); err != nil {
		return err
	}
	for _, w := range r.Warnings() {
		c.warn(w.Code, w.Text)
	}
	return nil
}

// bind does what needs the model: it restores the reasoning of the conversation and prepares to seal new reasoning.
func (c *chatOrder) bind(a *API, p *wire.Principal, m wire.Model) error {
	var scope seal.Scope
	if a.cfg.Seal != nil {
		scope = seal.Scope{Principal: p.ID, Model: contract.WeightsOf(m)} // conversations have no ids in this API
		c.begin = func() *seal.Turn { return contract.Begin(a.cfg.Seal, scope, c.talk.messages) }
	}
	if err := c.restore(a, scope); err != nil {
		return err
	}
	c.req.Messages, c.req.Delegation.Instructions = c.talk.messages, c.talk.instructions
	return nil
}

// requests returns a request for each choice. Each has a turn of its own.
func (c *chatOrder) requests() []generation.Request {
	reqs := c.order.requests()
	for i := range reqs {
		if c.begin == nil {
			break
		}
		turn := c.begin()
		reqs[i].CallID = turn.CallID
		if c.seal {
			reqs[i].Seal = contract.Sealer(turn, !c.legacy)
		}
	}
	return reqs
}
