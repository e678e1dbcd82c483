package jinja

import "fmt"

// Kind says what went wrong.
type Kind uint8

// The kinds of errors.
const (
	// KindSyntax: the template is not valid, or uses a part of the language that is refused.
	KindSyntax Kind = iota + 1
	// KindRuntime: an operation failed, as a Python exception would (wrong types, division by zero and so on).
	KindRuntime
	// KindUndefined: an undefined value was used where one is needed.
	KindUndefined
	// KindSecurity: the sandbox refuses the operation, for instance to change a list.
	KindSecurity
	// KindRaised: the template called raise_exception.
	KindRaised
	// KindLimit: a bound in Limits was met.
	KindLimit
	// KindCanceled: the context was done; the error wraps its cause.
	KindCanceled
	// KindInternal: the engine is at fault.
	KindInternal
)

func (k Kind) String() string {
	switch k {
	case KindSyntax:
		return "syntax error"
	case KindRuntime:
		return "runtime error"
	case KindUndefined:
		return "undefined value"
	case KindSecurity:
		return "refused by the sandbox"
	case KindRaised:
		return "raised by the template"
	case KindLimit:
		return "limit"
	case KindCanceled:
		return "canceled"
	default:
		return "internal fault"
	}
}

// Error is the failure to parse or render a template.
type Error struct {
	Kind Kind
	// Line is the line of the template, from 1.
	Line int
	// Message says what went wrong, in jinja2's and Python's words where they have some. Outside text in it is replaced
	// by an ellipsis, so it may be logged.
	Message string
	// Raised is, for KindRaised, the template's whole message with outside text, for whoever wrote that text.
	Raised Text

	cause error
}

// Error returns the message with its line and kind, without any outside text.
func (e *Error) Error() string {
	return fmt.Sprintf("chat template line %d: %s (%s)", e.Line, e.Message, e.Kind)
}

// Unwrap returns the context's error for KindCanceled, else nil.
func (e *Error) Unwrap() error { return e.cause }

// fail ends the render with an error at the current line. Evaluation panics with *Error, and Render recovers it:
// there is an error path in almost every operation, and none of them has anything to add on the way up.
func (r *render) fail(k Kind, format string, args ...any) {
	panic(&Error{Kind: k, Line: r.line, Message: fmt.Sprintf(format, args...)})
}

// typeError fails as Python's TypeError, ValueError and their like.
func (r *render) typeError(format string, args ...any) {
	r.fail(KindRuntime, format, args...)
}
