package backend

import (
	"fmt"
	"math"
	"slices"
)

// Sampling says how a token is chosen. The zero value is greedy: the most likely token, ties to the lower id.
//
// The filters apply in this order: penalties and bias change the logits. With temperature 0 the best token is then
// taken. Otherwise top-k, typical, top-p and min-p apply at temperature 1, each to what the one before left,
// renormalised; then the temperature; then the draw. This is the order of llama.cpp's default chain. At least one
// token always stays.
//
// A [Constraint] comes last: the token is drawn from the allowed part of what the filters leave. If the filters
// leave no allowed token, they are applied again to the allowed tokens alone.
type Sampling struct {
	// Temperature divides the logits, 0 to 100. 0 is greedy.
	Temperature float32 `json:"temperature"`
	// TopK keeps the k most likely tokens; 0 keeps all.
	TopK int `json:"top_k"`
	// TopP keeps the smallest set of tokens whose probability reaches TopP (nucleus sampling, Holtzman et al.
	// 2019). 0 or 1 keeps all.
	TopP float32 `json:"top_p"`
	// MinP drops tokens less likely than MinP times the best one (Nguyen et al. 2024); 0 keeps all.
	MinP float32 `json:"min_p"`
	// TypicalP keeps the smallest set of the most locally typical tokens whose probability reaches TypicalP
	// (Meister et al. 2022). 0 or 1 keeps all.
	TypicalP float32 `json:"typical_p"`

	// RepetitionPenalty divides the positive logits of seen tokens and multiplies the negative ones (Keskar et al.
	// 2019). 0 or 1 is off.
	RepetitionPenalty float32 `json:"repetition_penalty"`
	// PresencePenalty is subtracted once from each seen token, FrequencyPenalty once per occurrence. -2 to 2.
	PresencePenalty  float32 `json:"presence_penalty"`
	FrequencyPenalty float32 `json:"frequency_penalty"`
	// Seen lists the tokens that the penalties count, oldest first. The caller chooses them, because the sequence
	// also holds tokens that must not count, such as the prompt and hidden text. Step only reads it. Tokens outside
	// the vocabulary are ignored. After a draft, the drafts so far count too, as the newest.
	Seen []Token `json:"-"`
	// PenaltyWindow is how many of the last tokens of Seen count; 0 means all.
	PenaltyWindow int `json:"penalty_window,omitempty"`

	// Bias is added to the logits of the given tokens. A bias of -100 or less forbids the token.
	Bias []TokenBias `json:"logit_bias,omitempty"`

	// Seed and the token's position in its sequence determine every random draw. The same seed therefore gives the
	// same text on one machine, whatever else is running.
	Seed uint64 `json:"-"`

	// TopLogprobs is how many alternatives to put into Output.Top, 0 to MaxTopLogprobs. A negative value omits
	// Output.Logprob too, which saves a pass over the vocabulary: most of the time that sampling takes.
	TopLogprobs int `json:"-"`
}

// TokenBias is added to one token's logit.
type TokenBias struct {
	Token Token   `json:"token"`
	Bias  float32 `json:"bias"`
}

// MaxTopLogprobs is the maximum of Sampling.TopLogprobs.
const MaxTopLogprobs = 20

// SettingError says that an engine does not have a setting, or not with this value.
type SettingError struct {
	// Setting is the name of the field of [Sampling], for instance "TypicalP".
	Setting string
	// Detail says what the engine does not have, in one line.
	Detail string
}

func (e *SettingError) Error() string { return e.Detail }

