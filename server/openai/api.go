package openai

import (
	"embed"
	"io/fs"
	"net/http"

	"runner/server/wire"
)

// Config is the configuration of the format.
type Config = wire.Config

// API serves the routes. It may be used by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
}

// New returns the API over models.
func New(models wire.Models, cfg Config) *API {
	cfg.Fill()
	return &API{models: models, cfg: cfg}
}

// take reads the body of a request, decodes it with read for the request's principal, and gets the model that it names.
// The caller releases the model.
func take[B any, O interface{ modelName() string }](a *API, r *http.Request,
	read func(*wire.Principal, *B) (O, error)) (o O, m wire.Model, err error) {
	var body B
	if err = wire.ReadJSON(r, &body); err != nil {
		return o, nil, err
	}
	if o, err = read(wire.PrincipalOf(r.Context()), &body); err != nil {
		return o, nil, err
	}
	m, err = a.models.Use(r.Context(), o.modelName())
	return o, m, err
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes implements [wire.Format].
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodPost, Path: "/v1/chat/completions", Scope: wire.ScopeGenerate, Handle: a.chat},
		{Method: http.MethodPost, Path: "/v1/completions", Scope: wire.ScopeGenerate, Handle: a.complete},
		{Method: http.MethodPost, Path: "/infill", Scope: wire.ScopeGenerate, Handle: a.infill},
		{Method: http.MethodPost, Path: "/apply-template", Scope: wire.ScopeModels, Handle: a.applyTemplate},
		{Method: http.MethodPost, Path: "/v1/embeddings", Scope: wire.ScopeEmbed, Handle: a.embed},
		{Method: http.MethodGet, Path: "/v1/models", Scope: wire.ScopeModels, Handle: a.listModels},
		{Method: http.MethodGet, Path: "/v1/models/{id...}", Scope: wire.ScopeModels, Handle: a.getModel},
	}
}
