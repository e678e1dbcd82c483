package wire

import "runner/reasoning"

// TokenLogprob is a token of the answer, in the form of OpenAI's APIs.
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

// Tokens returns the tokens of an answer with their log probabilities.
func Tokens(tokens []reasoning.TokenLogprobs) []TokenLogprob {
	list := make([]TokenLogprob, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		list[i] = TokenLogprob{t.Text, Logprob(t.Logprob), Bytes(t.Text), make([]TopLogprob, len(t.Top))}
		for j := range t.Top {
			list[i].TopLogprobs[j] = TopLogprob{t.Top[j].Text, Logprob(t.Top[j].Logprob), Bytes(t.Top[j].Text)}
		}
	}
	return list
}

// Bytes returns the bytes of a text as JSON has them, as numbers.
func Bytes(text string) []int {
	list := make([]int, len(text))
	for i := range len(text) {
		list[i] = int(text[i])
	}
	return list
}

// lowestLogprob replaces log probabilities that JSON cannot represent, as in OpenAI's API.
const lowestLogprob = -9999

// Logprob returns a log probability that JSON can represent, at most 0. Rounding can make that of a nearly certain
// token positive.
func Logprob(p float32) float32 {
	if p >= lowestLogprob {
		return min(p, 0)
	}
	return lowestLogprob // minus infinity, or not a number
}
