package openai

import (
	"net/http"

	"runner/server/wire"
)

// AppliedTemplate is the answer of POST /apply-template.
//
//openapi:answer ApplyTemplateResponse
type AppliedTemplate struct {
	// The prompt as text.
	Prompt string `json:"prompt"`
	// The number of tokens in the prompt.
	Tokens int `json:"tokens"`
}

// applyTemplate handles POST /apply-template: it answers the request of a chat completion with the prompt that the
// model would get. The prompt never contains reasoning that is sealed or that the server remembers.
func (a *API) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	c, m, err := take(a, r, a.readShown)
	if err != nil {
		return err
	}
	defer m.Release()
	c.req.Messages, c.req.Delegation.Instructions = c.talk.messages, c.talk.instructions
	p, err := m.Prompt(r.Context(), wire.PrincipalOf(r.Context()).ID, c.req)
	if err != nil {
		return wireError(err, c.form)
	}
	return wire.Answer(w, AppliedTemplate{p.Text, len(p.Tokens)})
}

// readShown reads the request of a chat completion whose prompt will be shown.
func (a *API) readShown(p *wire.Principal, b *ChatRequest) (*chatOrder, error) {
	c, err := a.readChat(p, b)
	if err == nil && len(c.talk.sealed) > 0 {
		err = wire.Unsupported(c.talk.sealed[0].Param,
			"a prompt that is shown holds no sealed reasoning; leave the value out")
	}
	return c, err
}
