package regex

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// escape reads the text after a backslash at the offset.
func (p *parser) escape(at int, inClass bool) class {
	if char, ok := p.codePoint(at); ok {
		return newClass(span{char, char})
	}
	if p.pos == len(p.text) {
		p.fail(at, ErrSyntax, `\ at the end`)
	}
	b := p.text[p.pos]
	p.pos++
	switch b {
	case 'd':
		return digitClass
	case 'D':
		return notDigitClass
	case 'w':
		return wordClass
	case 'W':
		return notWordClass
	case 's':
		return spaceClass
	case 'S':
		return notSpaceClass
	case 'p', 'P':
		return p.property(at, b == 'P')
	case 'b', 'B':
		if b == 'b' && inClass {
			return class{{'\b', '\b'}}
		}
		p.fail(at, ErrUnsupported, `a word boundary (\%c) is not supported`, b)
	case 'k', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		p.fail(at, ErrUnsupported, "a back-reference is not supported")
	case 'A', 'z', 'Z', 'G':
		p.failWith("write ^ for the start of the text and $ for its end", at, ErrSyntax, `unknown escape \%c`, b)
	}
	if b > ' ' && b < 0x7f && !unicode.IsLetter(rune(b)) && b != '0' || b == ' ' {
		return class{{rune(b), rune(b)}}
	}
	if b >= 0x80 || b < ' ' {
		p.fail(at, ErrSyntax, `\ before a character that needs none`)
	}
	p.fail(at, ErrSyntax, `unknown escape \%c`, b)
	return nil
}

// codePoint reads an escape for one code point, by name or number. It may be half of a surrogate pair.
func (p *parser) codePoint(at int) (rune, bool) {
	rest := p.rest()
	if rest == "" {
		return 0, false
	}
	if i := strings.IndexByte("tnvfr", rest[0]); i >= 0 {
		p.pos++
		return rune("\t\n\v\f\r"[i]), true
	}
	switch rest[0] {
	case '0':
		if len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' {
			p.fail(at, ErrSyntax, "an octal escape")
		}
		p.pos++
		return 0, true
	case 'c':
		if len(rest) < 2 || rest[1] > unicode.MaxASCII || !unicode.IsLetter(rune(rest[1])) {
			p.fail(at, ErrSyntax, `\c needs a letter`)
		}
		p.pos += 2
		return rune(rest[1] & 0x1f), true
	case 'x':
		r, ok := hex(rest[1:], 2)
		if !ok {
			p.fail(at, ErrSyntax, `\x needs two hexadecimal digits`)
		}
		p.pos += 3
		return r, true
	case 'u':
		return p.unicodeEscape(at), true
	}
	return 0, false
}

// unicodeEscape reads uHHHH, a pair of them for one code point, or u{H...}.
func (p *parser) unicodeEscape(at int) rune {
	rest := p.rest()[1:]
	if digits, ok := strings.CutPrefix(rest, "{"); ok {
		n := strings.IndexByte(digits, '}')
		significant := digits
		if n > 0 {
			significant = strings.TrimLeft(digits[:n-1], "0") + digits[n-1:n]
		}
		r, ok := hex(significant, len(significant))
		if n <= 0 || len(significant) > 6 || !ok || r > unicode.MaxRune {
			p.fail(at, ErrSyntax, `\u{...} needs the hexadecimal digits of a code point`)
		}
		p.pos += 1 + 1 + n + 1
		return r
	}
	r, ok := hex(rest, 4)
	if !ok {
		p.fail(at, ErrSyntax, `\u needs four hexadecimal digits or {...}`)
	}
	p.pos += 5
	if after, found := strings.CutPrefix(rest[4:], `\u`); found {
		if low, ok := hex(after, 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != unicode.ReplacementChar {
				p.pos += 6
				return pair
			}
		}
	}
	return r
}

// hex reads n hexadecimal digits. n is at most 6.
func hex(text string, n int) (rune, bool) {
	if len(text) < n || n > 6 {
		return 0, false
	}
	var r rune
	for i := range n {
		digit := strings.IndexByte("0123456789abcdef", text[i]|0x20)
		if digit < 0 || text[i] < '0' {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

func (p *parser) property(at int, negated bool) class {
	name, ok := strings.CutPrefix(p.rest(), "{")
	if ok {
		name, _, ok = strings.Cut(name, "}")
	}
	if !ok {
		p.fail(at, ErrSyntax, `\p needs the name of a property in braces`)
	}
	c, ok := property(name, negated)
	if !ok {
		p.fail(at, ErrUnsupported, "an unknown Unicode property")
	}
	p.pos += len(name) + 2
	return c
}
