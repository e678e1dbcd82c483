package regex

import (
	"errors"
	"fmt"
)

// Kinds of errors, for errors.Is.
var (
	// ErrSyntax marks an invalid pattern, and one that the two dialects would read differently.
	ErrSyntax = errors.New("not a pattern")
	// ErrUnsupported marks a construct that is not supported.
	ErrUnsupported = errors.New("not supported in a pattern")
	// ErrTooLarge marks a pattern beyond a limit.
	ErrTooLarge = errors.New("the pattern is too large")
)

// Error says why and where a pattern was refused.
type Error struct {
	// Kind is ErrSyntax, ErrUnsupported or ErrTooLarge.
	Kind error
	// Offset is the byte offset in the pattern.
	Offset int
	// Problem is one line.
	Problem string
	advice  string
}

func (e *Error) Error() string { return fmt.Sprintf("pattern, offset %d: %s", e.Offset, e.Problem) }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Hint tells the user what to do.
func (e *Error) Hint() string {
	switch {
	case e.advice != "":
		return e.advice
	case e.Kind == ErrUnsupported:
		return "write the pattern without it"
	case e.Kind == ErrTooLarge:
		return "make the pattern smaller"
	}
	return "correct the pattern; it is read as ECMA-262 with the u flag"
}
