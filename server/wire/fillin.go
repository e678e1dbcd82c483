package wire

import (
	"context"

	"runner/generation"
)

// Gap is a gap in a text that the model fills in.
type Gap struct {
	// Before and After are the texts around the gap.
	Before, After string
	// Files are texts that help to fill it, the least important first.
	Files []File
}

// File is a text with a name.
type File struct{ Name, Text string }

// Tokens returns the raw prompt. All texts are plain text. param is the field that asks for it.
func (g *Gap) Tokens(ctx context.Context, m Tokenizer, param string) ([]generation.Token, error) {
	mark, ok := m.FillIn()
	if !ok {
		return nil, Unsupported(param, "this model has no tokens for filling a gap in a text")
	}
	prompt := m.WithBOS(nil)
	add := func(mark generation.Token, text string) error {
		if mark != generation.NoToken {
			prompt = append(prompt, mark)
		}
		if err := m.Fits(text); err != nil {
			return FromError(err, map[string]string{generation.TokensField: param})
		}
		tokens, err := m.Tokenize(ctx, PrincipalOf(ctx).ID, text, false)
		prompt = append(prompt, tokens...)
		return err
	}
	for _, f := range g.Files {
		if err := add(mark.File, f.Name+"\n"+f.Text+"\n"); err != nil {
			return nil, err
		}
	}
	if err := add(mark.Before, g.Before); err != nil {
		return nil, err
	}
	if err := add(mark.After, g.After); err != nil {
		return nil, err
	}
	return append(prompt, mark.Gap), nil
}
