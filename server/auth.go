package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"runner/reasoning"
	"runner/server/keys"
	"runner/server/wire"
)

// local is the principal of all requests to a server without keys: the user of this machine. Programs of other people
// that the user runs are that user too, so changing models has to be allowed.
//
// If other machines can reach the server, the principal is everybody. Then nobody gets what is for the operator, and
// nobody gets traces: all callers would share them.
func (s *Server) local() *wire.Principal {
	return &wire.Principal{ID: wire.Local, Reasoning: reasoning.VisibilityFull,
		Scopes: wire.Granted(s.cfg.Granted, s.cfg.Public || len(s.cfg.Proxies) > 0)}
}

// keyOf returns the API key of a request, from the header that clients of OpenAI, Anthropic or Azure send it in.
func keyOf(r *http.Request) string {
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		if key = strings.TrimSpace(key); key != "" { // clients that use another header may send an empty key in this one
			return key
		}
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	return r.Header.Get("Api-Key")
}

// capped returns p, or a copy that may see no more reasoning than the server allows.
func (s *Server) capped(p *wire.Principal) *wire.Principal {
	most := s.cfg.MaxReasoning
	if most == nil || p.Reasoning <= *most {
		return p
	}
	less := *p
	less.Reasoning = *most
	return &less
}

// authenticate returns the principal of a request, or an error if it may not make it; then the principal may be nil. On
// routes that need no key a wrong key counts as none.
func (s *Server) authenticate(r *http.Request, route wire.Route) (*wire.Principal, error) {
	if route.Scope == wire.ScopeOwn {
		return wire.PrincipalOf(context.Background()), nil
	}
	if s.cfg.Keys == nil {
		p := s.capped(s.local())
		if !p.May(route.Scope) {
			return p, p.Lacks(route.Scope)
		}
		return p, nil
	}
	text := keyOf(r)
	k := s.cfg.Keys.Find(text)
	switch {
	case k == nil && route.Scope == wire.ScopeNone:
		return wire.PrincipalOf(context.Background()), nil
	case text == "":
		return nil, wire.Errorf(wire.CodeNoKey,
			"this server asks for an API key; send it as Authorization: Bearer KEY")
	case k == nil:
		return nil, wire.Errorf(wire.CodeBadKey, "the API key is not one of this server's")
	case !k.May(route.Scope):
		return &k.Principal, k.Lacks(route.Scope)
	}
	if route.Free || route.Method == http.MethodGet &&
		!(route.Loads && s.mustLoad(&k.Principal, r.URL.Query().Get("model"))) {
		return s.capped(&k.Principal), nil
	}
	return s.capped(&k.Principal), s.limit(k)
}

// mustLoad reports whether a model that a principal may use must be loaded, or loaded again, before it can be used.
func (s *Server) mustLoad(p *wire.Principal, name string) bool {
	card, ok := s.find(p, name)
	if !ok {
		return false
	}
	r := s.cfg.Pool.Loaded(card.Name)
	return r == nil || r.Failure() != nil
}

// Follow adds something that is read from a file. Serve reads it again when the file changes. It must be called before
// Serve.
func (s *Server) Follow(x keys.Source) { s.sources = append(s.sources, x) }

// Reload reads again what comes from files, even if they look unchanged. What cannot be read stays as it was; the error
// is logged.
func (s *Server) Reload() {
	s.log.Info("reading the configuration again")
	s.reread(true)
}

func (s *Server) reread(unchanged bool) {
	for _, x := range s.sources {
		switch changed, err := x.Reread(unchanged); {
		case err != nil:
			s.log.Error(x.Name+" cannot be read again; the old ones stay in use", "error", err)
		case changed:
			s.log.Info(x.Name+" were read again", "number", x.Len())
		}
	}
}

// limit counts a request of a key. It returns an error if the key has used up its requests.
func (s *Server) limit(k *keys.Key) error {
	if wait := s.limits.admit(k); wait > 0 {
		return overRate("requests", wait)
	}
	return nil
}

// overRate returns the error for a key that has used up its requests or tokens.
func overRate(what string, wait time.Duration) *wire.Error {
	e := wire.Errorf(wire.CodeRate, "this API key has used its %s for now; try again in %s",
		what, wait.Round(time.Second/10))
	e.RetryAfter = wait
	return e
}
