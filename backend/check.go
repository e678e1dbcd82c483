package backend

import (
	"errors"
	"fmt"
)

// CheckInputs reports the first thing in a step that breaks the contract whatever the backend: too few outputs,
// more tokens than the batch size, a missing sequence, no tokens or tokens outside the vocabulary, a sequence that
// would outgrow the context, sampling values out of range, targets that are too many or unknown, a buffer of the
// wrong length. Backends call it before they change anything; what it cannot see (closed, foreign or repeated
// sequences) stays theirs. It allocates only errors.
func CheckInputs(info *Info, v *Vocab, inputs []Input, outputs []Output) error {
	if len(outputs) < len(inputs) {
		return fmt.Errorf("step has %d inputs but room for %d outputs", len(inputs), len(outputs))
	}
	total, targets := 0, 0
	for i := range inputs {
		total += len(inputs[i].Tokens)
		targets += len(inputs[i].Targets)
		if err := checkInput(info, v, &inputs[i]); err != nil {
			return &InputError{Index: i, Err: err}
		}
	}
	if total > info.BatchSize {
		return fmt.Errorf("%w: %d tokens, at most %d", ErrBatchTooLarge, total, info.BatchSize)
	}
	if targets > MaxTargets {
		return fmt.Errorf("%w: %d targets, at most %d", ErrBatchTooLarge, targets, MaxTargets)
	}
	return nil
}

func checkInput(info *Info, v *Vocab, in *Input) error {
	switch {
	case in.Sequence == nil:
		return errors.New("no sequence")
	case len(in.Tokens) == 0:
		return ErrNoTokens
	case len(in.Targets) > len(in.Tokens):
		return fmt.Errorf("%d targets for %d tokens", len(in.Targets), len(in.Tokens))
	case in.TargetTop < 0 || in.TargetTop > MaxTopLogprobs:
		return fmt.Errorf("top %d of targets is not between 0 and %d", in.TargetTop, MaxTopLogprobs)
	case in.Logits != nil && len(in.Logits) != v.Len():
		return fmt.Errorf("room for %d logits, not %d", len(in.Logits), v.Len())
	}
	if in.Hidden != nil && len(in.Hidden) != info.EmbeddingLength {
		return fmt.Errorf("room for a hidden state of %d values, not %d", len(in.Hidden), info.EmbeddingLength)
	}
	for _, list := range [2][]Token{in.Tokens, in.Targets} {
		for _, t := range list {
			if !v.Valid(t) {
				return fmt.Errorf("%w: %d of %d", ErrBadToken, t, v.Len())
			}
		}
	}
	if n := len(in.Sequence.Tokens()) + len(in.Tokens); n > info.ContextSize {
		return fmt.Errorf("%w: %d tokens, at most %d", ErrContextFull, n, info.ContextSize)
	}
	if in.Sampling != nil {
		return in.Sampling.Validate(v.Len())
	}
	return nil
}
