package jinja

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// token is one token of a template. text is the data, the name, the value of the string, or the operator.
type token struct {
	kind tokenKind
	line int
	text string
	num  Value
}

// lexer splits a template into tokens and applies the whitespace rules of trim_blocks and lstrip_blocks.
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	// lineStart is set if the text before ended with a line break.
	lineStart bool
}

func syntaxError(line int, format string, args ...any) {
	panic(&Error{Kind: KindSyntax, Line: line, Message: fmt.Sprintf(format, args...)})
}

// lex returns the tokens of a template. The last is tokEOF. It panics with *Error.
func lex(source string) []token {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	lx := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for lx.pos < len(lx.src) {
		lx.root()
	}
	end := token{kind: tokEOF, line: 1}
	if n := len(lx.tokens); n > 0 {
		end.line = lx.tokens[n-1].line
	}
	lx.emit(end)
	return lx.tokens
}

func (lx *lexer) emit(t token) { lx.tokens = append(lx.tokens, t) }

// advance moves to pos and counts lines.
func (lx *lexer) advance(pos int) {
	if pos > lx.pos {
		lx.line += strings.Count(lx.src[lx.pos:pos], "\n")
		lx.lineStart = lx.src[pos-1] == '\n'
		lx.pos = pos
	}
}

// root reads the data up to the next tag, then the tag.
func (lx *lexer) root() {
	begin := lx.pos
	for {
		i := strings.IndexByte(lx.src[begin:], '{')
		if i < 0 || begin+i+1 >= len(lx.src) {
			lx.data(lx.src[lx.pos:])
			lx.advance(len(lx.src))
			return
		}
		begin += i
		if c := lx.src[begin+1]; c == '%' || c == '{' || c == '#' {
			break
		}
		begin++
	}
	tag := lx.src[begin+1]
	after := begin + 2
	sign := lx.sign(after)
	if sign != 0 {
		after++
	}
	lx.data(lx.strip(lx.src[lx.pos:begin], sign, tag != '{'))
	lx.advance(begin)
	line := lx.line
	switch tag {
	case '#':
		lx.comment(after)
	case '{':
		lx.advance(after)
		lx.emit(token{kind: tokVarBegin, line: line})
		lx.tag(tokVarEnd)
	default:
		if end, ok := lx.rawBegin(after); ok {
			lx.advance(end)
			lx.raw()
			return
		}
		lx.advance(after)
		lx.emit(token{kind: tokBlockBegin, line: line})
		lx.tag(tokBlockEnd)
	}
}

func (lx *lexer) data(s string) {
	if s != "" {
		lx.emit(token{kind: tokData, line: lx.line, text: s})
	}
}

// sign returns the whitespace sign at pos, or 0.
func (lx *lexer) sign(pos int) byte {
	if pos < len(lx.src) && (lx.src[pos] == '-' || lx.src[pos] == '+') {
		return lx.src[pos]
	}
	return 0
}

// strip removes white space from the end of data, as the sign of the next tag or lstrip_blocks asks.
func (lx *lexer) strip(data string, sign byte, lstrip bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(data, origin.IsSpace)
	case sign == '+' || !lstrip:
		return data
	}
	nl := strings.LastIndexByte(data, '\n') + 1
	if (nl > 0 || lx.lineStart) && strings.TrimLeftFunc(data[nl:], origin.IsSpace) == "" {
		return data[:nl]
	}
	return data
}

func (lx *lexer) skipSpace(pos int) int {
	for pos < len(lx.src) {
		c, n := utf8.DecodeRuneInString(lx.src[pos:])
		if !origin.IsSpace(c) {
			break
		}
		pos += n
	}
	return pos
}

// tagEnd matches the end of a block, comment or variable tag at pos. It returns the offset after it and after the white
// space that the tag removes.
func (lx *lexer) tagEnd(pos int, closer string) (int, bool) {
	rest := lx.src[pos:]
	switch {
	case strings.HasPrefix(rest, "-"+closer):
		return lx.skipSpace(pos + 3), true
	case closer != "}}" && strings.HasPrefix(rest, "+"+closer):
		return pos + 3, true
	case strings.HasPrefix(rest, closer):
		pos += 2
		if closer != "}}" && strings.HasPrefix(lx.src[pos:], "\n") {
			pos++
		}
		return pos, true
	}
	return 0, false
}

func (lx *lexer) comment(pos int) {
	i := strings.Index(lx.src[pos:], "#}")
	if i < 0 {
		syntaxError(lx.line, "Missing end of comment tag")
	}
	if i > 0 && (lx.src[pos+i-1] == '-' || lx.src[pos+i-1] == '+') {
		i--
	}
	end, _ := lx.tagEnd(pos+i, "#}")
	lx.advance(end)
}

// rawBegin matches the rest of a raw tag after its sign.
func (lx *lexer) rawBegin(pos int) (int, bool) {
	pos = lx.skipSpace(pos)
	if !strings.HasPrefix(lx.src[pos:], "raw") {
		return 0, false
	}
	pos = lx.skipSpace(pos + 3)
	switch {
	case strings.HasPrefix(lx.src[pos:], "-%}"):
		return lx.skipSpace(pos + 3), true
	case strings.HasPrefix(lx.src[pos:], "%}"):
		return pos + 2, true
	}
	return 0, false
}

