package store

import "errors"

// Error is why a store did not do what it was asked for.
type Error struct{ code, reason, hint string }

func (e *Error) Error() string { return "traces: " + e.reason }

// Code names the error for programs.
func (e *Error) Code() string { return e.code }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.hint }

// The errors, compared with errors.Is.
var (
	ErrNotFound error = &Error{"trace_not_found", "there is no trace with this id", "see runner trace list"}
	ErrErased   error = &Error{"trace_erased", "it was erased", "only its entry in the chain is left"}
	ErrOpen     error = &Error{"trace_open", "it is still being written", "wait for its end"}
	ErrTooLarge error = &Error{"trace_too_large", "the trace is longer than a trace may be", "raise the limit, or ask for less"}
	ErrFull     error = &Error{"trace_store_full", "the store has reached its size limit", "erase traces, or raise the limit"}
	ErrInLog    error = &Error{"trace_in_log", "it was erased, but another program still holds the log that has its bytes", "erase again when the other program has ended"}
	ErrNoSigner error = &Error{"trace_no_signing_key", "sign.key is missing, and the chain cannot go on without it", "restore it from a backup, or begin a new folder"}
	ErrNotHead  error = &Error{"trace_not_head", "it is not a head as runner trace verify prints it", "give the text that begins with rthead1-"}
)

// errClosed says that a Writer was closed or abandoned.
var errClosed = errors.New("traces: the writer is closed")
