package openai

import (
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// sealedParam returns the path of a message's sealed value.
func sealedParam(message int) string {
	return wire.Index("messages", message) + ".reasoning_encrypted_content"
}

// bind does what needs the model: it restores the reasoning of the conversation and prepares to seal new reasoning. It
// adds warnings about values that do not open.
func (c *chatOrder) bind(a *API, p *wire.Principal, m wire.Model) error {
	c.req.Messages, c.req.Delegation.Instructions = c.talk.messages, c.talk.instructions
	scope := seal.Scope{Principal: p.ID, Model: contract.WeightsOf(m)} // conversations have no ids in this API
	c.begin = func() *seal.Turn { return contract.Begin(a.cfg.Seal, scope, c.req.Messages) }
	r := contract.NewRestorer(a.cfg.Seal, scope, a.cfg.StrictSeal)
	err := r.Conversation(c.req.Messages, c.talk.sealed)
	c.warnings = append(c.warnings, r.Warnings()...)
	return err
}

// runs returns a run for each choice. Each has a turn of its own. traced observes all of them.
func (c *chatOrder) runs(traced generation.Observer) []wire.Run {
	runs := c.order.runs()
	for i := range runs {
		runs[i].Observer = contract.Reply(c.begin(), traced)
	}
	return runs
}
