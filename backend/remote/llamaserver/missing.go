package llamaserver

import (
	"context"
	"slices"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
)

// textOf returns how the server writes a token in its text: control tokens are left out.
func textOf(v *backend.Vocab, t backend.Token) string {
	if k := v.Kind(t); k == backend.Control || k == backend.Unused {
		return ""
	}
	return v.Piece(t)
}

// parts are the tokens of a vocabulary that are not whole characters.
type parts struct {
	list []backend.Token
	// byText finds them by their bytes, and longest is the length of the longest one.
	byText  map[string]backend.Token
	longest int
	// whole is a token that is a whole character.
	whole backend.Token
}

func partsOf(v *backend.Vocab) *parts {
	p := &parts{byText: map[string]backend.Token{}, longest: v.LongestPiece(), whole: backend.NoToken}
	for t := range backend.Token(v.Len()) {
		text := textOf(v, t)
		switch {
		case text == "":
		case utf8.ValidString(text):
			if p.whole == backend.NoToken {
				p.whole = t
			}
		default:
			p.list = append(p.list, t)
			if old, twice := p.byText[text]; !twice || v.Kind(old) == backend.Byte {
				p.byText[text] = t
			}
		}
	}
	if p.whole == backend.NoToken {
		p.whole = v.EOS()
	}
	return p
}

const (
	// mostSplits is how many ways to split a text are looked for, and mostSteps how many pieces are tried for that.
	mostSplits = 64
	mostSteps  = 1 << 16
)

// splits returns the ways to write text with n tokens that are not whole characters. The caller limits both.
func (p *parts) splits(text string, n int) (list [][]backend.Token) {
	steps := 0
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
		for end := 1; end <= min(len(rest), p.longest); end++ {
			if t, ok := p.byText[rest[:end]]; ok {
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
func (s *server) score(ctx context.Context, r *remote.Request, before []backend.Token, x *remote.Sample) error {
	var reply event
	if err := s.Client.Post(ctx, route, map[string]any{"prompt": before, "n_predict": 1, "cache_prompt": !r.NoCache,
		"return_tokens": true, "temperature": 0, "n_probs": s.Vocab.Len(),
		"logit_bias": [][2]any{{s.parts().whole, 2 * lift}}}, &reply); err != nil {
		return err
	}
	if len(reply.Probabilities) != 1 {
		return dialect.Malformed("it sent no probabilities")
	}
	x.Top = reply.Probabilities[0].best()
	for _, p := range x.Top {
		if p.Token == x.Token {
			x.Logprob = p.Logprob
		}
	}
	return nil
}
