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
	Content []TokenLogprob `json:"content"`
	// Always null.
	Refusal []TokenLogprob `json:"refusal" api:"null"`
}

// TokenLogprob is a token of the answer.
//
//openapi:answer TokenLogprob
type TokenLogprob struct {
	// The token's text. Bytes that are not UTF-8 are replaced by U+FFFD.
	Token string `json:"token"`
	// The natural logarithm of the token's probability, before any filter. The lowest value is -9999.
	Logprob float32 `json:"logprob" api:"[-9999..0]"`
	// The token's exact bytes.
	Bytes []int `json:"bytes" api:"[]integer[0..255]"`
	// The likeliest tokens at this position.
	TopLogprobs []TopLogprob `json:"top_logprobs" api:"[..20]"`
}

// TopLogprob is one of the likeliest tokens at a position. Its fields are those of [TokenLogprob].
//
//openapi:answer TopLogprob
type TopLogprob struct {
	// The token's text.
	Token string `json:"token"`
	// The natural logarithm of the token's probability.
	Logprob float32 `json:"logprob" api:"[-9999..0]"`
	// The token's exact bytes.
	Bytes []int `json:"bytes" api:"[]integer[0..255]"`
}

// logprobsOf returns the log probabilities of an answer.
func logprobsOf(list []reasoning.TokenLogprobs) *Logprobs {
	l := &Logprobs{Content: make([]TokenLogprob, len(list))}
	for i := range list {
		t := &list[i]
		e := TokenLogprob{Token: t.Text, Logprob: wire.Logprob(t.Logprob), Bytes: numbers(t.Text),
			TopLogprobs: make([]TopLogprob, len(t.Top))}
		for j := range t.Top {
			e.TopLogprobs[j] = TopLogprob{Token: t.Top[j].Text, Logprob: wire.Logprob(t.Top[j].Logprob),
				Bytes: numbers(t.Top[j].Text)}
		}
		l.Content[i] = e
	}
	return l
}

func numbers(s string) []int {
	list := make([]int, len(s))
	for i := range len(s) {
		list[i] = int(s[i])
	}
	return list
}

// appendLogprobs appends the result of logprobsOf as JSON.
func appendLogprobs(dst []byte, list []reasoning.TokenLogprobs) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range list {
		t := &list[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendToken(dst, t.Text, t.Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range t.Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(wire.AppendToken(dst, t.Top[j].Text, t.Top[j].Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}
