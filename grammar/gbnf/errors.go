package gbnf

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

// errorAt makes an error about the text at a byte offset.
func (p *parser) errorAt(offset int, advice, format string, args ...any) *Error {
	line, column := position(p.text, offset)
	return &Error{Line: line, Column: column, Problem: fmt.Sprintf(format, args...), Advice: advice}
}

// position converts a byte offset. Lines end with LF, CR or CR LF, as in GBNF.
func position(text string, offset int) (line, column int) {
	before := text[:offset]
	start := strings.LastIndexAny(before, "\r\n") + 1
	line = 1 + strings.Count(before, "\n") + strings.Count(before, "\r") - strings.Count(before, "\r\n")
	return line, 1 + utf8.RuneCountInString(before[start:])
}

// quoted returns a name as errors show it.
func quoted(name string) string { return fmt.Sprintf("%q", clipped(name)) }

// clipped shortens a long name.
func clipped(name string) string {
	const most = 60
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}
