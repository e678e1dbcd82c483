package runner

import (
	"context"
	"errors"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/generation"
)

// Tokenize returns the tokens of a text, without a beginning-of-text token. With special, the names of control tokens
// in the text become these tokens. Otherwise no text becomes a control token. Only a few texts are tokenized at a
// time, with fair turns for principals. The errors are ErrClosed and those of the context and the backend.
func (r *Runner) Tokenize(ctx context.Context, principal, text string, special bool) ([]backend.Token, error) {
	var tokens []backend.Token
	err := r.inSlot(ctx, principal, func() (err error) {
		tokens, err = r.tokenize(text, special)
		return err
	})
	return tokens, err
}

// tokenize is Tokenize for callers that hold r.using.
func (r *Runner) tokenize(text string, special bool) ([]backend.Token, error) {
	if !special {
		return r.model.Tokenize(nil, text)
	}
	var tokens []backend.Token
	var err error
	specials := specialsOf(r.model.Vocab())
	for plain := 0; plain <= len(text); {
		at, token, length := len(text), backend.NoToken, 0
		for i := plain; i < len(text); i++ {
			if token, length = match(specials, text[i:]); length > 0 {
				at = i
				break
			}
		}
		if at > plain {
			if tokens, err = r.model.Tokenize(tokens, text[plain:at]); err != nil {
				return nil, err
			}
		}
		if length == 0 {
			break
		}
		tokens = append(tokens, token)
		plain = at + length
	}
	return tokens, nil
}

// special is a token with a name that can be spelled in text.
type special struct {
	name  string
	token backend.Token
}

// specialsOf returns a vocabulary's special tokens by the first byte of their names.
func specialsOf(v *backend.Vocab) *[256][]special {
	var lists [256][]special
	for name, t := range v.Specials {
		if name != "" {
			lists[name[0]] = append(lists[name[0]], special{name, t})
		}
	}
	return &lists
}

// match returns the longest special token at the beginning of text and its length, or length 0.
func match(specials *[256][]special, text string) (t backend.Token, length int) {
	for _, s := range specials[text[0]] {
		if len(s.name) > length && strings.HasPrefix(text, s.name) {
			t, length = s.token, len(s.name)
		}
	}
	return t, length
}

// Piece returns the text of a token, as Detokenize does. An unknown token has no text.
func (r *Runner) Piece(t backend.Token) string { return r.model.Vocab().Piece(t) }

// Detokenize returns the text of tokens, including the names of control tokens. It may be invalid UTF-8. An unknown
// token gives a *RequestError.
func (r *Runner) Detokenize(tokens []backend.Token) (string, error) {
	var b strings.Builder
	v := r.model.Vocab()
	for i, t := range tokens {
		if !v.Valid(t) {
			return "", tokenError(generation.TokensField, i, t, v.Len())
		}
		b.WriteString(v.Piece(t))
	}
	return b.String(), nil
}

// Prompt renders a request as [Runner.Generate] would, to show what the model gets or how long it is. principal is the
// caller that waits for a turn. Remembered reasoning is added only for the request's own Principal. The errors are
// those of Generate.
func (r *Runner) Prompt(ctx context.Context, principal string, req generation.Request) (chattemplate.Prompt, error) {
	var p chattemplate.Prompt
	j := r.newJob(ctx, req, generation.Unobserved{})
	j.principal, j.prompt = principal, &p
	if err := j.carryOut(); !errors.Is(err, errRendered) {
		return p, err
	}
	return p, nil
}

// inSlot waits for a slot of the principal and runs f in it. The model is not closed before f returns. The error is
// f's, the cause of ctx's end or ErrClosed.
func (r *Runner) inSlot(ctx context.Context, principal string, f func() error) error {
	slot, err := r.slots.Take(ctx, principal)
	if err != nil {
		return err
	}
	defer slot.Give()
	r.using.RLock()
	defer r.using.RUnlock()
	if r.sched.stop.Err() != nil {
		return generation.ErrClosed
	}
	return f()
}

// Fits returns a *PromptTooLongError if a text is so long that it cannot fit into this model's context. It does not
// tokenize the text, so a text may be too long even if Fits returns nil.
func (r *Runner) Fits(text string) error {
	if len(text) > r.maxText {
		return r.tooMuch(generation.TokensField)
	}
	return nil
}

func (r *Runner) tooMuch(field string) *generation.PromptTooLongError {
	return &generation.PromptTooLongError{Bytes: r.maxText, Context: r.info.ContextSize, Field: field}
}

// rawPrompt returns the prompt of a request that has a raw one.
func (r *Runner) rawPrompt(req *generation.Request) (chattemplate.Prompt, error) {
	p := chattemplate.Prompt{Text: req.Prompt, Start: chattemplate.StartAnswer}
	if req.PromptTokens != nil {
		p.Tokens = slices.Clone(req.PromptTokens)
	} else {
		if len(req.Prompt) > r.maxText {
			return p, r.tooMuch(generation.PromptField)
		}
		tokens, err := r.tokenize(req.Prompt, req.PromptSpecial)
		if err != nil {
			return p, err
		}
		p.Tokens = r.WithBOS(tokens)
	}
	if len(p.Tokens) == 0 {
		return p, generation.BadField(generation.PromptField, "give some text", "it is empty")
	}
	return p, nil
}

// Ends returns the texts of the vocabulary's tokens that begin and end a text. They are empty if there are no such
// tokens.
func (r *Runner) Ends() (bos, eos string) {
	v := r.model.Vocab()
	return v.Piece(v.BOS()), v.Piece(v.EOS())
}

// FillIn returns the tokens for filling a gap in a text. It reports false if the model has none.
func (r *Runner) FillIn() (backend.FillIn, bool) { return r.model.Vocab().FillIn() }

// WithBOS returns tokens with the model's beginning-of-text token in front, if its prompts start with one.
func (r *Runner) WithBOS(tokens []backend.Token) []backend.Token {
	if v := r.model.Vocab(); v.AddBOS() && v.BOS() != backend.NoToken {
		return append([]backend.Token{v.BOS()}, tokens...)
	}
	return tokens
}
