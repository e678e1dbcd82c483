package runner

import (
	"math"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
)

// scoring collects the log probabilities of a raw prompt's tokens while the prompt is fed. It belongs to the
// scheduler's goroutine.
type scoring struct {
	vocab *backend.Vocab
	// top is the number of alternatives per token.
	top int
	// prompt is the number of tokens that are scored. added is how many of them the runner put in front.
	prompt, added int
	// list has an entry for each token so far. It is kept if the lane gives its sequence back and is fed again.
	list []reasoning.TokenLogprobs
}

func newScoring(v *backend.Vocab, req *generation.Request, prompt []backend.Token) *scoring {
	s := &scoring{vocab: v, top: req.PromptTop, prompt: len(prompt), list: make([]reasoning.TokenLogprobs, 0, len(prompt))}
	if req.PromptTokens == nil && v.AddBOS() && v.BOS() == prompt[0] {
		s.added = 1
	}
	first := reasoning.TokenLogprobs{Text: v.Piece(prompt[0])}
	first.Token, first.Logprob = prompt[0], float32(math.NaN()) // nothing precedes it
	s.list = append(s.list, first)
	return s
}

// targets returns the prompt's tokens to score when n tokens are fed from position fed on: those that follow the fed
// tokens.
func (s *scoring) targets(tokens []backend.Token, fed, n int) []backend.Token {
	if s == nil || fed+1 >= s.prompt {
		return nil
	}
	return tokens[fed+1 : min(fed+1+n, s.prompt)]
}

// note stores the scores of targets. The first target is at position at.
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

// event returns the event with the scores of the tokens that the caller gave.
func (s *scoring) event() reasoning.Event {
	return reasoning.Event{Kind: reasoning.PromptScored, Logprobs: s.list[s.added:]}
}
