package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors that any backend may return, wrapped.
var (
	// ErrContextFull: the tokens would make a sequence longer than Info().ContextSize.
	ErrContextFull = errors.New("context is full")
	// ErrCacheFull: the cache that all sequences share has no room; close or shorten a sequence and try again.
	ErrCacheFull = errors.New("cache is full")
	// ErrNoSequence: all Info().Sequences are in use.
	ErrNoSequence = errors.New("no free sequence")
	// ErrBatchTooLarge: the inputs have more tokens than Info().BatchSize, or more targets than MaxTargets.
	ErrBatchTooLarge = errors.New("step is larger than the model takes")
	// ErrNoTokens: an input has no tokens.
	ErrNoTokens = errors.New("input has no tokens")
	// ErrBadToken: a token id is outside the vocabulary.
	ErrBadToken = errors.New("token is outside the vocabulary")
	// ErrRepeated: a sequence appears twice in one step.
	ErrRepeated = errors.New("sequence appears twice in a step")
	// ErrForeign: the sequence belongs to another model.
	ErrForeign = errors.New("sequence belongs to another model")
	// ErrNothingAllowed: the constraint allows no token.
	ErrNothingAllowed = errors.New("constraint allows no token")
	// ErrClosed: the model or sequence is closed.
	ErrClosed = errors.New("closed")
	// ErrBadLogits: a logit is NaN or plus infinity, or all are minus infinity. The model or its file is broken.
	ErrBadLogits = errors.New("logits are not usable")
	// ErrCrashed: the engine's process crashed twice in a step of this input alone. Other inputs are not concerned. With
	// ErrBroken, the process could not be started again.
	ErrCrashed = errors.New("the engine crashed")
	// ErrUnavailable: an engine on another machine cannot be reached, is busy or fails. The same input may succeed later.
	ErrUnavailable = errors.New("the model's engine is not available")
	// ErrOtherModel: an engine on another machine has come to run another model. It comes with ErrUnavailable, because the
	// same input succeeds when the old model is back.
	ErrOtherModel = errors.New("the engine runs another model now")
	// ErrRefused: an engine on another machine does not take the input.
	ErrRefused = errors.New("the model's engine refuses the request")
	// ErrMemory: the engine needs more memory than it may take.
	ErrMemory = errors.New("the engine needs more memory than it may take")
	// ErrBroken: the engine failed and the model must be loaded again.
	ErrBroken = errors.New("engine failed")
)

// memoryMessages are parts of what engines, their libraries and the runtimes of C++, Go and Python say when they get no
// memory, also for a thread.
var memoryMessages = []string{"allocate memory", "out of memory", "bad_alloc", "insufficient memory",
	"failed to allocate", "unable to allocate", "unable to alloc", "memoryerror", "pthread_create failed",
	"failed to create new os thread"}

// IsMemoryMessage reports whether an engine's message says that it got no memory.
func IsMemoryMessage(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(memoryMessages, func(part string) bool { return strings.Contains(text, part) })
}

// UnavailableError is an [ErrUnavailable] that says when to try again.
type UnavailableError struct {
	// After is how long the engine asks to wait; 0 if it does not say.
	After time.Duration
	Err   error
}

func (e *UnavailableError) Error() string { return ErrUnavailable.Error() + ": " + e.Err.Error() }

// Unwrap returns [ErrUnavailable] and the cause.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// InputError is an error about one input of a step. No input of that step was processed.
type InputError struct {
	// Index is the position of the input in Step's inputs.
	Index int
	Err   error
}

func (e *InputError) Error() string { return fmt.Sprintf("input %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// LoadFailure is the reason why a model could not be opened.
type LoadFailure int

// Reasons why a model does not load.
const (
	// LoadFailed: the engine refused the model for a reason of its own.
	LoadFailed LoadFailure = iota
	// LoadMissing: there is no such file, or it cannot be read.
	LoadMissing
	// LoadNotModel: the file has a format that this backend does not read.
	LoadNotModel
	// LoadTruncated: the file is shorter than its header says.
	LoadTruncated
	// LoadCorrupt: parts of the file contradict each other.
	LoadCorrupt
	// LoadUnknownArchitecture: this engine does not run models of this architecture.
	LoadUnknownArchitecture
	// LoadUnknownPretokenizer: the engine does not know the rule that splits texts into words for the model. It can be
	// loaded all the same with Config.AnyPretokenizer.
	LoadUnknownPretokenizer
	// LoadTooBig: the weights or the cache do not fit in memory.
	LoadTooBig
	// LoadCanceled: Config.Progress asked to stop.
	LoadCanceled
)

// LoadError says why a model could not be opened and what to do about it.
type LoadError struct {
	Path   string
	Reason LoadFailure
	// Detail is one line without the path, for instance "ends after 1,024 of 12,345 bytes".
	Detail string
	// Advice is one line that tells the user what to do; empty if there is no advice.
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

// Hint returns Advice.
func (e *LoadError) Hint() string { return e.Advice }
