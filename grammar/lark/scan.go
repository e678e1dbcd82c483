package lark

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	end kind = iota
	newline
	name
	number
	// literal is a string with its flags. Its text is unescaped.
	literal
	// expression is a regular expression between slashes, with its flags.
	expression
	// mark is punctuation, or a directive with its percent sign.
	mark
)

// token is a token of a grammar.
type token struct {
	kind  kind
	text  string
	flags string
	line  int
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case newline:
		return "the end of the line"
	}
	return strconv.Quote(t.text)
}

// scan splits a grammar into tokens.
func scan(text string) (tokens []token, err error) {
	line := 1
	for at := 0; at < len(text); {
		rest := text[at:]
		t := token{kind: mark, line: line}
		length := 1
		switch c := rest[0]; {
		case c == '\n':
			t.kind = newline
			line++
		case c == ' ' || c == '\t' || c == '\r':
			at++
			continue
		case strings.HasPrefix(rest, "//") || c == '#':
			length = len(rest)
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				length = i
			}
			at += length
			continue
		case isWord(c) && (c < '0' || c > '9'):
			t.kind, length = name, wordLength(rest)
		case c >= '0' && c <= '9':
			t.kind, length = number, wordLength(rest)
		case c == '%':
			length = 1 + wordLength(rest[1:])
		case c == '"', c == '/':
			if t, length, err = quoted(rest, line); err != nil {
				return nil, err
			}
		case strings.HasPrefix(rest, "->") || strings.HasPrefix(rest, ".."):
			length = 2
		case !strings.ContainsRune(":|()[]?*+~!{},.-", rune(c)):
			r, _ := utf8.DecodeRuneInString(rest)
			return nil, fmt.Errorf("line %d: unexpected %q", line, r)
		}
		if t.text == "" && t.kind != literal && t.kind != expression {
			t.text = rest[:length]
		}
		tokens = append(tokens, t)
		at += length
	}
	return append(tokens, token{kind: end, line: line}), nil
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func wordLength(text string) (n int) {
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return n
}

// quoted reads a string or a regular expression with its flags.
func quoted(text string, line int) (t token, length int, err error) {
	quote := text[0]
	i := 1
	for ; i < len(text) && text[i] != quote && text[i] != '\n'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	if i >= len(text) || text[i] != quote {
		return t, 0, fmt.Errorf("line %d: the %c is not closed", line, quote)
	}
	inner := text[1:i]
	length = i + 1
	for length < len(text) && strings.IndexByte("imslux", text[length]) >= 0 {
		length++
	}
	t = token{kind: expression, text: inner, flags: text[i+1 : length], line: line}
	if quote == '"' {
		t.kind = literal
		if t.text, err = strconv.Unquote(`"` + inner + `"`); err != nil {
			return t, 0, fmt.Errorf("line %d: the string has an unknown escape", line)
		}
	}
	return t, length, nil
}
