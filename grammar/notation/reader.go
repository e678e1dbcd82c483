// Package notation reads what the notations of grammars have in common: rules that consist of alternatives, sequences,
// repetitions and groups, with comments, names, literals and counts. Packages gbnf and lark add what is their own.
//
// A [Reader] reads by recursive descent. A fault ends it: [Reader.Fail] panics with an [*Error], and [Read] returns it.
package notation

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of grammars. A grammar beyond a limit is refused with an [*Error].
const (
	// MaxRules is the maximum number of rules.
	MaxRules = 20_000
	// MaxSymbols is the maximum number of literals, classes, references, groups and operators in a grammar.
	MaxSymbols = 200_000
	// MaxNesting is the maximum depth of nested groups.
	MaxNesting = 200
)

// Syntax is what notations differ in.
type Syntax struct {
	// MaxText is the maximum length of a grammar, in bytes.
	MaxText int
	// Define is the mark between the name of a rule and its body.
	Define string
	// Comments are the marks that begin a comment. It ends with its line.
	Comments []string
	// BarFirst says that a rule goes on in a line that begins with |. Otherwise it goes on after a line that ends with |.
	BarFirst bool
	// IsName reports whether names have a byte.
	IsName func(c byte) bool
	// Item reads an item of a sequence. It returns nil if none begins here.
	Item func() *Node
	// Bounds reads a repetition other than * + and ?. It reports false if none begins here.
	Bounds func() (least, most int, ok bool)
	// Alternative, if not nil, reads what may follow an alternative.
	Alternative func()
}

// Reader reads one grammar.
type Reader struct {
	Syntax
	Text string
	Pos  int
	// Rules are the rules in the order of their first mention. Nodes are the nodes of all rules, kids first.
	Rules []*Rule
	Nodes []*Node

	byName map[string]*Rule
	// depth is the number of groups around Pos. Inside a group, line breaks are blanks.
	depth int
	// more counts symbols that are no nodes.
	more int
}

// Read calls file to read all of a text. It returns the error that ended it.
func (r *Reader) Read(text string, file func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			err = e
		default:
			panic(e)
		}
	}()
	r.Text, r.byName = text, map[string]*Rule{}
	if len(text) > r.MaxText {
		return &Error{Problem: "the text is too long", Advice: fmt.Sprintf("a grammar may have %d KiB", r.MaxText>>10)}
	}
	for i, c := range text {
		if c == 0 {
			r.Fail(i, "", "the text contains a NUL character")
		}
		if c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			r.Fail(i, "save the grammar as UTF-8", "the text is not valid UTF-8")
		}
	}
	file()
	return nil
}

// Peek returns the byte at Pos, or 0 at the end.
func (r *Reader) Peek() byte {
	if r.Pos < len(r.Text) {
		return r.Text[r.Pos]
	}
	return 0
}

// AtEnd reports whether Pos is at the end of a line or of the text.
func (r *Reader) AtEnd() bool { return strings.IndexByte("\x00\r\n", r.Peek()) >= 0 }

// Has reports whether text comes next.
func (r *Reader) Has(text string) bool { return strings.HasPrefix(r.Text[r.Pos:], text) }

// Takes skips a mark and the blanks after it, and reports whether it was there.
func (r *Reader) Takes(mark string) bool {
	if !r.Has(mark) {
		return false
	}
	r.Skip(len(mark))
	return true
}

// Need is Takes for a mark that must be there.
func (r *Reader) Need(mark, after string) {
	if !r.Takes(mark) {
		r.Fail(r.Pos, "", "expected %s after %s, found %s", mark, after, r.Found())
	}
}

// Found describes the text at Pos, for errors.
func (r *Reader) Found() string {
	if r.Pos >= len(r.Text) {
		return "the end of the text"
	}
	if r.AtEnd() {
		return "the end of the line"
	}
	c, _ := utf8.DecodeRuneInString(r.Text[r.Pos:])
	return Quoted(string(c))
}

