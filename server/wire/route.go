package wire

import "net/http"

// Scope is the permission that a key needs for a route.
type Scope string

// The scopes of the server's endpoints.
const (
	// ScopeNone: no key is needed, for instance to ask for the server's health.
	ScopeNone Scope = ""
	// ScopeOwn: API keys do not count here; the format asks for secrets of its own.
	ScopeOwn Scope = "own"
	// ScopeGenerate: everything that generates text.
	ScopeGenerate Scope = "generate"
	// ScopeEmbed: embeddings.
	ScopeEmbed Scope = "embed"
	// ScopeModels: what models there are, and their tokenizers and templates.
	ScopeModels Scope = "models"
	// ScopeMetrics: the server's figures.
	ScopeMetrics Scope = "metrics"
	// ScopeTraceRead: the sealed traces of the key's own runs, and what is known of them without opening one.
	// ScopeTraceErase: to erase them.
	ScopeTraceRead  Scope = "trace:read"
	ScopeTraceErase Scope = "trace:erase"
	// ScopeTraceAll makes the two above hold for everybody's traces. A key has it only where it is named.
	ScopeTraceAll Scope = "trace:all"
)

// Scopes lists the scopes that a key can have.
var Scopes = []Scope{ScopeGenerate, ScopeEmbed, ScopeModels, ScopeMetrics, ScopeTraceRead, ScopeTraceErase,
	ScopeTraceAll}

// Route is one endpoint of a format.
type Route struct {
	// Method and Path are as in [http.ServeMux]: "POST", "/v1/models/{id}".
	Method, Path string
	Scope        Scope
	Handle       Handler
	// Free requests cost next to nothing, so that how many of them a key makes is not limited. Those of method GET
	// are too, except where the route Loads the model that the query names, and it is not in memory.
	Free, Loads bool
	// MaxBody, if not 0, is the longest body in bytes where that is less than the server's limit. MaxBodyFlag names the
	// flag that sets it; empty for none.
	MaxBody     int64
	MaxBodyFlag string
	// When, if not nil, says whether a request is for this route, where formats have a path in common. One of them
	// has none, and gets the rest.
	When func(*http.Request) bool
}

// Format is a wire format: routes, and the shape of its errors.
type Format interface {
	Routes() []Route
	// WriteError answers with an error of any kind, before anything else was written, in the format's shape
	// ([WriteError]). The server calls it for the errors of the format's handlers and for requests to the format's
	// routes that it refuses itself.
	WriteError(w http.ResponseWriter, err error)
}

// Handler answers a request. It returns an error if nothing was written yet; the format's WriteError then answers.
// Once an answer has begun, its handler deals with errors itself.
type Handler func(w http.ResponseWriter, r *http.Request) error

// HandlerOf makes a Handler of one that answers every request itself.
func HandlerOf(h http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
