package wire

import (
	"context"
	"errors"
	"slices"

	"runner/reasoning"
)

// Local is the id of the principal if the server asks for no keys.
const Local = "local"

// Principal is who makes a request, and what it may do.
type Principal struct {
	// ID is the name of the API key, never the key itself; Local without keys.
	ID string
	// Scopes are the kinds of endpoints that it may use.
	Scopes []Scope
	// Reasoning is how much of the reasoning it may see at most.
	Reasoning reasoning.Visibility
	// Models are the names of the models that it may use; nil means all.
	Models []string
}

// May reports whether the principal has a scope.
func (p *Principal) May(s Scope) bool {
	return s == ScopeNone || s == ScopeOwn || slices.Contains(p.Scopes, s)
}

// Lacks returns the error for a principal without a scope that a request needs.
func (p *Principal) Lacks(s Scope) *Error {
	i := slices.IndexFunc(permissions, func(of Permission) bool { return of.Scope == s })
	if p.ID == Local && i >= 0 && permissions[i].Denied != "" {
		return Errorf(CodeForbidden, "%s", permissions[i].Denied)
	}
	if p.ID == Local {
		return Errorf(CodeForbidden,
			"a server that serves other machines without API keys gives nobody the permission %s; start it with keys", s)
	}
	return Errorf(CodeForbidden, "this API key lacks the permission %s", s)
}

// Default returns the visibility for a request that names none: the server's default, or less if the principal may
// not see that much.
func (p *Principal) Default(server reasoning.Visibility) reasoning.Visibility {
	return min(server, p.Reasoning)
}

// MayUse reports whether the principal may use a model.
func (p *Principal) MayUse(model string) bool {
	return p.Models == nil || slices.Contains(p.Models, model)
}

// MayPromptRaw returns an error about the field param unless the principal may send raw prompts. The output for a raw
// prompt is not split into reasoning and answer, so it shows all reasoning.
func (p *Principal) MayPromptRaw(param string) error {
	err := reasoning.VisibilityFull.Cap(p.Reasoning)
	var lacks *reasoning.VisibilityError
	if !errors.As(err, &lacks) {
		return err
	}
	return Errorf(CodeForbidden, "a raw prompt shows what the model thinks, so it needs the permission %s, which this "+
		"API key lacks", lacks.Permission()).At(param).Because(err)
}

type principalKey struct{}

// WithPrincipal returns a context that carries p.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

var nobody = &Principal{Models: []string{}}

// PrincipalOf returns the principal of the request of ctx. If there is none, it returns one that may do nothing.
func PrincipalOf(ctx context.Context) *Principal {
	if p, ok := ctx.Value(principalKey{}).(*Principal); ok {
		return p
	}
	return nobody
}
