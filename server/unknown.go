package server

import (
	"net/http"
	"slices"
	"strings"

	"runner/server/wire"
)

// unknownRoute is the name of the route for requests that no other route takes.
const unknownRoute = "unknown"

// mounted is a format of the server. unknown answers requests without a route in the format's shape.
type mounted struct {
	routes  []wire.Route
	unknown http.Handler
}

// unknown returns what answers a request that has no route. The format whose clients send such requests is the one with
// the most routes that begin like the path. Routes that formats share by their headers say nothing of that.
func (s *Server) unknown(r *http.Request) http.Handler {
	nearest, most, beside := s.formats[0].unknown, 0, 0
	for _, f := range s.formats {
		longest, routes := 0, 0
		for _, route := range f.routes {
			switch n := alike(route.Path, r.URL.Path); {
			case route.When != nil || n < longest:
			case n > longest:
				longest, routes = n, 1
			default:
				routes++
			}
		}
		if longest > most || longest == most && longest > 0 && routes > beside {
			nearest, most, beside = f.unknown, longest, routes
		}
	}
	return nearest
}

// alike returns how many parts at the start of two paths are equal.
func alike(a, b string) (n int) {
	parts, others := strings.Split(a, "/"), strings.Split(b, "/")
	for n+1 < len(parts) && n+1 < len(others) && parts[n+1] == others[n+1] {
		n++
	}
	return n
}

// methods returns the methods that the path of a request takes, given its headers.
func (s *Server) methods(r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		_, pattern := s.mux.Handler(probe)
		if !slices.ContainsFunc(s.routes[pattern], func(route route) bool { return route.when == nil || route.when(probe) }) {
			continue
		}
		if allowed = append(allowed, method); method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return allowed
}

// noRoute returns the error for a request without a route: its path does not exist or does not take its method, or it
// came without the server's TLS.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.TLS != nil && r.TLS == nil {
		return wire.Errorf(wire.CodeInvalid, "this port takes HTTPS only; use an address that begins with https://")
	}
	if allowed := s.methods(r); len(allowed) > 0 {
		w.Header().Set("Allow", allow(allowed))
		e := wire.Errorf(wire.CodeMethod, "this path takes %s", strings.Join(allowed, ", "))
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			// Clients of OpenAI's Responses that prefer WebSockets go on with HTTP at once after this status alone.
			e.Status, e.Message = http.StatusUpgradeRequired, e.Message+" over HTTP, not WebSockets"
			w.Header().Set("Upgrade", "HTTP/1.1")
			w.Header().Set("Connection", "close")
		}
		return e
	}
	// Clients are given addresses with and without /v1, and add it or not.
	base := strings.TrimPrefix(r.URL.Path, "/v1")
	for _, path := range []string{base, "/v1" + base} {
		meant := r.Clone(r.Context())
		if meant.URL.Path = path; len(s.methods(meant)) > 0 {
			return wire.Errorf(wire.CodeNotFound, "there is nothing at this path; did you mean %s?", path)
		}
	}
	return wire.Errorf(wire.CodeNotFound, "there is nothing at this path; /openapi.json lists what there is")
}

// allow returns the value of the header Allow. Every path takes OPTIONS too.
func allow(methods []string) string { return strings.Join(append(methods, http.MethodOptions), ", ") }

// options answers OPTIONS with the methods of the path. It also answers preflight requests of browsers that guard has
// allowed.
func (s *Server) options(w http.ResponseWriter, r *http.Request) error {
	allowed := s.methods(r)
	if len(allowed) == 0 {
		return s.noRoute(w, r)
	}
	w.Header().Set("Allow", allow(allowed))
	if isPreflight(r) {
		preflight(w, r, allow(allowed))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
