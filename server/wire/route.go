package wire

import (
	"net/http"
	"slices"
	"strings"
)

// Scope is the permission that a key needs for a route.
type Scope string

// The scopes of the server's endpoints.
const (
	// ScopeNone: no key is needed, for example for the server's health.
	ScopeNone Scope = ""
	// ScopeOwn: API keys do not apply; the format has secrets of its own.
	ScopeOwn Scope = "own"
	// ScopeGenerate: generating text.
	ScopeGenerate Scope = "generate"
	// ScopeEmbed: embeddings.
	ScopeEmbed Scope = "embed"
	// ScopeModels: the list of models, their tokenizers and templates.
	ScopeModels Scope = "models"
	// ScopeModelsWrite: pulling, naming and deleting models. A key has it only if its entry names it.
	ScopeModelsWrite Scope = "models:write"
	// ScopeMetrics: the server's figures.
	ScopeMetrics Scope = "metrics"
	// ScopeTraceRead: reading the sealed traces of the key's own runs. ScopeTraceErase: erasing them.
	ScopeTraceRead  Scope = "trace:read"
	ScopeTraceErase Scope = "trace:erase"
	// ScopeTraceAll extends the two above to the traces of all keys. A key has it only if its entry names it.
	ScopeTraceAll Scope = "trace:all"
	// ScopeAdmin: what the operator's view of the page shows, the use of every key included. A key has it only if its
	// entry names it.
	ScopeAdmin Scope = "admin"
)

// Scopes lists the scopes that a key can have.
var Scopes = []Scope{ScopeGenerate, ScopeEmbed, ScopeModels, ScopeModelsWrite, ScopeMetrics, ScopeTraceRead,
	ScopeTraceErase, ScopeTraceAll, ScopeAdmin}

// Unnamed returns the scopes of a key whose entry names none.
func Unnamed() []Scope { return Except(ScopeModelsWrite, ScopeTraceAll, ScopeAdmin) }

// Except returns the scopes of Scopes without some.
func Except(without ...Scope) []Scope {
	return slices.DeleteFunc(slices.Clone(Scopes), func(s Scope) bool { return slices.Contains(without, s) })
}

// Route is one endpoint of a format.
type Route struct {
	// Method and Path are as in [http.ServeMux]: "POST", "/v1/models/{id}".
	Method, Path string
	Scope        Scope
	Handle       Handler
	// Free requests cost almost nothing, so their number is not limited. All GET requests are free, except those to
	// routes with Loads if the model that the query names is not in memory.
	Free, Loads bool
	// MaxBody, if not 0, is the maximum length of the body in bytes, if that is less than the server's limit. MaxBodyFlag
	// is the flag that sets it; empty if there is none.
	MaxBody     int64
	MaxBodyFlag string
	// When, if not nil, reports whether a request is for this route. Formats with the same path need it; one of them
	// leaves it nil and gets the other requests.
	When func(*http.Request) bool
}

// WantsPage reports whether a request comes from a browser that opens a page. Clients of APIs do not accept HTML.
func WantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Format is a wire format: its routes and the shape of its errors.
type Format interface {
	Routes() []Route
	// WriteError answers a request with an error of any kind in the format's shape, see [WriteError]. Nothing has been
	// written before. The server calls it if a handler of the format returns an error or if the server itself refuses a
	// request to a route of the format.
	WriteError(w http.ResponseWriter, err error)
}

// Handler answers a request. If it returns an error, it must not have written anything: the format's WriteError
// answers. After it has begun to write, it handles errors itself and returns nil.
type Handler func(w http.ResponseWriter, r *http.Request) error

// HandlerOf returns a Handler that calls h, which answers all requests itself.
func HandlerOf(h http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
