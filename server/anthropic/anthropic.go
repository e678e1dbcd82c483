package anthropic

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"

	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Config is the configuration of the format.
type Config = wire.Config

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
}

var _ wire.Format = (*API)(nil)

// New returns the format over models.
func New(models wire.Models, cfg Config) *API {
	cfg.Fill()
	return &API{models: models, cfg: cfg}
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes lists the endpoints. Those of the models have the paths of OpenAI's API and take only this format's clients.
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodPost, Path: "/v1/messages", Scope: wire.ScopeGenerate, Handle: a.createMessage},
		{Method: http.MethodPost, Path: "/v1/messages/count_tokens", Scope: wire.ScopeGenerate, Handle: a.countTokens},
		{Method: http.MethodGet, Path: "/api/hello", Handle: hello},
		{Method: http.MethodGet, Path: "/v1/models", Scope: wire.ScopeModels, Handle: a.listModels, When: isOwn},
		{Method: http.MethodGet, Path: "/v1/models/{id...}", Scope: wire.ScopeModels, Handle: a.getModel, When: isOwn},
	}
}

// take reads a request, gets its model and restores the reasoning of its conversation. complete says that a reply is to
// be generated. The caller releases the model.
func (a *API) take(r *http.Request, body *MessagesRequest, complete bool) (*prompt, wire.Model, error) {
	if err := wire.ReadJSON(r, body); err != nil {
		return nil, nil, err
	}
	who := wire.PrincipalOf(r.Context())
	p, err := a.decode(who, body, complete)
	if err != nil {
		return nil, nil, err
	}
	m, err := a.models.Use(r.Context(), body.Model)
	if err != nil {
		return nil, nil, err
	}
	// Conversations have no ids in this API.
	scope := seal.Scope{Principal: who.ID, Model: contract.WeightsOf(m)}
	turn, warnings, err := contract.Bind(a.cfg.Seal, scope, a.cfg.StrictSeal, &p.req, p.values)
	if err != nil {
		m.Release()
		return nil, nil, err
	}
	p.turn, p.warnings = turn, append(p.warnings, warnings...)
	return p, m, nil
}

// createMessage answers POST /v1/messages.
func (a *API) createMessage(w http.ResponseWriter, r *http.Request) error {
	var body MessagesRequest
	p, m, err := a.take(r, &body, true)
	if err != nil {
		return err
	}
	defer m.Release()
	reply := newReply(p, a.cfg.NewID("msg_"), cmp.Or(body.Model, m.Card().Name))
	runs := []wire.Run{{Request: p.req, Observer: contract.Reply(p.turn, generation.Unobserved{})}}
	if body.Stream {
		return wire.Streamed(w, r, m, runs, func(w http.ResponseWriter) *wire.Stream {
			reply.request = a.requestID(w)
			return wire.NewEvents(w)
		}, func(to *wire.Stream) wire.Encoder {
			reply.send = to.Send
			return reply
		})
	}
	if err := wire.Generate(r.Context(), m, runs, func() {}, reply.Push); err != nil {
		return err
	}
	return a.answer(w, reply.message)
}

// hello answers GET and HEAD /api/hello. Claude Code asks there whether it can reach the server.
func hello(w http.ResponseWriter, _ *http.Request) error {
	return wire.Answer(w, Hello{"hello"})
}

// Hello is the answer of GET /api/hello.
//
//openapi:answer Hello
type Hello struct {
	// A greeting.
	Message string `json:"message"`
}

// countTokens answers POST /v1/messages/count_tokens.
func (a *API) countTokens(w http.ResponseWriter, r *http.Request) error {
	var body MessagesRequest
	p, m, err := a.take(r, &body, false)
	if err != nil {
		return err
	}
	defer m.Release()
	rendered, err := m.Prompt(r.Context(), wire.PrincipalOf(r.Context()).ID, p.req)
	if err != nil {
		return err
	}
	return a.answer(w, TokenCount{InputTokens: len(rendered.Tokens)})
}

func (a *API) answer(w http.ResponseWriter, v any) error {
	a.requestID(w)
	return wire.Answer(w, v)
}

// isOwn reports whether a request to a path that other formats have too comes from a client of this format: only those
// send the header.
func isOwn(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }
