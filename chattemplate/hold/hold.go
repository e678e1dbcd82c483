// Package hold has the constraints on what a model may write at one place of its turn.
//
// Each has one job. [OneOf] allows one of a list of headers. [Text] allows any text, but keeps it from ending the turn
// while an answer or a call is still required. [Form] makes an answer or a call match its form. A family chooses a
// constraint when the model comes to a new place. [Owed] tells it whether an answer, a call or the end may come next.
// A nil [Hold] allows everything.
//
// A constraint belongs to one turn. The scheduler advances it, and the engine asks it during a step, but never both at
// the same time.
package hold

import (
	"runner/backend"
	"runner/grammar"
)

// Hold is the constraint on the next token at one place of a turn.
type Hold interface {
	backend.Constraint
	// Accept advances by a token. A token that is not allowed changes nothing.
	Accept(t backend.Token)
	// Forced appends the tokens that must come next because nothing else can.
	Forced(dst []backend.Token) []backend.Token
	// Prepare works out which tokens may come next. It does about as much work as it is given, and at least a little. It
	// returns how much it did and whether it is finished.
	Prepare(work int) (used int, ready bool, err error)
	// Copy returns an independent constraint in the same state, to look ahead with. It may reuse to, an earlier copy. It
	// returns nil where looking ahead is not worth it. Copies of one constraint belong to one goroutine.
	Copy(to Hold) Hold
}

// OneOf allows one of several sequences of tokens.
type OneOf struct{ choice *grammar.Choice }

// NewOneOf returns a constraint that allows one of the sequences. It fails if a sequence is empty.
func NewOneOf(sequences ...[]backend.Token) (*OneOf, error) {
	choice, err := grammar.NewChoice(sequences...)
	return &OneOf{choice}, err
}

// Len returns how many tokens may come next.
func (o *OneOf) Len() int { return o.choice.Len() }

// Reset goes back to the start.
func (o *OneOf) Reset() { o.choice.Reset() }

// Allows implements backend.Constraint.
func (o *OneOf) Allows(t backend.Token) bool { return o.choice.Allows(t) }

// Fill implements backend.Constraint.
func (o *OneOf) Fill(m backend.Mask) { o.choice.Fill(m) }

// Accept implements Hold.
func (o *OneOf) Accept(t backend.Token) { o.choice.Accept(t) }

// Forced implements Hold. It forces nothing: the model writes its headers itself.
func (o *OneOf) Forced(dst []backend.Token) []backend.Token { return dst }

// Prepare implements Hold.
func (o *OneOf) Prepare(int) (used int, ready bool, err error) { return 0, true, nil }

// Copy implements Hold. Headers are short, so there is no looking ahead.
func (o *OneOf) Copy(Hold) Hold { return nil }

// Spellings returns the tokens of each text. A text that is a special token of the vocabulary is that one token.
func Spellings(v *backend.Vocab, tokenize func([]backend.Token, string) ([]backend.Token, error),
	texts ...string) ([][]backend.Token, error) {
	out := make([][]backend.Token, len(texts))
	for i, text := range texts {
		if t, ok := v.Special(text); ok {
			out[i] = []backend.Token{t}
			continue
		}
		var err error
		if out[i], err = tokenize(nil, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LineBreaks returns the tokens of one and of two line breaks, which models often write after a tag. It leaves out one
// that is not a single token.
func LineBreaks(tokenize func([]backend.Token, string) ([]backend.Token, error)) (list []backend.Token) {
	for _, text := range []string{"\n", "\n\n"} {
		if tokens, err := tokenize(nil, text); err == nil && len(tokens) == 1 {
			list = append(list, tokens[0])
		}
	}
	return list
}

// Ends returns the tokens that end generation. The usual one comes first.
func Ends(v *backend.Vocab) []backend.Token {
	var out []backend.Token
	if v.EOS() != backend.NoToken {
		out = append(out, v.EOS())
	}
	for t := range backend.Token(v.Len()) {
		if v.EndsGeneration(t) && t != v.EOS() {
			out = append(out, t)
		}
	}
	return out
}
