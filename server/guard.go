package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"runner/server/wire"
)

// A web page can make its visitor's browser send requests to a server on the visitor's own machine. Two things give that away. Under DNS
// rebinding the page's own name is made to point here, and the browser sends it as Host; so a server without keys answers to addresses,
// to localhost and to the names that it was told, and to no other. Everywhere else the browser says the page's Origin; so an origin that is
// not allowed is refused, not only kept from reading the answer.

// appSchemes are the origins of programs, as against pages: they run only where the user has installed them.
var appSchemes = []string{"app", "file", "tauri", "vscode-webview", "vscode-file"}

// hostAllowed reports whether a request may call the server by this name.
func (s *Server) hostAllowed(host string) bool {
	if s.cfg.Keys != nil && len(s.cfg.Hosts) == 0 {
		return true // a page cannot know a key
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.ContainsFunc(s.cfg.Hosts, func(h string) bool {
		return strings.EqualFold(h, name)
	})
}

// originAllowed reports whether pages of an origin may use the server.
func (s *Server) originAllowed(origin, host string) bool {
	if slices.Contains(s.cfg.Origins, "*") || slices.ContainsFunc(s.cfg.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" {
		return false
	}
	if slices.Contains(appSchemes, u.Scheme) {
		return true
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	name := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && addr.IsLoopback()
}

// guard refuses what comes under a wrong name or from a wrong page, and answers what browsers ask beforehand. It reports whether the
// request may go on.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) *wire.Error {
	if !s.hostAllowed(r.Host) {
		return wire.Errorf(http.StatusForbidden, wire.CodeHost, "this server does not answer to that name; allow it with --allow-host")
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wire.Errorf(http.StatusForbidden, wire.CodeOrigin, "pages of other sites may not use this server; allow an origin with --cors-origin")
		}
		return nil
	}
	if !s.originAllowed(origin, r.Host) {
		return wire.Errorf(http.StatusForbidden, wire.CodeOrigin, "pages of this origin may not use this server; allow it with --cors-origin")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry")
	return nil
}

// isPreflight reports whether a browser asks what a page may do.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers it, once guard has let it through.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, HEAD, OPTIONS")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}
