package llamaserver

import (
	"context"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// textOf returns how the server writes a token in its text: control tokens are left out.
func textOf(v *backend.Vocab, t backend.Token) string {
	if k := v.Kind(t); k == backend.Control || k == backend.Unused {
		return ""
	}
	return v.Piece(t)
}

func sorted(tokens []backend.Token) []backend.Token {
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// pieces finds the tokens that are not whole characters by their bytes.
func (e *Engine) pieces() map[string]backend.Token {
	e.once.Do(func() {
		e.byBytes = map[string]backend.Token{}
		for i := range e.vocab.Len() {
			t := backend.Token(i)
			p := textOf(e.vocab, t)
			if p == "" || utf8.ValidString(p) {
				continue
			}
			e.parts = append(e.parts, t)
			if old, twice := e.byBytes[p]; !twice || e.vocab.Kind(old) == backend.Byte {
				e.byBytes[p] = t
			}
		}
	})
	return e.byBytes
}

// partial returns the tokens that are not whole characters.
func (e *Engine) partial() []backend.Token {
	e.pieces()
	return slices.Clone(e.parts)
}

const (
	// mostSplits is how many ways to split a text are looked for, and mostSteps how many pieces are tried for that.
	mostSplits = 64
	mostSteps  = 1 << 16
	// mostMissing is how many tokens can be missing before one, and longestMissing how many bytes they have. A character
	// has at most four bytes, and few tokens are less than one.
	mostMissing    = 16
	longestMissing = 64
)

// splits returns the ways to write text with n tokens that are not whole characters. The caller limits both.
func (e *Engine) splits(text string, n int) (list [][]backend.Token) {
	pieces, steps := e.pieces(), 0
	var walk func(rest string, so []backend.Token)
	walk = func(rest string, so []backend.Token) {
		if steps++; len(list) >= mostSplits || steps > mostSteps || len(so) > n || len(rest) < n-len(so) {
			return
		}
		if len(so) == n {
			if rest == "" {
				list = append(list, slices.Clone(so))
			}
			return
		}
		for end := 1; end <= min(len(rest), e.vocab.LongestPiece()); end++ {
			if t, ok := pieces[rest[:end]]; ok {
				walk(rest[end:], append(so, t))
			}
		}
	}
	walk(text, nil)
	if steps > mostSteps {
		return nil // there may be more ways
	}
	return list
}

// score sets the probability of a token after others, and the best alternatives. The engine reports probabilities only
// for tokens that are whole characters, so the probabilities of all tokens are asked for beside one that is.
func (e *Engine) score(ctx context.Context, before []backend.Token, s *sample, top int,
	noCache bool) error {
	n := e.vocab.Len()
	body, err := json.Marshal(map[string]any{"prompt": before, "n_predict": 1, "cache_prompt": !noCache,
		"return_tokens": true, "temperature": 0, "n_probs": n, "logit_bias": [][2]float32{{float32(e.whole()), 2 * lift}}})
	if err != nil {
		return err
	}
	var reply event
	if err := e.client.Post(ctx, "/completion", json.RawMessage(body), &reply); err != nil {
		return err
	}
	if len(reply.Probs) != 1 {
		return &web.Error{Kind: web.Malformed, Detail: "it sent no probabilities"}
	}
	for i, p := range reply.Probs[0].Top {
		if !e.vocab.Valid(p.ID) {
			return errUnknownAlternative
		}
		if i < top {
			s.Top = append(s.Top, backend.TokenLogprob{Token: p.ID, Logprob: p.Logprob})
		}
		if p.ID == s.Token {
			s.Logprob = p.Logprob
		}
	}
	return nil
}

// whole returns a token that is a whole character.
func (e *Engine) whole() backend.Token {
	for i := range e.vocab.Len() {
		if p := textOf(e.vocab, backend.Token(i)); p != "" && utf8.ValidString(p) {
			return backend.Token(i)
		}
	}
	return e.vocab.EOS()
}

var _ remote.Engine = (*Engine)(nil)
