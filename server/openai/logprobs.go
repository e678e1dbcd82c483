package openai

import (
	"runner/reasoning"
	"runner/server/wire"
)

// Logprobs has the log probabilities of a choice's answer.
//
//openapi:answer Logprobs
type Logprobs struct {
	// The tokens of the answer.
	Content []wire.TokenLogprob `json:"content"`
	// Always null.
	Refusal []wire.TokenLogprob `json:"refusal" api:"null"`
}

// logprobsOf returns the log probabilities of tokens; nil if there are none.
func logprobsOf(tokens []reasoning.TokenLogprobs) *Logprobs {
	if len(tokens) == 0 {
		return nil
	}
	return &Logprobs{Content: wire.Tokens(tokens)}
}