// Blanks skips spaces, tabs and comments, and with lines also line breaks.
func (r *Reader) Blanks(lines bool) {
	for r.Pos < len(r.Text) {
		switch c := r.Text[r.Pos]; {
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			r.Pos++
		case r.comment():
			if n := strings.IndexAny(r.Text[r.Pos:], "\r\n"); n >= 0 {
				r.Pos += n
			} else {
				r.Pos = len(r.Text)
			}
		default:
			return
		}
	}
}

func (r *Reader) comment() bool {
	for _, mark := range r.Comments {
		if r.Has(mark) {
			return true
		}
	}
	return false
}

// Skip skips n bytes and the blanks after them.
func (r *Reader) Skip(n int) {
	r.Pos += n
	r.Blanks(r.depth > 0)
}

// Word reads the bytes that satisfy is. It may be empty.
func (r *Reader) Word(is func(c byte) bool) string {
	start := r.Pos
	for r.Pos < len(r.Text) && is(r.Text[r.Pos]) {
		r.Pos++
	}
	return r.Text[start:r.Pos]
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsAlphanumeric reports whether c is an ASCII letter or digit.
func IsAlphanumeric(c byte) bool { return IsDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// Count reads the count of a repetition. advice says how repetitions are written.
func (r *Reader) Count(most int, advice string) int {
	start, n := r.Pos, 0
	for _, c := range []byte(r.Word(IsDigit)) {
		if n = 10*n + int(c-'0'); n > most {
			r.Fail(start, "", "the repetition exceeds %d", most)
		}
	}
	if r.Pos == start {
		r.Fail(start, advice, "expected a number, found %s", r.Found())
	}
	r.Skip(0)
	return n
}

// Range checks the bounds of a repetition that stands at start.
func (r *Reader) Range(start, least, most int) {
	if most < least {
		r.Fail(start, "", "the repetition's upper bound %d is below its lower bound %d", most, least)
	}
}

// Literal reads a literal between double quotes, without the blanks after it.
func (r *Reader) Literal(escapes Escapes) string {
	start := r.Pos
	r.Pos++
	var b []byte
	for r.Peek() != '"' {
		if r.Pos == len(r.Text) || r.BarFirst && r.AtEnd() {
			r.Fail(start, "", "the literal is not closed")
		}
		at := r.Pos
		c := r.Char(escapes)
		if !utf8.ValidRune(c) {
			r.Fail(at, "write a character beyond U+FFFF as one \\U escape of eight digits",
				"U+%04X is half of a pair and no character of its own", c)
		}
		b = utf8.AppendRune(b, c)
	}
	r.Pos++
	return string(b)
}

// Escapes holds the characters that stand after a backslash, each followed by the character that it means. All
// notations have \xHH, \uHHHH and \UHHHHHHHH, too.
type Escapes string

// Char reads a character or an escape for one.
func (r *Reader) Char(escapes Escapes) rune {
	if r.Peek() != '\\' {
		c, size := utf8.DecodeRuneInString(r.Text[r.Pos:])
		r.Pos += size
		return c
	}
	start := r.Pos
	r.Pos++
	kind := r.Peek()
	r.Pos++
	for i := 0; i < len(escapes); i += 2 {
		if escapes[i] == kind {
			return rune(escapes[i+1])
		}
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
	if digits == 0 {
		var known strings.Builder
		for i := 0; i < len(escapes); i += 2 {
			known.WriteString(`\` + string(escapes[i]) + " ")
		}
		r.Fail(start, "there are "+known.String()+`\xHH \uHHHH and \UHHHHHHHH`, "unknown escape")
	}
	value := uint32(0)
	for range digits {
		d := strings.IndexByte("0123456789abcdef", r.Peek()|0x20)
		if d < 0 {
			r.Fail(start, "", "the escape needs %d hexadecimal digits", digits)
		}
		value = value<<4 | uint32(d)
		r.Pos++
	}
	if value > utf8.MaxRune {
		r.Fail(start, "", "U+%X is not a code point", value)
	}
	return rune(value)
}
