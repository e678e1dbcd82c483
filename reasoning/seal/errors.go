package seal

import "errors"

// Error says why a value was not opened. There are four; compare them with errors.Is. They have no detail, so that
// they are no oracle.
type Error struct{ code, reason, hint string }

func (e *Error) Error() string { return "sealed value: " + e.reason }

// Code names the error for programs.
func (e *Error) Code() string { return e.code }

// Reason is the error's text without the words "sealed value".
func (e *Error) Reason() string { return e.reason }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.hint }

// Why a value was not opened.
var (
	ErrForeign error = &Error{
		code:   "sealed_foreign",
		reason: "it belongs to another key, conversation, message or model",
		hint: "send each value back only with the message that it came with, in the same conversation, with the same API " +
			"key and model",
	}
	ErrRepeated error = &Error{
		code:   "sealed_repeated",
		reason: "it was used earlier in the conversation, or it follows a value that was sealed later",
		hint:   "send each value back once, and the messages in their original order",
	}
	ErrTampered error = &Error{
		code:   "sealed_tampered",
		reason: "it was changed or cut",
		hint:   "send values back whole and unchanged, or leave them out",
	}
	ErrUnknownKey error = &Error{
		code:   "sealed_unknown_key",
		reason: "this server does not have its sealing key, or no longer has it",
		hint:   "leave out values that another server made or that are older than this server's keys",
	}
)

// Mistakes of the caller. No value can cause them.
var (
	// ErrScope means that the scope has no principal or no model, so a value would be bound to too little.
	ErrScope = errors.New("sealed value: the scope lacks principal or model")
	// ErrTooLong means that a text is longer than MaxText.
	ErrTooLong = errors.New("sealed value: the text is longer than 4 MiB")
	// ErrNoKey means that the keyring holds no key to seal with. Only the zero Keyring holds none.
	ErrNoKey = errors.New("sealed value: the keyring holds no key")
)
