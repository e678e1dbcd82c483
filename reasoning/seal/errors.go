package seal

import (
	"errors"

	"runner/hint"
)

// Error says why a value was not opened. There are four; compare them with errors.Is. They have no detail, so that
// they are no oracle.
type Error struct {
	// Code names the error for programs, and Reason is its text without the words "sealed value".
	Code, Reason string
	hint.Advice
}

func (e *Error) Error() string { return "sealed value: " + e.Reason }

// Why a value was not opened.
var (
	ErrForeign error = &Error{
		Code:   "sealed_foreign",
		Reason: "it belongs to another key, conversation, message or model",
		Advice: "send each value back only with the message that it came with, in the same conversation, with the same API " +
			"key and model",
	}
	ErrRepeated error = &Error{
		Code:   "sealed_repeated",
		Reason: "it was used earlier in the conversation, or it follows a value that was sealed later",
		Advice: "send each value back once, and the messages in their original order",
	}
	ErrTampered error = &Error{
		Code:   "sealed_tampered",
		Reason: "it was changed or cut",
		Advice: "send values back whole and unchanged, or leave them out",
	}
	ErrUnknownKey error = &Error{
		Code:   "sealed_unknown_key",
		Reason: "this server does not have its sealing key, or no longer has it",
		Advice: "leave out values that another server made or that are older than this server's keys",
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
