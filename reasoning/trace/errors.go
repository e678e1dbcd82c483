package trace

import (
	"errors"

	"runner/hint"
)

// Error says why a blob was refused. It has no detail. Compare it with errors.Is.
type Error struct {
	// Code names the error for programs, and Reason is its text without the words "sealed trace".
	Code, Reason string
	hint.Advice
}

func (e *Error) Error() string { return "sealed trace: " + e.Reason }

// Why a blob was refused.
var (
	ErrTampered error = &Error{
		Code:   "trace_tampered",
		Reason: "it was changed after it was sealed",
		Advice: "fetch it again from where it was stored; a changed trace cannot be read",
	}
	ErrTruncated error = &Error{
		Code:   "trace_truncated",
		Reason: "its end is missing",
		Advice: "the file was cut off, or the program that wrote it ended early; the part before is authentic",
	}
	ErrNotRecipient error = &Error{
		Code:   "trace_not_recipient",
		Reason: "it was sealed to other keys",
		Advice: "use the keyring of one of its recipients",
	}
	ErrVersion error = &Error{
		Code:   "trace_version",
		Reason: "its version is unknown",
		Advice: "use a newer version of this program",
	}
)

// Mistakes of the caller. No blob can cause them.
var (
	// ErrRecipients means that there are no recipients, more than MaxRecipients, or one of them twice.
	ErrRecipients = errors.New("sealed trace: 1 to 32 different recipients are needed")
	// ErrRecord means that a record is empty, contains a line feed or is longer than MaxRecord.
	ErrRecord = errors.New("sealed trace: a record is one line of at most 16 MiB")
)
