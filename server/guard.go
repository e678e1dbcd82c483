package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"runner/server/wire"
)

// A web page can make its visitor's browser send requests to a server on the visitor's machine. Two headers show
// that. With DNS rebinding the page's own name points to this machine, and the browser sends that name as Host. So
// a server without keys answers only to names that no page can have. Otherwise the browser sends the page's Origin.
// Requests from origins that are not allowed are refused; it would not be enough to hide the answer from the page.

// appSchemes are the schemes of origins of programs. Unlike pages, programs run only if the user has installed them.
var appSchemes = []string{"app", "file", "tauri", "vscode-webview", "vscode-file"}

// hostAllowed reports whether the server answers to a host name. This keeps out pages whose names anybody can register
// and point to this machine. A server with keys does not check names, because a page cannot know a key.
//
// Addresses and localhost are safe. So are single labels, which containers and local networks use, and names under
// internal, because nobody can register them. Names under local are not safe: every machine on the network can
// claim one.
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

// hostName returns the name or address in a Host header, without port, brackets and trailing dot.
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

// IsHostName reports whether a text can be a host name: labels of ASCII letters, digits, hyphens and underscores. Names
// of compose services have underscores. A trailing dot is allowed.
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

// guard returns an error for a request to a host name or from an origin that is not allowed. It sets the headers that
// let pages of allowed origins read the answer.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) error {
	if !s.hostAllowed(r.Host) {
		return wire.Errorf(wire.CodeHost,
			"this server does not answer to that name; allow it with --allow-host")
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		if fromOtherSite(r) && r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wire.Errorf(wire.CodeOrigin,
				"pages of other sites may not use this server; allow an origin with --cors-origin")
		}
		return nil
	}
	if !s.originAllowed(origin, r.Host) {
		return wire.Errorf(wire.CodeOrigin,
			"pages of this origin may not use this server; allow it with --cors-origin")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry")
	return nil
}

// fromOtherSite reports whether the browser says that a page of another site sends the request, in any letter case.
func fromOtherSite(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool {
		return strings.EqualFold(strings.TrimSpace(site), "cross-site")
	})
}

// isPreflight reports whether a request is a preflight request of a browser.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight sets the headers of the answer to a preflight request. methods are those that the path takes.
func preflight(w http.ResponseWriter, r *http.Request, methods string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Add("Vary", "Access-Control-Request-Headers")
}
