// Package body writes what the requests to several kinds of engine have in common. Requests are written by hand,
// because a long prompt has many tokens. The package knows no engine.
package body

import (
	"encoding/json"
	"slices"
	"strconv"

	"runner/backend"
)

// Tokens appends a list of token ids.
func Tokens(b []byte, list []backend.Token) []byte {
	b = append(b, '[')
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t), 10)
	}
	return append(b, ']')
}

// Text appends a string.
func Text(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // strings have no errors
	return append(b, text...)
}

// Float appends a number.
func Float(b []byte, x float32) []byte { return strconv.AppendFloat(b, float64(x), 'g', -1, 32) }

// Bias appends an object of token ids and what is added to their logits.
func Bias(b []byte, list []backend.TokenBias) []byte {
	b = append(b, '{')
	for i, x := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, int64(x.Token), 10)
		b = append(b, '"', ':')
		b = Float(b, x.Bias)
	}
	return append(b, '}')
}

// Sum returns a bias with one entry for each token, in ascending order. Forbidden tokens get forbid.
func Sum(list []backend.TokenBias, forbid float32) []backend.TokenBias {
	all := slices.Clone(list)
	slices.SortStableFunc(all, func(a, b backend.TokenBias) int { return int(a.Token - b.Token) })
	out := all[:0]
	for _, x := range all {
		if x.Bias <= -100 {
			x.Bias = forbid
		}
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Token != x.Token:
			out = append(out, x)
		case out[last].Bias == forbid || x.Bias == forbid:
			out[last].Bias = forbid
		default:
			out[last].Bias += x.Bias
		}
	}
	return out
}

// Others returns the tokens of a vocabulary of n tokens that are not in a list, which is in ascending order.
func Others(list []backend.Token, n int) []backend.Token {
	out := make([]backend.Token, 0, max(0, n-len(list)))
	at := 0
	for t := range backend.Token(n) {
		if at < len(list) && list[at] == t {
			at++
			continue
		}
		out = append(out, t)
	}
	return out
}

// Ends returns the tokens of a vocabulary that end a generation. It has none if v is nil.
func Ends(v *backend.Vocab) (list []backend.Token) {
	if v == nil {
		return nil
	}
	for t := range backend.Token(v.Len()) {
		if v.EndsGeneration(t) {
			list = append(list, t)
		}
	}
	return list
}
