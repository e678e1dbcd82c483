// Package hold says what a model may write at one place of its turn.
//
// Each value has one job: [OneOf] holds a header to a list, [Text] keeps text that owes something from ending the turn,
// and [Form] holds an answer or a call to its form. A family of models chooses the value when the model comes to a new
// place; nil stands for anything.
//
// A value belongs to one turn. The scheduler moves it on, and an engine asks it during a step, never both at once.
package hold

import (
	"context"

	"runner/backend"
	"runner/grammar"
)

// Hold is what may come next at one place of a turn.
type Hold interface {
	backend.Constraint
	// Accept moves on by a token. A token that is not allowed changes nothing.
	Accept(t backend.Token)
	// Forced appends the tokens that must come next because nothing else can.
	Forced(dst []backend.Token) []backend.Token
	// Prepare does about so much of the work of finding out what may come next, at least a little. It reports how much
	// it did and whether all is known.
	Prepare(work int) (used int, ready bool, err error)
}

// OneOf holds text to one of several sequences of tokens.
type OneOf struct{ choice *grammar.Choice }

// NewOneOf returns a hold to one of the sequences, none of which may be empty.
func NewOneOf(sequences ...[]backend.Token) (*OneOf, error) {
	choice, err := grammar.NewChoice(sequences...)
	return &OneOf{choice}, err
}

// Reset goes back to the start.
func (o *OneOf) Reset() { o.choice.Reset() }

// Allows implements backend.Constraint.
func (o *OneOf) Allows(t backend.Token) bool { return o.choice.Allows(t) }

// Fill implements backend.Constraint.
func (o *OneOf) Fill(m backend.Mask) { o.choice.Fill(m) }

// Accept implements Hold.
func (o *OneOf) Accept(t backend.Token) { o.choice.Accept(t) }

// Forced implements Hold. Headers are the model's own words, so that nothing is forced.
func (o *OneOf) Forced(dst []backend.Token) []backend.Token { return dst }

// Prepare implements Hold.
func (o *OneOf) Prepare(int) (used int, ready bool, err error) { return 0, true, nil }

// Spellings returns the tokens of each text: its own token where the vocabulary has one, or else what tokenize makes.
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

// LineBreaks returns the tokens of one and of two line breaks, which models like to write after a tag.
func LineBreaks(tokenize func([]backend.Token, string) ([]backend.Token, error)) (list []backend.Token) {
	for _, text := range []string{"\n", "\n\n"} {
		if tokens, err := tokenize(nil, text); err == nil && len(tokens) == 1 {
			list = append(list, tokens[0])
		}
	}
	return list
}

// Ends returns the tokens that end generation, the usual one first.
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

// Warm works out the first masks of forms in the background, until ctx ends.
func Warm(ctx context.Context, forms []*grammar.Grammar) {
	if len(forms) == 0 {
		return
	}
	go func() {
		for _, form := range forms {
			form.Warm(ctx)
		}
	}()
}

// EndObject returns the tokens that end the reasoning in an object that is being read, if the form takes them.
func EndObject(r interface{ CloseReasoning() (string, bool) }, h Hold,
	tokenize func([]backend.Token, string) ([]backend.Token, error)) ([]backend.Token, bool) {
	end, ok := r.CloseReasoning()
	if !ok {
		return nil, false
	}
	form, ok := h.(*Form)
	if !ok {
		return nil, false
	}
	tokens, err := tokenize(nil, end)
	return tokens, err == nil && form.Takes(tokens)
}
