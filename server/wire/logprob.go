package wire

import "strconv"

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

// AppendLogprob appends [Logprob] of p as a JSON number.
func AppendLogprob(dst []byte, p float32) []byte {
	return strconv.AppendFloat(dst, float64(Logprob(p)), 'g', -1, 32)
}

// AppendToken appends a token, its log probability and its bytes as a JSON object in the form of OpenAI's APIs, without
// the closing brace.
func AppendToken(dst []byte, text string, p float32) []byte {
	dst = AppendString(append(dst, `{"token":`...), text)
	dst = AppendLogprob(append(dst, `,"logprob":`...), p)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(text[i]), 10)
	}
	return append(dst, ']')
}
