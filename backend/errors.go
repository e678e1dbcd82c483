package backend

import (
	"errors"
	"fmt"
)

// Errors that any backend may return, wrapped.
var (
	// ErrContextFull: the tokens would make a sequence longer than Info().ContextSize.
	ErrContextFull = errors.New("context is full")
	// ErrCacheFull: the cache that all sequences share has no room; close or shorten a sequence and try again.
	ErrCacheFull = errors.New("cache is full")
	// ErrNoSequence: all Info().Sequences are in use.
	ErrNoSequence = errors.New("no free sequence")
	// ErrBatchTooLarge: the inputs hold more tokens than Info().BatchSize, or more targets than MaxTargets.
	ErrBatchTooLarge = errors.New("step is larger than the model takes")
	// ErrNoTokens: an input feeds no token.
	ErrNoTokens = errors.New("input has no tokens")
	// ErrBadToken: a token id outside the vocabulary.
	ErrBadToken = errors.New("token is outside the vocabulary")
	// ErrRepeated: a sequence appears twice in one step.
	ErrRepeated = errors.New("sequence appears twice in a step")
	// ErrForeign: the sequence belongs to another model.
	ErrForeign = errors.New("sequence belongs to another model")
	// ErrNothingAllowed: the constraint allows no token at all.
	ErrNothingAllowed = errors.New("constraint allows no token")
	// ErrClosed: the model or sequence is closed.
	ErrClosed = errors.New("closed")
	// ErrBadLogits: a logit is not a number or plus infinity, or all are minus infinity. The model or its file is broken.
	ErrBadLogits = errors.New("logits are not usable")
	// ErrBroken: the engine failed and the model has to be loaded again.
	ErrBroken = errors.New("engine failed")
)

// InputError is an error that concerns one input of a step. No input of that step was processed.
type InputError struct {
	// Index is the input's place in Step's inputs.
	Index int
	Err   error
}

func (e *InputError) Error() string { return fmt.Sprintf("input %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// LoadFailure says why a model could not be opened.
type LoadFailure int

// The reasons why a model does not load.
const (
	// LoadFailed: the engine refused the model for a reason of its own.
	LoadFailed LoadFailure = iota
	// LoadMissing: no file is there, or it cannot be read.
	LoadMissing
	// LoadNotModel: the file is not of a format that this backend reads.
	LoadNotModel
	// LoadTruncated: the file ends before its contents do.
	LoadTruncated
	// LoadCorrupt: the file's contents contradict one another.
	LoadCorrupt
	// LoadUnknownArchitecture: the model is of a kind that this engine does not run.
	LoadUnknownArchitecture
	// LoadTooBig: the weights or the cache do not fit in memory.
	LoadTooBig
	// LoadCanceled: Config.Progress asked to stop.
	LoadCanceled
)

// LoadError says that a model could not be opened, why, and what to do.
type LoadError struct {
	Path   string
	Reason LoadFailure
	// Detail is one line without the path, for instance "ends after 1,024 of 12,345 bytes".
	Detail string
	// Advice is one line that tells the user what to do; empty where there is none.
	Advice string
	Err    error
}

func (e *LoadError) Error() string {
	s := "cannot load " + e.Path
	if e.Detail != "" {
		s += ": " + e.Detail
	} else if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *LoadError) Hint() string { return e.Advice }
