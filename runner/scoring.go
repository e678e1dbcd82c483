package runner

import (
	"math"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
)

// scoring collects how likely the tokens of a raw prompt are, while the prompt is fed. It belongs to the scheduler's
// goroutine.
type scoring struct {
	vocab *backend.Vocab
	// top is how many alternatives each place gets.
	top int
	// prompt is the number of tokens that are scored; added is how many of them the runner put in front itself.
	prompt, added int
	// list has an entry for each token so far. A lane that gives its sequence back is fed again, but its list stays.
	list []reasoning.TokenLogprobs
}

func newScoring(v *backend.Vocab, req *generation.Request, prompt []backend.Token) *scoring {
	s := &scoring{vocab: v, top: req.PromptTop, prompt: len(prompt), list: make([]reasoning.TokenLogprobs, 0, len(prompt))}
	if req.PromptTokens == nil && v.AddBOS() && v.BOS() == prompt[0] {
		s.added = 1
	}
	first := reasoning.TokenLogprobs{Text: v.Piece(prompt[0])}
	first.Token, first.Logprob = prompt[0], float32(math.NaN()) // nothing comes before it
	s.list = append(s.list, first)
	return s
}

// targets returns the prompt's tokens that follow the n tokens which are fed from position fed on.
func (s *scoring) targets(tokens []backend.Token, fed, n int) []backend.Token {
	if s == nil || fed+1 >= s.prompt {
		return nil
	}
	return tokens[fed+1 : min(fed+1+n, s.prompt)]
}

// note keeps the scores of targets, the first of which stands at position at.
func (s *scoring) note(targets []backend.Token, at int, scores []backend.TargetScore) {
	for i := range scores {
		if at+i != len(s.list) {
			continue // it was scored before the lane was fed again
		}
		l := reasoning.TokenLogprobs{Text: s.vocab.Piece(targets[i]), Rank: scores[i].Rank}
		l.Token, l.Logprob = targets[i], scores[i].Logprob
		for _, t := range scores[i].Top {
			l.Top = append(l.Top, reasoning.Alternative{TokenLogprob: t, Text: s.vocab.Piece(t.Token)})
		}
		s.list = append(s.list, l)
	}
}

// event reports the scores of the prompt's tokens as the caller gave them.
func (s *scoring) event() reasoning.Event {
	return reasoning.Event{Kind: reasoning.PromptScored, Logprobs: s.list[s.added:]}
}
