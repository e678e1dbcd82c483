package trace

import "errors"

// Error says why a blob was refused. It has no detail. Compare it with errors.Is.
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
		reason: "it was changed after it was sealed",
		hint:   "fetch it again from where it was stored; a changed trace cannot be read",
	}
	ErrTruncated error = &Error{
		code:   "trace_truncated",
		reason: "its end is missing",
		hint:   "the file was cut off, or the program that wrote it ended early; the part before is authentic",
	}
	ErrNotRecipient error = &Error{
		code:   "trace_not_recipient",
		reason: "it was sealed to other keys",
		hint:   "use the keyring of one of its recipients",
	}
	ErrVersion error = &Error{
		code:   "trace_version",
		reason: "its version is unknown",
		hint:   "use a newer version of this program",
	}
)

// Mistakes of the caller. No blob can cause them.
var (
	// ErrRecipients means that there are no recipients, more than MaxRecipients, or one of them twice.
	ErrRecipients = errors.New("sealed trace: 1 to 32 different recipients are needed")
	// ErrRecord means that a record is empty, contains a line feed or is longer than MaxRecord.
	ErrRecord = errors.New("sealed trace: a record is one line of at most 16 MiB")
	// ErrClosed means that the Writer was closed or abandoned.
	ErrClosed = errors.New("sealed trace: the writer is closed")
)
