package generation

import (
	"errors"
	"fmt"

	"runner/backend"
)

// Errors that end a run. They may be wrapped.
var (
	// ErrClosed: the runner was closed, because the program ends or unloads the model. It is not [backend.ErrClosed],
	// with which an engine refuses a sequence that was closed before.
	ErrClosed = errors.New("runner is closed")
	// ErrQueueFull: Config.Queue requests are waiting already; try again later.
	ErrQueueFull = errors.New("too many requests are waiting")
	// ErrChanged: the model's files are not the ones that were loaded.
	ErrChanged = errors.New("the model's files have changed since they were loaded")
	// ErrBadLogits: the model's output is not a number. After several such runs in a row the error also wraps ErrBroken.
	ErrBadLogits = backend.ErrBadLogits
	// ErrCrashed: the engine crashed, more than once, while it worked on the request. It may be tried again.
	ErrCrashed = backend.ErrCrashed
	// ErrUnavailable: the engine on another machine cannot be reached, is busy or fails. The request may be tried again.
	ErrUnavailable = backend.ErrUnavailable
	// ErrOtherModel: the engine on another machine has come to run another model. It comes with ErrUnavailable.
	ErrOtherModel = backend.ErrOtherModel
	// ErrRefused: the engine on another machine does not take the request.
	ErrRefused = backend.ErrRefused
	// ErrNoEmbeddings: the model cannot embed.
	ErrNoEmbeddings = errors.New("this model does not give embeddings")
)

// UnavailableError is an [ErrUnavailable] that says when to try again.
type UnavailableError = backend.UnavailableError

// RequestError says which field of a request is wrong.
type RequestError struct {
	// Field is the field's name in Request, for instance "Budget".
	Field string
	// Setting is the name of the wrong field of Sampling, if Field is "Sampling" and the error is about one of them.
	Setting string
	// Within is the place in the field, for instance "[3].instructions[0]"; empty for the whole field.
	Within string
	Err    error
	// Advice is one line that says what to do. It may be empty.
	Advice string
}

// BadField returns an error about a field of a request. advice says what to do; it may be empty.
func BadField(field, advice, format string, args ...any) *RequestError {
	return &RequestError{Field: field, Err: fmt.Errorf(format, args...), Advice: advice}
}

func (e *RequestError) Error() string { return fmt.Sprintf("%s%s: %v", e.Field, e.Within, e.Err) }

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// Path is Field, or for a setting both names, for instance "Sampling.TypicalP".
func (e *RequestError) Path() string {
	if e.Setting == "" {
		return e.Field
	}
	return e.Field + "." + e.Setting
}

// Hint tells the user what to do next.
func (e *RequestError) Hint() string { return e.Advice }

// PromptTooLongError says that a prompt or a text does not fit into the context. Tokens is 0 if the text was too long
// to tokenize: it has more than Bytes bytes, and no context of this size can hold that.
type PromptTooLongError struct {
	Tokens, Bytes, Context int
	// Field is what is too long: Messages, Prompt for a raw prompt or Tokens for a text to embed. Empty means Messages.
	Field string
}

// The fields that errors about prompts and texts to embed name.
const (
	MessagesField = "Messages"
	PromptField   = "Prompt"
	TokensField   = "Tokens"
)

func (e *PromptTooLongError) Error() string {
	if e.Tokens == 0 {
		return fmt.Sprintf("the prompt has more than %d bytes and the context holds %d tokens", e.Bytes, e.Context)
	}
	return fmt.Sprintf("the prompt has %d tokens and the context holds %d", e.Tokens, e.Context)
}

// Hint tells the user what to do next.
func (e *PromptTooLongError) Hint() string {
	return "shorten the prompt or the conversation, or load the model with a larger context"
}
