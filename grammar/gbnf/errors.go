package gbnf

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error says why a grammar was refused, and where.
type Error struct {
	// Line and Column count from 1, columns in characters. Both are 0 when the grammar as a whole is meant.
	Line, Column int
	// Problem is one line.
	Problem string
	// Advice is one line that tells the user what to do; empty where there is none.
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

// position converts a byte offset. Lines end with LF, CR or CR LF, as in the notation.
func position(text string, offset int) (line, column int) {
	before := text[:offset]
	start := strings.LastIndexAny(before, "\r\n") + 1
	line = 1 + strings.Count(before, "\n") + strings.Count(before, "\r") - strings.Count(before, "\r\n")
	return line, 1 + utf8.RuneCountInString(before[start:])
}

// quoted is a name as it stands in an error.
func quoted(name string) string { return fmt.Sprintf("%q", clipped(name)) }

// clipped cuts a long name.
func clipped(name string) string {
	const most = 60
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}
