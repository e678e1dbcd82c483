package openai

import (
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// sealedParam is where the value of a message stands.
func sealedParam(message int) string {
	return index("messages", message) + ".reasoning_encrypted_content"
}

// restore opens the values that came with the conversation and puts the reasoning back to its messages. It warns of
// those that do not open.
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

// bind does what takes the model: it opens the values that came with the conversation and prepares to seal another.
func (c *chatOrder) bind(a *API, p *wire.Principal, m wire.Model) error {
	var scope seal.Scope
	if a.cfg.Seal != nil {
		scope = seal.Scope{Principal: p.ID, Model: m.Info().Digest} // conversations have no ids in this API
		c.begin = func() *seal.Turn { return contract.Begin(a.cfg.Seal, scope, c.talk.messages) }
	}
	if err := c.restore(a, scope); err != nil {
		return err
	}
	c.req.Messages, c.req.Delegation.Instructions = c.talk.messages, c.talk.instructions
	return nil
}

// requests returns a request for each choice. Each is a turn of its own.
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
