package responses

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// Config says how the API works. The zero value is usable.
type Config struct {
	// Defaults is what a request starts from; Messages, Tools, Form and what a request always says are ignored.
	Defaults generation.Request
	// Seal seals reasoning for clients and for the store; nil makes a keyring that lasts as long as the API.
	Seal *seal.Keyring
	// StrictSeal refuses requests with sealed values that do not open. Otherwise the values are left out with a warning.
	StrictSeal bool
	// Traces keeps the traces that clients ask for; nil refuses to.
	Traces wire.Traces
	// Calls is what the models remember of tool calls, so that what led to a response's calls is forgotten with the
	// response; may be nil.
	Calls Calls
	// Store bounds what is kept of past responses.
	Store StoreLimits
	// Background is how many responses may be made in the background at once; 0 means 16. More are refused with 429.
	Background int
	// Share is how many of these one principal may have; 0 means a quarter, at least one, and all where there are
	// no API keys.
	Share int
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives ids, counts and codes, never text; nil is silent.
	Logger *slog.Logger
	// Random is where ids come from; nil means crypto/rand. It is read by several goroutines at once.
	Random io.Reader
}

// Calls is what models remember of tool calls.
type Calls interface {
	// Forget forgets a principal's calls.
	Forget(principal string, ids ...string)
}

// API is the Responses API over a server's models. It implements [wire.Format]; its methods may be called by
// several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
	store  *store

	mu sync.Mutex
	// active are the runs in the background, and of how many each principal has.
	active map[*run]struct{}
	of     map[string]int
	closed bool
}

// New makes the API. The caller closes it.
func New(models wire.Models, cfg Config) *API {
	if cfg.Seal == nil {
		cfg.Seal = seal.NewKeyring()
	}
	if cfg.Background <= 0 {
		cfg.Background = 16
	}
	if cfg.Share <= 0 {
		cfg.Share = max(1, cfg.Background/4)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &API{models: models, cfg: cfg, store: newStore(cfg.Store, cfg.Clock), active: map[*run]struct{}{},
		of: map[string]int{}}
}

// Close waits for the responses in the background until ctx ends, then ends them as the server stopping. New ones
// are refused from the start.
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

// namesResponse reports whether a path in the place of a response's id may be one. OpenAI has actions there, of which
// compact is not done here: clients are to find nothing at its path, rather than a path that takes other methods.
func namesResponse(r *http.Request) bool {
	switch path.Base(r.URL.Path) {
	case "compact", "input_tokens":
		return false
	}
	return true
}

// WriteError implements [wire.Format].
func (a *API) WriteError(w http.ResponseWriter, err error) { apierror.Write(w, wireError(err)) }

// newID returns a fresh id that begins with prefix.
func (a *API) newID(prefix string) string { return wire.NewID(a.cfg.Random, prefix) }
