// Package hint has errors that tell the user what to do next.
//
// A command prints such an error as "what is wrong; what to do next", and a server logs both. [Of] finds the second
// part, whatever wraps the error, and [Line] has both. [Error] serves where nobody asks for more than its parts. A type
// with fields of its own embeds an [Advice]. An error whose kind says what to do wraps an [Error] as its kind. For
// "did you mean", [Distance] compares two spellings.
package hint

import (
	"errors"
	"io/fs"
)

// Advice is one line that tells the user what to do next. It may be empty.
type Advice string

// Hint returns the advice. It is the method of every error with a hint.
func (a Advice) Hint() string { return string(a) }

// Error is an error with a hint.
type Error struct {
	// Name names the error for programs, for instance "trace_tampered". It may be empty.
	Name string
	// Text is the message, in one line. It includes what the reader should see of Err.
	Text string
	Advice
	// Err is the cause or the kind of the error, for errors.Is and errors.As. It may be nil.
	Err error
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// New returns an *Error with a text and an advice. Like that of errors.New, it is equal to itself alone.
func New(text string, advice Advice) error { return &Error{Text: text, Advice: advice} }

// Replace returns an error like err with other advice.
func Replace(err error, advice Advice) error {
	return &Error{Text: err.Error(), Advice: advice, Err: err}
}

// Of returns the hint of the first error in err's tree that has the method, or "".
func Of(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Line returns an error in one line, with its hint.
func Line(err error) string {
	text := err.Error()
	if h := Of(err); h != "" {
		text += "; " + h
	}
	return text
}

// Reason returns the system's reason of an error without the path, which the caller names.
func Reason(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}
