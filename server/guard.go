package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"runner/server/wire"
)

// A web page can make its visitor's browser send requests to a server on the visitor's own machine. Two headers
// give that away. Under DNS rebinding the page's name is made to point here, and the browser sends that name as
// Host. So a server without keys answers only to names that no page can have. Everywhere else the browser sends the
// page's Origin. So a request from an origin that is not allowed is refused, not only kept from its answer.

// appSchemes are the origins of programs, as against pages: they run only where the user has installed them.
var appSchemes = []string{"app", "file", "tauri", "vscode-webview", "vscode-file"}

// hostAllowed reports whether a request may call the server by this name. Host names keep out pages of names that
// anybody can register and make point here. With keys no name is checked, because a page cannot know a key.
//
// Addresses and localhost are safe. So are single labels, which containers and local networks use, and names under
// internal: nobody can register either. Names under local are not: everybody on the network can claim one.
func (s *Server) hostAllowed(host string) bool {
	if s.cfg.Keys != nil {
		return true
	}
	name, ok := hostName(host)
	if !ok {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	if !IsHostName(name) {
		return false
	}
	name = strings.ToLower(name)
	top := name[strings.LastIndexByte(name, '.')+1:]
	if top == name || top == "localhost" || top == "internal" {
		return true
	}
	return slices.ContainsFunc(s.cfg.Hosts, func(h string) bool {
		return strings.EqualFold(strings.TrimSuffix(h, "."), name)
	})
}

// hostName returns the name or address in a Host header, without port, brackets and final dot.
func hostName(host string) (name string, ok bool) {
	name = host
	i := strings.LastIndexByte(host, ':')
	if i >= 0 && (strings.IndexByte(host, ':') == i || strings.Contains(host, "]:")) {
		for _, c := range []byte(host[i+1:]) {
			if c < '0' || c > '9' {
				return "", false
			}
		}
		name = host[:i]
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return inner, ok && strings.Contains(inner, ":")
	}
	return strings.TrimSuffix(name, "."), true
}

// IsHostName reports whether a text can be a host name: labels of ASCII letters, digits, hyphens and underscores,
// which the names of compose services have. It may end with a dot.
func IsHostName(name string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// originAllowed reports whether pages of an origin may use the server.
func (s *Server) originAllowed(origin, host string) bool {
	if slices.Contains(s.cfg.Origins, "*") || slices.ContainsFunc(s.cfg.Origins, func(o string) bool {
		return strings.EqualFold(o, origin)
	}) {
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

// guard refuses what comes under a wrong name or from a wrong page, and answers what browsers ask beforehand. It
// reports whether the request may go on.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return wire.Errorf(http.StatusForbidden, wire.CodeHost,
			"this server does not answer to that name; allow it with --allow-host")
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		if fromOtherSite(r) && r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wire.Errorf(http.StatusForbidden, wire.CodeOrigin,
				"pages of other sites may not use this server; allow an origin with --cors-origin")
		}
		return nil
	}
	if !s.originAllowed(origin, r.Host) {
		return wire.Errorf(http.StatusForbidden, wire.CodeOrigin,
			"pages of this origin may not use this server; allow it with --cors-origin")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry")
	return nil
}

// fromOtherSite reports whether the browser says that a page of another site sends the request. Letter case does
// not count.
func fromOtherSite(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool {
		return strings.EqualFold(strings.TrimSpace(site), "cross-site")
	})
}

// isPreflight reports whether a browser asks what a page may do.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight sets the headers of its answer. methods are those that the path takes.
func preflight(w http.ResponseWriter, r *http.Request, methods string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Add("Vary", "Access-Control-Request-Headers")
}
