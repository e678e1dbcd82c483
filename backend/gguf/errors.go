package gguf

import (
	"strconv"

	"runner/hint"
)

// Reasons why a file is refused, each with a hint. Errors from [Open] and [Read] wrap one of these in a [*FormatError].
// If the file cannot be read at all, they wrap the error of the operating system.
var (
	// ErrNotGGUF: the file does not start as a GGUF file does.
	ErrNotGGUF = hint.New("not a GGUF file", "name a .gguf file")
	// ErrVersion: the version or byte order is not supported.
	ErrVersion = hint.New("unsupported GGUF version", "convert the model to little-endian GGUF version 3")
	// ErrTruncated: the file is shorter than its header says.
	ErrTruncated = hint.New("GGUF file is truncated", "download the file again; the transfer did not finish")
	// ErrCorrupt: parts of the file contradict each other or exceed the limits.
	ErrCorrupt = hint.New("GGUF file is corrupt", "download the file again and compare its checksum")
)

// FormatError says what is wrong with a file.
type FormatError struct {
	// Kind is one of the errors above.
	Kind error
	// Detail is one line, for instance "ends after 1,024 of 12,345 bytes". Names from the file are quoted and
	// shortened.
	Detail string
}

func (e *FormatError) Error() string { return e.Kind.Error() + ": " + e.Detail }

// Unwrap returns Kind.
func (e *FormatError) Unwrap() error { return e.Kind }

// quote makes a name from the file safe for an error message.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}

// group formats n with a comma between every three digits.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
