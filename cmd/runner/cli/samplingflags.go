package cli

import (
	"github.com/spf13/cobra"

	"runner/backend"
)

// addSamplingFlags adds the flags for sampling. Their defaults are those of llama.cpp's programs.
func addSamplingFlags(cmd *cobra.Command, s *backend.Sampling) {
	f := cmd.Flags()
	f.Float32Var(&s.Temperature, "temperature", 0.8, "randomness `T`; 0 is greedy")
	f.IntVar(&s.TopK, "top-k", 40, "sample from the `K` most likely tokens (0: all)")
	f.Float32Var(&s.TopP, "top-p", 0.95, "sample from the tokens that make up the probability `P` (1: all)")
	f.Float32Var(&s.MinP, "min-p", 0.05, "drop tokens less likely than the share `P` of the best (0: none)")
	f.Float32Var(&s.TypicalP, "typical", 1, "keep the most typical tokens up to the probability `P` (1: all)")
	f.Float32Var(&s.RepetitionPenalty, "repeat-penalty", 1, "penalty `R` on tokens generated before (1: none)")
	f.Float32Var(&s.PresencePenalty, "presence-penalty", 0, "`X` subtracted once from tokens generated before")
	f.Float32Var(&s.FrequencyPenalty, "frequency-penalty", 0, "`X` subtracted for every time a token was generated before")
	f.Var(biases{&s.Bias}, "logit-bias", "add to one token's logit; -100 forbids it (repeatable)")
}
