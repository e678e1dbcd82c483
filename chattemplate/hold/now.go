package hold

import "runner/backend"

// Now is the constraint that is in force in a turn. The zero value allows anything. Families embed it in their turns.
type Now struct {
	hold   Hold
	form   Form
	forced []backend.Token
	jumps  int
}

// Hold returns the constraint; nil allows anything.
func (n *Now) Hold() Hold { return n.hold }

// Forced returns the tokens that must come next because nothing else can. The slice is valid until the next call.
func (n *Now) Forced() []backend.Token {
	n.forced = n.forced[:0]
	if n.hold != nil {
		n.forced = n.hold.Forced(n.forced)
	}
	return n.forced
}

// Jumps returns a number that changes whenever the constraint is replaced, or does not advance by a token.
func (n *Now) Jumps() int { return n.jumps }

// Jump says that the text goes on with a token by which the constraint does not advance.
func (n *Now) Jump() { n.jumps++ }

// Enforce replaces the constraint; nil allows anything.
func (n *Now) Enforce(h Hold) {
	n.hold = h
	n.jumps++
}

// EnforceForm replaces the constraint by a form, from its first token on.
func (n *Now) EnforceForm(f Form) {
	n.form = f
	n.form.Begin()
	n.Enforce(&n.form)
}

// Form returns the form that is in force, or nil if something else is.
func (n *Now) Form() *Form {
	if n.hold == &n.form {
		return &n.form
	}
	return nil
}

// Accept advances the constraint by a token.
func (n *Now) Accept(t backend.Token) {
	if n.hold != nil {
		n.hold.Accept(t)
	}
}

// Answers reports whether the text is certain to be the answer's, because its form says so.
func (n *Now) Answers() bool { return n.hold == &n.form && n.form.Answers() }

// EndObject returns the tokens that end the reasoning in the object that r reads. It returns false if there are none or
// if the form does not allow them next.
func (n *Now) EndObject(r interface{ CloseReasoning() (string, bool) },
	tokenize func([]backend.Token, string) ([]backend.Token, error)) ([]backend.Token, bool) {
	end, ok := r.CloseReasoning()
	if !ok || n.Form() == nil {
		return nil, false
	}
	tokens, err := tokenize(nil, end)
	return tokens, err == nil && n.form.takes(tokens)
}
