package openai

import (
	"runner/reasoning"
	"runner/server/wire"
)

// Logprobs has the log probabilities of a choice's answer.
type Logprobs struct {
	// Content has an entry for each token of the answer; tokens of preambles have none.
	Content []TokenLogprob `json:"content"`
	// Refusal is always null.
	Refusal []TokenLogprob `json:"refusal"`
}

// TokenLogprob is a token of the answer.
type TokenLogprob struct {
	// Token is the token's text, with U+FFFD for bytes that are not UTF-8.
	Token string `json:"token"`
	// Logprob is the natural logarithm of its probability before any filter, at least -9999.
	Logprob float32 `json:"logprob"`
	// Bytes are the token's exact bytes.
	Bytes []int `json:"bytes"`
	// TopLogprobs are the most likely tokens, as many as top_logprobs asks for.
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is one of the most likely tokens for a place. Its fields are those of [TokenLogprob].
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
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