// Validate returns an error for the first value that is out of range. n is the size of the vocabulary.
func (s *Sampling) Validate(n int) error {
	switch {
	case !in(s.Temperature, 0, 100):
		return fmt.Errorf("temperature %v is not between 0 and 100", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("top-k %d is negative", s.TopK)
	case !in(s.TopP, 0, 1):
		return fmt.Errorf("top-p %v is not between 0 and 1", s.TopP)
	case !in(s.MinP, 0, 1):
		return fmt.Errorf("min-p %v is not between 0 and 1", s.MinP)
	case !in(s.TypicalP, 0, 1):
		return fmt.Errorf("typical-p %v is not between 0 and 1", s.TypicalP)
	case !in(s.RepetitionPenalty, 0, 10):
		return fmt.Errorf("repetition penalty %v is not between 0 and 10", s.RepetitionPenalty)
	case !in(s.PresencePenalty, -2, 2):
		return fmt.Errorf("presence penalty %v is not between -2 and 2", s.PresencePenalty)
	case !in(s.FrequencyPenalty, -2, 2):
		return fmt.Errorf("frequency penalty %v is not between -2 and 2", s.FrequencyPenalty)
	case s.PenaltyWindow < 0:
		return fmt.Errorf("penalty window %d is negative", s.PenaltyWindow)
	case s.TopLogprobs > MaxTopLogprobs:
		return fmt.Errorf("top logprobs %d is more than %d", s.TopLogprobs, MaxTopLogprobs)
	}
	for _, b := range s.Bias {
		if b.Token < 0 || int(b.Token) >= n {
			return fmt.Errorf("logit bias for token %d, which is not in the vocabulary of %d", b.Token, n)
		}
		if !in(b.Bias, -1000, 1000) {
			return fmt.Errorf("logit bias %v of token %d is not between -1000 and 1000", b.Bias, b.Token)
		}
	}
	return nil
}

// Plain returns the sampling with settings that are off written in one way. A share or a factor is then 1, and every
// other setting is 0. Without a penalty there is no window and nothing was seen. Bias has no entry of 0.
//
// Whoever asks whether a setting acts asks it of this form, so that nobody has a rule of their own.
func (s *Sampling) Plain() Sampling {
	p := *s
	p.TopP, p.TypicalP, p.RepetitionPenalty = factor(p.TopP), factor(p.TypicalP), factor(p.RepetitionPenalty)
	if !p.Penalises() {
		p.PenaltyWindow, p.Seen = 0, nil
	}
	if slices.ContainsFunc(p.Bias, TokenBias.off) {
		p.Bias = slices.DeleteFunc(slices.Clone(p.Bias), TokenBias.off)
	}
	return p
}

// Penalises reports whether a penalty changes the logits of tokens that were seen.
func (s *Sampling) Penalises() bool {
	return factor(s.RepetitionPenalty) != 1 || s.PresencePenalty != 0 || s.FrequencyPenalty != 0
}

// factor returns 1 for a share or a factor that is off.
func factor(x float32) float32 {
	if x == 0 {
		return 1
	}
	return x
}

func (b TokenBias) off() bool { return b.Bias == 0 }

// Forbids reports whether the token can never be sampled.
func (b TokenBias) Forbids() bool { return b.Bias <= -100 }

// Same reports whether another sampling draws alike, if both have seen the same tokens. Settings without an effect do
// not count, nor does what is reported with a token. At temperature 0 neither filters nor the seed have an effect.
func (s *Sampling) Same(o *Sampling) bool {
	a, b := s.Plain(), o.Plain()
	if a.Temperature != b.Temperature || a.RepetitionPenalty != b.RepetitionPenalty ||
		a.PresencePenalty != b.PresencePenalty || a.FrequencyPenalty != b.FrequencyPenalty ||
		a.PenaltyWindow != b.PenaltyWindow || !slices.Equal(a.Bias, b.Bias) {
		return false
	}
	return a.Temperature == 0 || a.TopK == b.TopK && a.TopP == b.TopP && a.MinP == b.MinP && a.TypicalP == b.TypicalP &&
		a.Seed == b.Seed
}

func in(x, lo, hi float32) bool { return x >= lo && x <= hi && !math.IsNaN(float64(x)) }
