package jinja

import "fmt"

// Kind is the kind of an error.
type Kind uint8

// The kinds of errors.
const (
	// KindSyntax: the template is invalid, or uses a part of the language that this package refuses.
	KindSyntax Kind = iota + 1
	// KindRuntime: an operation failed where Python raises an exception, such as wrong types or a division by zero.
	KindRuntime
	// KindUndefined: the template used an undefined value where it needs a value.
	KindUndefined
	// KindSecurity: the sandbox refused the operation, such as changing a list.
	KindSecurity
	// KindRaised: the template called raise_exception.
	KindRaised
	// KindLimit: the render exceeded a limit of Limits.
	KindLimit
	// KindCanceled: the context was done. The error wraps the context's error.
	KindCanceled
	// KindInternal: a fault of this package.
	KindInternal
)

func (k Kind) String() string {
	return [...]string{
		KindSyntax: "syntax error", KindRuntime: "runtime error", KindUndefined: "undefined value",
		KindSecurity: "refused by the sandbox", KindRaised: "raised by the template", KindLimit: "limit",
		KindCanceled: "canceled", KindInternal: "internal fault",
	}[k]
}

// Error says why a template cannot be parsed or rendered.
type Error struct {
	Kind Kind
	// Line is the line of the template, from 1.
	Line int
	// Message says what went wrong, in the words of jinja2 or Python where they have some. An ellipsis replaces outside
	// text, so the message may be logged.
	Message string
	// Raised is the template's whole message for KindRaised, outside text included. Show it only to the author of that
	// text.
	Raised Text

	cause error
}

// Error returns the message with its line and kind. It has no outside text.
func (e *Error) Error() string {
	return fmt.Sprintf("chat template line %d: %s (%s)", e.Line, e.Message, e.Kind)
}

// Unwrap returns the context's error for KindCanceled, else nil.
func (e *Error) Unwrap() error { return e.cause }

// fail ends the render with an error at the current line. It panics with an *Error, which Render recovers: almost every
// operation can fail, and no caller has anything to add to the error.
func (r *render) fail(k Kind, format string, args ...any) {
	panic(&Error{Kind: k, Line: r.line, Message: fmt.Sprintf(format, args...)})
}

// typeError fails where Python raises a TypeError, a ValueError or the like.
func (r *render) typeError(format string, args ...any) {
	r.fail(KindRuntime, format, args...)
}
