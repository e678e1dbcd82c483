package openai

import (
	"net/http"

	"runner/server/wire"
)

// AppliedTemplate is the answer of POST /apply-template.
type AppliedTemplate struct {
	// Prompt is the prompt as text.
	Prompt string `json:"prompt"`
	// Tokens is how many tokens it has.
	Tokens int `json:"tokens"`
}

// applyTemplate handles POST /apply-template: it answers a chat completion's request with the prompt that the model
// would get. The prompt is shown, so it never holds reasoning that is sealed or that the server remembers.
func (a *API) applyTemplate(w http.ResponseWriter, r *http.Request) {
	var body ChatRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		a.fail(w, err, "")
		return
	}
	c, err := a.readChat(wire.PrincipalOf(r.Context()), &body)
	if err != nil {
		a.fail(w, err, "")
		return
	}
	if len(c.talk.sealed) > 0 {
		a.fail(w, wire.Unsupported(c.talk.sealed[0].Param,
			"a prompt that is shown holds no sealed reasoning; leave the value out"), "")
		return
	}
	m, err := a.models.Use(r.Context(), body.Model)
	if err != nil {
		a.fail(w, err, "")
		return
	}
	defer m.Release()
	c.req.Messages, c.req.Delegation.Instructions = c.talk.messages, c.talk.instructions
	p, err := m.Prompt(r.Context(), wire.PrincipalOf(r.Context()).ID, c.req)
	if err != nil {
		a.fail(w, err, c.form)
		return
	}
	wire.WriteJSON(w, http.StatusOK, AppliedTemplate{p.Text, len(p.Tokens)})
}
