package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"runner/backend"
	"runner/hint"
)

// ErrTokenizer means that the engine's vocabulary is not the one that was given.
var ErrTokenizer = hint.New("the tokenizer is not that of the engine's model",
	"name the engine's own model with --tokenizer")

// probe is a text that common tokenizers split in different ways.
const probe = "Hello, world! It's 12345 o'clock in naïve café №7.\n\n\tdef f(x):\n        return x**2  # 中文, 日本語, " +
	"русский, العربية 🙂👍🏽 <b>&amp;</b> {\"k\": [1, 2.50]}   end\r\n"

// padding is how many tokens an engine's vocabulary may have beyond those of a tokenizer. They are never sampled.
const padding = 2048

// namesAtOnce is how many names of special tokens are sent in one request.
const namesAtOnce = 64

// compare returns ErrTokenizer if the engine tokenizes in another way: its size, the ids of special tokens, or the
// tokens of a text differ, or the tokens spell another text.
func compare(ctx context.Context, e Engine, d *Description, v *backend.Vocab,
	tokenize func([]backend.Token, string) ([]backend.Token, error)) error {
	if n := d.Vocabulary; n > 0 && (v.Len() > n || n-v.Len() > padding) {
		return fmt.Errorf("%w: it has %d tokens and the engine's has %d", ErrTokenizer, v.Len(), n)
	}
	if err := compareSpecials(ctx, e, v); err != nil {
		return err
	}
	ours, err := tokenize(nil, probe)
	if err != nil {
		return err
	}
	theirs, err := e.Encode(ctx, probe, false)
	if err != nil {
		return fmt.Errorf("tokenizing a text: %w", err)
	}
	if !slices.Equal(ours, theirs) {
		return fmt.Errorf("%w: the same text has other tokens", ErrTokenizer)
	}
	text, err := e.Decode(ctx, ours)
	if err != nil {
		return fmt.Errorf("spelling tokens: %w", err)
	}
	if text != probe {
		return fmt.Errorf("%w: the same tokens spell another text", ErrTokenizer)
	}
	return nil
}

// compareSpecials compares the ids of tokens that only templates produce.
func compareSpecials(ctx context.Context, e Engine, v *backend.Vocab) error {
	var all []backend.Token
	for _, t := range v.Specials {
		if v.Kind(t) == backend.Control {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return errors.New("the tokenizer has no special tokens, so it cannot be compared with the engine's")
	}
	slices.Sort(all)
	for want := range slices.Chunk(all, namesAtOnce) {
		var names strings.Builder
		for _, t := range want {
			names.WriteString(v.Piece(t))
		}
		got, err := e.Encode(ctx, names.String(), true)
		if err != nil {
			return fmt.Errorf("tokenizing special tokens: %w", err)
		}
		for i, t := range want {
			if i >= len(got) || got[i] != t {
				return fmt.Errorf("%w: the special token %.40q is not %d", ErrTokenizer, v.Piece(t), t)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("%w: special tokens have other names", ErrTokenizer)
		}
	}
	return nil
}
