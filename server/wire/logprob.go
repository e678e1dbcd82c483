package wire

import "strconv"

// lowestLogprob stands for log probabilities that JSON cannot hold, as in OpenAI's API.
const lowestLogprob = -9999

// Logprob is a log probability as it can be told. Rounding takes those of near certainty above 0.
func Logprob(p float32) float32 {
	if p >= lowestLogprob {
		return min(p, 0)
	}
	return lowestLogprob // minus infinity, and what is no number
}

// AppendLogprob appends [Logprob] of p as a JSON number.
func AppendLogprob(dst []byte, p float32) []byte {
	return strconv.AppendFloat(dst, float64(Logprob(p)), 'g', -1, 32)
}

// AppendToken appends a token with its log probability and its bytes as OpenAI's APIs write it, a JSON object,
// without the brace at its end.
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
