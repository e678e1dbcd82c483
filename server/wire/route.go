package wire

import (
	"net/http"
	"slices"
	"strings"
)

// Scope is the permission that a key needs for a route.
type Scope string

// The scopes of the server's endpoints. A format that needs another one declares it, see [Declare].
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
	// ScopeMetrics: the server's figures.
	ScopeMetrics Scope = "metrics"
)

// Permission is a scope that a key can have.
type Permission struct {
	Scope Scope
	// Named: a key has it only if its entry names it.
	Named bool
	// Private: nobody has it at a server without keys that other machines can reach.
	Private bool
	// Denied is what those learn who lack it. If it is not empty, a server without a file of keys grants the scope only
	// by a flag.
	Denied string

	format string
}

// permissions are those of all formats, by the names of the formats.
var permissions = []Permission{{Scope: ScopeGenerate}, {Scope: ScopeEmbed}, {Scope: ScopeModels}, {Scope: ScopeMetrics}}

// Declare adds permissions of a format. The init function of the format's package calls it. A scope that is declared
// twice panics, because the weaker of the two would win.
func Declare(format string, list ...Permission) {
	for _, p := range list {
		if slices.Contains(Scopes(nil), p.Scope) {
			panic("two formats declare the permission " + string(p.Scope))
		}
		p.format = format
		permissions = append(permissions, p)
	}
	slices.SortStableFunc(permissions, func(a, b Permission) int { return strings.Compare(a.format, b.format) })
}

// Scopes lists the scopes of the permissions for which has returns true; nil means all.
func Scopes(has func(p *Permission) bool) (list []Scope) {
	for i := range permissions {
		if has == nil || has(&permissions[i]) {
			list = append(list, permissions[i].Scope)
		}
	}
	return list
}

// Granted lists the scopes that everybody has at a server without a file of keys, whose flags grant some. public says
// that other machines can reach it without a key.
func Granted(granted []Scope, public bool) []Scope {
	return Scopes(func(p *Permission) bool {
		return (p.Denied == "" || slices.Contains(granted, p.Scope)) && !(public && p.Private)
	})
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
