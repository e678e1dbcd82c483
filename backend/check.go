package backend

import (
	"errors"
	"fmt"
)

// CheckInputs returns the first error in a step that is an error for every backend: too few outputs, more tokens
// than the batch size, a missing sequence, no tokens, tokens outside the vocabulary, a sequence that would outgrow
// the context, sampling values out of range, too many or unknown targets, drafts that cannot be checked, or a buffer
// of the wrong length. Backends call it, after CheckSequences, before they change anything. Only errors are allocated.
func CheckInputs(info *Info, can Capabilities, v *Vocab, inputs []Input, outputs []Output) error {
	if len(outputs) < len(inputs) {
		return fmt.Errorf("step has %d inputs but room for %d outputs", len(inputs), len(outputs))
	}
	total, rows := 0, 0
	for i := range inputs {
		in := &inputs[i]
		total += len(in.Tokens) + len(in.Drafts)
		rows += len(in.Targets) + len(in.Drafts)
		err := checkInput(info, v, in)
		if err == nil && len(in.Targets) > 0 && !can.Targets {
			err = errors.New("this model scores no targets")
		}
		if err == nil && len(in.Drafts) > 0 {
			err = checkDrafts(can, v, in)
		}
		if err != nil {
			return &InputError{Index: i, Err: err}
		}
	}
	if total > info.BatchSize {
		return fmt.Errorf("%w: %d tokens, at most %d", ErrBatchTooLarge, total, info.BatchSize)
	}
	if rows > MaxTargets {
		return fmt.Errorf("%w: %d targets and drafts, at most %d", ErrBatchTooLarge, rows, MaxTargets)
	}
	return nil
}

// Member is what a backend knows of each of its sequences, which embed it.
type Member struct {
	// Of is the model that owns the sequence.
	Of Model
	// Closed says that the sequence is closed.
	Closed bool
	step   uint64 // the last step in which it appeared
}

func (m *Member) member() *Member { return m }

// CheckSequences returns the error of the first sequence in a step of a model that is foreign, closed or there twice.
// step is the step's number, from 1. Sequences that are missing are left to CheckInputs.
func CheckSequences(m Model, inputs []Input, step uint64) error {
	for i := range inputs {
		if inputs[i].Sequence == nil {
			continue
		}
		var err error
		switch s, ok := inputs[i].Sequence.(interface{ member() *Member }); {
		case !ok || s.member().Of != m:
			err = ErrForeign
		case s.member().Closed:
			err = ErrClosed
		case s.member().step == step:
			err = ErrRepeated
		default:
			s.member().step = step
			continue
		}
		return &InputError{Index: i, Err: err}
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
		return fmt.Errorf("buffer for %d logits, want %d", len(in.Logits), v.Len())
	}
	if in.Hidden != nil && len(in.Hidden) != info.EmbeddingLength {
		return fmt.Errorf("buffer for a hidden state of %d values, want %d", len(in.Hidden), info.EmbeddingLength)
	}
	for _, list := range [2][]Token{in.Tokens, in.Targets} {
		for _, t := range list {
			if !v.Valid(t) {
				return fmt.Errorf("%w: %d of %d", ErrBadToken, t, v.Len())
			}
		}
	}
	if n := len(in.Sequence.Tokens()) + len(in.Tokens) + len(in.Drafts); n > info.ContextSize {
		return fmt.Errorf("%w: %d tokens, at most %d", ErrContextFull, n, info.ContextSize)
	}
	if in.Sampling != nil {
		return in.Sampling.Validate(v.Len())
	}
	return nil
}

// checkDrafts returns the error of an input with drafts.
func checkDrafts(can Capabilities, v *Vocab, in *Input) error {
	switch {
	case !can.Drafts:
		return errors.New("this model takes no drafts")
	case in.Sampling == nil:
		return errors.New("drafts without sampling")
	case in.Logits != nil || in.Hidden != nil:
		return errors.New("drafts together with raw logits or hidden states")
	}
	for _, d := range in.Drafts {
		if !v.Valid(d.Token) {
			return fmt.Errorf("%w: the draft %d of %d", ErrBadToken, d.Token, v.Len())
		}
	}
	return nil
}
