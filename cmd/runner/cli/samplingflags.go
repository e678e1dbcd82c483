package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"runner/backend"
	"runner/cmd/runner/flags"
)

// samplingFlags are the flags for sampling. Their defaults are those of llama.cpp's programs.
func samplingFlags(s *backend.Sampling) flags.Table {
	return flags.List(
		flags.Float("temperature", &s.Temperature, 0.8, "randomness `T`; 0 is greedy"),
		flags.Int("top-k", &s.TopK, 40, 0, math.MaxInt32, "sample from the `K` most likely tokens (0: all)"),
		flags.Float("top-p", &s.TopP, 0.95, "sample from the tokens that make up the probability `P` (1: all)"),
		flags.Float("min-p", &s.MinP, 0.05, "drop tokens less likely than the share `P` of the best (0: none)"),
		flags.Float("typical", &s.TypicalP, 1, "keep the most typical tokens up to the probability `P` (1: all)"),
		flags.Float("repeat-penalty", &s.RepetitionPenalty, 1, "penalty `R` on tokens generated before (1: none)"),
		flags.Float("presence-penalty", &s.PresencePenalty, 0, "`X` subtracted once from tokens generated before"),
		flags.Float("frequency-penalty", &s.FrequencyPenalty, 0,
			"`X` subtracted for every time a token was generated before"),
		flags.Each("logit-bias", &s.Bias, parseBias,
			func(b backend.TokenBias) string { return fmt.Sprintf("%d=%g", b.Token, b.Bias) },
			"`TOKEN=BIAS`: add to one token's logit; -100 forbids it (repeatable)"))
}

func parseBias(text string) (b backend.TokenBias, err error) {
	id, bias, ok := strings.Cut(text, "=")
	token, err1 := strconv.ParseInt(id, 10, 32)
	value, err2 := strconv.ParseFloat(bias, 32)
	if !ok || err1 != nil || err2 != nil || token < 0 {
		return b, fmt.Errorf("use TOKEN=BIAS with a token's id and a number, as in 42=-100")
	}
	return backend.TokenBias{Token: backend.Token(token), Bias: float32(value)}, nil
}
