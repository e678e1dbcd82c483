package notation

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error says why and where a grammar was refused.
type Error struct {
	// Line and Column count from 1, columns in characters. Both are 0 if the error concerns the whole grammar.
	Line, Column int
	// Problem is one line.
	Problem string
	// Advice is one line that tells the user what to do. It may be empty.
	Advice string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "grammar: " + e.Problem
	}
	return fmt.Sprintf("grammar: line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// Hint tells the user what to do.
func (e *Error) Hint() string { return e.Advice }

// Fail ends reading with an error about the text at a byte offset.
func (r *Reader) Fail(offset int, advice, format string, args ...any) {
	line, column := r.position(offset)
	panic(&Error{Line: line, Column: column, Problem: fmt.Sprintf(format, args...), Advice: advice})
}

// position converts a byte offset. Lines end with LF, CR or CR LF.
func (r *Reader) position(offset int) (line, column int) {
	before := r.Text[:offset]
	start := strings.LastIndexAny(before, "\r\n") + 1
	line = 1 + strings.Count(before, "\n") + strings.Count(before, "\r") - strings.Count(before, "\r\n")
	return line, 1 + utf8.RuneCountInString(before[start:])
}

// Quoted returns a name as errors show it.
func Quoted(name string) string { return fmt.Sprintf("%q", Clipped(name)) }

// Clipped shortens a long name.
func Clipped(name string) string {
	const most = 60
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}