// raw reads up to the end of a raw block.
func (lx *lexer) raw() {
	for at := lx.pos; ; at += 2 {
		i := strings.Index(lx.src[at:], "{%")
		if i < 0 {
			syntaxError(lx.line, "Missing end of raw directive")
		}
		at += i
		pos := at + 2
		sign := lx.sign(pos)
		if sign != 0 {
			pos++
		}
		pos = lx.skipSpace(pos)
		if !strings.HasPrefix(lx.src[pos:], "endraw") {
			continue
		}
		end, ok := lx.tagEnd(lx.skipSpace(pos+6), "%}")
		if !ok {
			continue
		}
		lx.data(lx.strip(lx.src[lx.pos:at], sign, true))
		lx.advance(end)
		return
	}
}

// tag reads the tokens of a block or variable tag up to its end.
func (lx *lexer) tag(endKind tokenKind) {
	closer := "}}"
	if endKind == tokBlockEnd {
		closer = "%}"
	}
	var open []byte
	for lx.pos < len(lx.src) {
		if len(open) == 0 {
			if end, ok := lx.tagEnd(lx.pos, closer); ok {
				lx.emit(token{kind: endKind, line: lx.line})
				lx.advance(end)
				return
			}
		}
		if p := lx.skipSpace(lx.pos); p > lx.pos {
			lx.advance(p)
			continue
		}
		c, _ := utf8.DecodeRuneInString(lx.src[lx.pos:])
		switch {
		case c >= '0' && c <= '9':
			lx.number()
		case c == '\'' || c == '"':
			lx.str(byte(c))
		case c == '_' || unicode.IsLetter(c) || c >= utf8.RuneSelf && origin.IsWord(c):
			lx.name()
		default:
			open = lx.operator(open)
		}
	}
}

func (lx *lexer) name() {
	end := lx.pos
	for end < len(lx.src) {
		c, n := utf8.DecodeRuneInString(lx.src[end:])
		if !origin.IsWord(c) && !(c >= utf8.RuneSelf && unicode.IsMark(c)) {
			break
		}
		end += n
	}
	name := lx.src[lx.pos:end]
	if c, _ := utf8.DecodeRuneInString(name); c != '_' && !unicode.IsLetter(c) {
		syntaxError(lx.line, "Invalid character in identifier")
	}
	lx.emit(token{kind: tokName, line: lx.line, text: name})
	lx.pos = end
}

// Numbers. Single underscores may separate their digits.
var (
	integer  = regexp.MustCompile(`^(0|[1-9](_?[0-9])*)`)
	fraction = regexp.MustCompile(`^[0-9](_?[0-9])*` +
		`(\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?|[eE][-+]?[0-9](_?[0-9])*)`)
)

func (lx *lexer) number() {
	start := lx.pos
	if num := fraction.FindString(lx.src[start:]); num != "" && (start == 0 || lx.src[start-1] != '.') {
		f, err := strconv.ParseFloat(strings.ReplaceAll(num, "_", ""), 64)
		if err != nil && f == 0 {
			syntaxError(lx.line, "not a number")
		}
		lx.emit(token{kind: tokFloat, line: lx.line, num: floatValue(f)})
		lx.pos += len(num)
		return
	}
	num := integer.FindString(lx.src[start:])
	if len(num) > maxNumberLen {
		syntaxError(lx.line, "an integer of more than %d digits", maxNumberLen)
	}
	i, _ := new(big.Int).SetString(strings.ReplaceAll(num, "_", ""), 10)
	lx.emit(token{kind: tokInt, line: lx.line, num: bigInt(i), text: num})
	lx.pos += len(num)
}

func (lx *lexer) str(quote byte) {
	start := lx.pos + 1
	end := start
	for end < len(lx.src) && lx.src[end] != quote {
		if lx.src[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(lx.src) {
		lx.unexpected()
	}
	lx.emit(token{kind: tokString, line: lx.line, text: unescape(lx.src[start:end], lx.line)})
	lx.advance(end + 1)
}

// operators, longest first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

// operator reads one operator. open is the stack of closing brackets still expected.
func (lx *lexer) operator(open []byte) []byte {
	for _, op := range operators {
		if !strings.HasPrefix(lx.src[lx.pos:], op) {
			continue
		}
		switch op {
		case "{":
			open = append(open, '}')
		case "(":
			open = append(open, ')')
		case "[":
			open = append(open, ']')
		case "}", ")", "]":
			if len(open) == 0 {
				syntaxError(lx.line, "unexpected '%s'", op)
			}
			if want := open[len(open)-1]; want != op[0] {
				syntaxError(lx.line, "unexpected '%s', expected '%c'", op, want)
			}
			open = open[:len(open)-1]
		}
		lx.emit(token{kind: tokOp, line: lx.line, text: op})
		lx.pos += len(op)
		return open
	}
	lx.unexpected()
	return nil
}

// unexpected fails at the current character.
func (lx *lexer) unexpected() {
	var b origin.Builder
	_, n := utf8.DecodeRuneInString(lx.src[lx.pos:])
	writeStrRepr(&b, NewText(lx.src[lx.pos:lx.pos+n], Trusted))
	syntaxError(lx.line, "unexpected char %s at %d", b.Text().String(), origin.RuneCount(lx.src[:lx.pos]))
}
