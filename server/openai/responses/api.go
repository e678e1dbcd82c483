package responses

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"sync"

	"runner/server/internal/apierror"
	"runner/server/wire"
)

// Config is the configuration of the API. The zero value is usable.
type Config struct {
	wire.Config
	// Calls is the models' memory of tool calls; may be nil. The calls of a response are forgotten with the response.
	Calls Calls
	// Store limits what is kept of past responses.
	Store StoreLimits
	// Background is the maximum number of responses in the background at the same time; 0 means 16. More are refused with
	// status 429.
	Background int
	// Share is the maximum of one principal; 0 means a quarter, at least one. It does not apply if there are no API keys.
	Share int
}

// Calls is the models' memory of the reasoning before tool calls.
type Calls interface {
	// Forget forgets calls of a principal.
	Forget(principal string, ids ...string)
}

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
	store  *store

	mu sync.Mutex
	// active are the runs in the background. of counts those of each principal.
	active map[*run]struct{}
	of     map[string]int
	closed bool
}

// New returns the API over models. The caller closes it.
func New(models wire.Models, cfg Config) *API {
	cfg.Fill()
	if cfg.Background <= 0 {
		cfg.Background = 16
	}
	if cfg.Share <= 0 {
		cfg.Share = max(1, cfg.Background/4)
	}
	return &API{models: models, cfg: cfg, store: newStore(cfg.Store, cfg.Clock), active: map[*run]struct{}{},
		of: map[string]int{}}
}

// Close refuses new responses in the background and waits for the current ones until ctx ends. Then it ends them with
// ErrDraining.
func (a *API) Close(ctx context.Context) {
	a.mu.Lock()
	a.closed = true
	runs := make([]*run, 0, len(a.active))
	for r := range a.active {
		runs = append(runs, r)
	}
	a.mu.Unlock()
	for _, r := range runs {
		select {
		case <-r.done:
		case <-ctx.Done():
			r.cancel(wire.ErrDraining)
			<-r.done
		}
	}
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes implements [wire.Format].
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: "POST", Path: "/v1/responses", Scope: wire.ScopeGenerate, Handle: a.create},
		{Method: "POST", Path: "/v1/responses/input_tokens", Scope: wire.ScopeGenerate, Handle: a.countTokens},
		{Method: "GET", Path: "/v1/responses/{id}", Scope: wire.ScopeGenerate, Handle: a.retrieve, When: namesResponse},
		{
			Method: "DELETE", Path: "/v1/responses/{id}", Scope: wire.ScopeGenerate, Free: true, Handle: a.remove,
			When: namesResponse,
		},
		{Method: "POST", Path: "/v1/responses/{id}/cancel", Scope: wire.ScopeGenerate, Free: true, Handle: a.cancel},
		{Method: "GET", Path: "/v1/responses/{id}/input_items", Scope: wire.ScopeGenerate, Handle: a.listInput},
	}
}

// namesResponse reports whether the last part of a path can be a response's id. OpenAI's API has actions in the same
// place. One of them, compact, is not supported: its path must not exist, rather than exist with other methods.
func namesResponse(r *http.Request) bool {
	switch path.Base(r.URL.Path) {
	case "compact", "input_tokens":
		return false
	}
	return true
}

// WriteError implements [wire.Format].
func (a *API) WriteError(w http.ResponseWriter, err error) { apierror.Write(w, wireError(err)) }
