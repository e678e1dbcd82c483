package jsonschema

import (
	"errors"
	"fmt"
)

// The classes of [Error]. Use errors.Is to check for them.
var (
	// ErrInvalid says that the text is not JSON or not a schema.
	ErrInvalid = errors.New("invalid schema")
	// ErrUnsupported says that a keyword cannot be enforced exactly.
	ErrUnsupported = errors.New("unsupported keyword")
	// ErrUnsatisfiable says that no instance is valid.
	ErrUnsatisfiable = errors.New("unsatisfiable schema")
	// ErrLimit says that the schema is larger, or needs more work, than the options allow.
	ErrLimit = errors.New("schema over a limit")
)

// Error says why a schema is refused. It contains text of the schema, never of an instance.
type Error struct {
	// Class is one of ErrInvalid, ErrUnsupported, ErrUnsatisfiable and ErrLimit.
	Class error
	// Keyword is the keyword at fault, or empty if no single keyword is.
	Keyword string
	// Pointer is the JSON pointer (RFC 6901) of the schema with the keyword. It is empty for the whole document.
	Pointer string
	// Reason is the reason in words.
	Reason string
}

func (e *Error) Error() string {
	text := e.Class.Error()
	switch {
	case e.Keyword == "":
	case e.Class == ErrUnsatisfiable:
		text += ", keyword " + e.Keyword
	default:
		text += " " + e.Keyword
	}
	at := e.Pointer
	if at == "" {
		at = "the root"
	}
	text += " at " + at
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns the class.
func (e *Error) Unwrap() error { return e.Class }

// Hint tells the user what to do.
func (e *Error) Hint() string {
	switch e.Class {
	case ErrUnsupported:
		return fmt.Sprintf("remove %q or write the schema without it; answers are only generated for schemas that can "+
			"be kept exactly", e.Keyword)
	case ErrUnsatisfiable:
		return "look for keywords that contradict one another, such as a required property whose schema is false"
	case ErrLimit:
		return "make the schema smaller: fewer alternatives that overlap, fewer subschemas"
	}
	return "check the schema against the JSON Schema specification (draft 2020-12)"
}

// bailout carries an error out of a nested compilation.
type bailout struct{ err error }

// fail aborts the compilation.
func fail(err error) { panic(bailout{err}) }
