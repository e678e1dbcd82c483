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

// Setting is a setting of a [Sampling] that is a number. Whoever checks, compares, sends or shows settings goes through
// [Sampling.Settings].
type Setting struct {
	// Field is the name of the field of Sampling, and Name the one in JSON, in requests of clients and to engines.
	Field, Name string
	Effect      Effect
	// Min and Max are the limits. Off is the value without an effect; if it is 1, so is 0.
	Min, Max, Off float32
	// Float is the field, or Int if it is a whole number.
	Float *float32
	Int   *int
}

// Effect is what a setting does.
type Effect uint8

const (
	// Heat scales the whole distribution.
	Heat Effect = iota
	// Filter drops unlikely tokens, but not the likeliest. Greedy sampling has none.
	Filter
	// Skew may drop the likeliest token, too. Greedy sampling has none.
	Skew
	// Penalty changes the logits of tokens that were seen.
	Penalty
	// Detail says more about other settings, or what is reported. It is the last of the effects.
	Detail
)

// NumSettings is the number of settings.
const NumSettings = 10

// Settings returns all settings, in the order in which the protocol of engines has them. A new one comes last.
func (s *Sampling) Settings() [NumSettings]Setting {
	return [...]Setting{
		{"Temperature", "temperature", Heat, 0, 100, 0, &s.Temperature, nil},
		{"TopK", "top_k", Filter, 0, math.MaxInt32, 0, nil, &s.TopK},
		{"TopP", "top_p", Filter, 0, 1, 1, &s.TopP, nil},
		{"MinP", "min_p", Filter, 0, 1, 0, &s.MinP, nil},
		{"TypicalP", "typical_p", Skew, 0, 1, 1, &s.TypicalP, nil},
		{"RepetitionPenalty", "repetition_penalty", Penalty, 0, 10, 1, &s.RepetitionPenalty, nil},
		{"PresencePenalty", "presence_penalty", Penalty, -2, 2, 0, &s.PresencePenalty, nil},
		{"FrequencyPenalty", "frequency_penalty", Penalty, -2, 2, 0, &s.FrequencyPenalty, nil},
		{"PenaltyWindow", "penalty_window", Detail, 0, math.MaxInt32, 0, nil, &s.PenaltyWindow},
		{"TopLogprobs", "top_logprobs", Detail, math.MinInt32, MaxTopLogprobs, 0, nil, &s.TopLogprobs},
	}
}

// Value returns the number.
func (x *Setting) Value() float64 {
	if x.Int != nil {
		return float64(*x.Int)
	}
	return float64(*x.Float)
}

// Copy sets the number to that of another sampling's setting.
func (x *Setting) Copy(from *Setting) {
	if x.Int != nil {
		*x.Int = *from.Int
	} else {
		*x.Float = *from.Float
	}
}

// On reports whether the setting has an effect.
func (x *Setting) On() bool { return x.Value() != 0 && x.Value() != float64(x.Off) }

// Validate returns an error for the first value that is out of range. n is the size of the vocabulary.
func (s *Sampling) Validate(n int) error {
	for _, x := range s.Settings() {
		if v := x.Value(); !(v >= float64(x.Min) && v <= float64(x.Max)) { // NaN is neither
			return fmt.Errorf("%s %v is not between %v and %v", x.Name, v, x.Min, x.Max)
		}
	}
	for _, b := range s.Bias {
		if b.Token < 0 || int(b.Token) >= n {
			return fmt.Errorf("logit bias for token %d, which is not in the vocabulary of %d", b.Token, n)
		}
		if !(b.Bias >= -1000 && b.Bias <= 1000) {
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
	for _, x := range p.Settings() {
		if x.Off != 0 && *x.Float == 0 {
			*x.Float = x.Off
		}
	}
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
	for _, x := range s.Settings() {
		if x.Effect == Penalty && x.On() {
			return true
		}
	}
	return false
}

func (b TokenBias) off() bool { return b.Bias == 0 }

// Forbids reports whether the token can never be sampled.
func (b TokenBias) Forbids() bool { return b.Bias <= -100 }

// Same reports whether another sampling draws alike, if both have seen the same tokens. Settings without an effect do
// not count, nor does what is reported with a token. At temperature 0 neither filters nor the seed have an effect.
func (s *Sampling) Same(o *Sampling) bool {
	a, b := s.Plain(), o.Plain()
	a.TopLogprobs = b.TopLogprobs
	greedy := a.Temperature == 0
	others := b.Settings()
	for i, x := range a.Settings() {
		if of := x.Effect; !(greedy && (of == Filter || of == Skew)) && x.Value() != others[i].Value() {
			return false
		}
	}
	return slices.Equal(a.Bias, b.Bias) && (greedy || a.Seed == b.Seed)
}
