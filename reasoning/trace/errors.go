package trace

import "errors"

// Error is why a blob was refused. It has no detail, and is compared with errors.Is.
type Error struct{ code, reason, hint string }

func (e *Error) Error() string { return "sealed trace: " + e.reason }

// Code names the error for programs.
func (e *Error) Code() string { return e.code }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.hint }

// Why a blob was refused.
var (
	ErrTampered error = &Error{
		code:   "trace_tampered",
		reason: "it is not as it was sealed",
		hint:   "take it from where it was stored once more; what is altered cannot be read",
	}
	ErrTruncated error = &Error{
		code:   "trace_truncated",
		reason: "its end is missing",
		hint:   "it was cut off, or the program that wrote it was; what came before is authentic",
	}
	ErrNotRecipient error = &Error{
		code:   "trace_not_recipient",
		reason: "it was sealed to other keys",
		hint:   "use the keyring of one of its recipients",
	}
	ErrVersion error = &Error{
		code:   "trace_version",
		reason: "its version is not known here",
		hint:   "use a newer version of this program",
	}
)

// Mistakes of the caller, which no blob can cause.
var (
	// ErrRecipients says that there are no recipients, more than MaxRecipients, or two alike.
	ErrRecipients = errors.New("sealed trace: 1 to 32 different recipients are needed")
	// ErrRecord says that a record is empty, holds a line feed or is longer than MaxRecord.
	ErrRecord = errors.New("sealed trace: a record is one line of at most 16 MiB")
	// ErrClosed says that the Writer was closed or abandoned.
	ErrClosed = errors.New("sealed trace: the writer is closed")
)
