package seal

import "errors"

// Error is why a value was not opened. There are five. They are compared with errors.Is. None has detail, so that
// none is an oracle.
type Error struct{ code, reason, hint string }

func (e *Error) Error() string { return "sealed value: " + e.reason }

// Code names the error for programs.
func (e *Error) Code() string { return e.code }

// Reason is the error without saying what it is about.
func (e *Error) Reason() string { return e.reason }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.hint }

// Why a value was not opened.
var (
	ErrForeign error = &Error{
		code:   "sealed_foreign",
		reason: "it belongs to another key, conversation, message or model",
		hint: "send each value back only on the message that it came with, in its conversation, with the same API key " +
			"and model",
	}
	ErrRepeated error = &Error{
		code:   "sealed_repeated",
		reason: "it stands in the conversation before, or after a value that was sealed later",
		hint:   "send each value back once, and the messages in their order",
	}
	ErrTampered error = &Error{
		code:   "sealed_tampered",
		reason: "it is not as it was handed out",
		hint:   "send values back unchanged and whole, or leave them out",
	}
	ErrOutdated error = &Error{
		code:   "sealed_outdated",
		reason: "an earlier version of the server made it",
		hint:   "leave the value out",
	}
	ErrUnknownKey error = &Error{
		code:   "sealed_unknown_key",
		reason: "its sealing key is not known here, or no longer",
		hint:   "leave values out that another server made or that are older than this server's keys",
	}
)

// Mistakes of the caller, which no value can cause.
var (
	// ErrScope says that the scope has no principal or no model. Sealing within it would bind to less than it seems.
	ErrScope = errors.New("sealed value: the scope lacks principal or model")
	// ErrTooLong says that a text is longer than MaxText.
	ErrTooLong = errors.New("sealed value: the text is longer than 4 MiB")
	// ErrNoKey says that a keyring without keys was to seal. Only the zero Keyring has none.
	ErrNoKey = errors.New("sealed value: the keyring holds no key")
)
