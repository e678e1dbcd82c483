package regex

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// escape reads the text after a backslash at the offset.
func (p *parser) escape(at int, inClass bool) (class, error) {
	char, ok, err := p.codePoint(at)
	if err != nil {
		return nil, err
	}
	if ok {
		return newClass(span{char, char}), nil
	}
	if p.pos == len(p.text) {
		return nil, p.errorAt(at, ErrSyntax, `\ at the end`)
	}
	b := p.text[p.pos]
	p.pos++
	switch b {
	case 'd':
		return digitClass, nil
	case 'D':
		return notDigitClass, nil
	case 'w':
		return wordClass, nil
	case 'W':
		return notWordClass, nil
	case 's':
		return spaceClass, nil
	case 'S':
		return notSpaceClass, nil
	case 'p', 'P':
		return p.property(at, b == 'P')
	case 'b', 'B':
		if b == 'b' && inClass {
			return class{{'\b', '\b'}}, nil
		}
		return nil, p.errorAt(at, ErrUnsupported, `a word boundary (\%c) is not supported`, b)
	case 'k':
		return nil, p.errorAt(at, ErrUnsupported, "a back-reference is not supported")
	}
	if b >= '1' && b <= '9' {
		return nil, p.errorAt(at, ErrUnsupported, "a back-reference is not supported")
	}
	if b > ' ' && b < 0x7f && !unicode.IsLetter(rune(b)) && b != '0' || b == ' ' {
		return class{{rune(b), rune(b)}}, nil
	}
	if b >= 0x80 || b < ' ' {
		return nil, p.errorAt(at, ErrSyntax, `\ before a character that needs none`)
	}
	e := p.errorAt(at, ErrSyntax, `unknown escape \%c`, b)
	if strings.IndexByte("AzZG", b) >= 0 {
		e.advice = "write ^ for the start of the text and $ for its end"
	}
	return nil, e
}

// codePoint reads an escape for one code point, by name or number. It may be half of a surrogate pair.
func (p *parser) codePoint(at int) (rune, bool, error) {
	rest := p.rest()
	if rest == "" {
		return 0, false, nil
	}
	if i := strings.IndexByte("tnvfr", rest[0]); i >= 0 {
		p.pos++
		return rune("\t\n\v\f\r"[i]), true, nil
	}
	switch rest[0] {
	case '0':
		if len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' {
			return 0, false, p.errorAt(at, ErrSyntax, "an octal escape")
		}
		p.pos++
		return 0, true, nil
	case 'c':
		if len(rest) < 2 || rest[1] > unicode.MaxASCII || !unicode.IsLetter(rune(rest[1])) {
			return 0, false, p.errorAt(at, ErrSyntax, `\c needs a letter`)
		}
		p.pos += 2
		return rune(rest[1] & 0x1f), true, nil
	case 'x':
		r, ok := hex(rest[1:], 2)
		if !ok {
			return 0, false, p.errorAt(at, ErrSyntax, `\x needs two hexadecimal digits`)
		}
		p.pos += 3
		return r, true, nil
	case 'u':
		return p.unicodeEscape(at)
	}
	return 0, false, nil
}

// unicodeEscape reads uHHHH, a pair of them for one code point, or u{H...}.
func (p *parser) unicodeEscape(at int) (rune, bool, error) {
	rest := p.rest()[1:]
	if digits, ok := strings.CutPrefix(rest, "{"); ok {
		n := strings.IndexByte(digits, '}')
		significant := digits
		if n > 0 {
			significant = strings.TrimLeft(digits[:n-1], "0") + digits[n-1:n]
		}
		r, ok := hex(significant, len(significant))
		if n <= 0 || len(significant) > 6 || !ok || r > unicode.MaxRune {
			return 0, false, p.errorAt(at, ErrSyntax, `\u{...} needs the hexadecimal digits of a code point`)
		}
		p.pos += 1 + 1 + n + 1
		return r, true, nil
	}
	r, ok := hex(rest, 4)
	if !ok {
		return 0, false, p.errorAt(at, ErrSyntax, `\u needs four hexadecimal digits or {...}`)
	}
	p.pos += 5
	if after, found := strings.CutPrefix(rest[4:], `\u`); found {
		if low, ok := hex(after, 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != unicode.ReplacementChar {
				p.pos += 6
				return pair, true, nil
			}
		}
	}
	return r, true, nil
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

func (p *parser) property(at int, negated bool) (class, error) {
	name, ok := strings.CutPrefix(p.rest(), "{")
	if ok {
		name, _, ok = strings.Cut(name, "}")
	}
	if !ok {
		return nil, p.errorAt(at, ErrSyntax, `\p needs the name of a property in braces`)
	}
	c, ok := property(name, negated)
	if !ok {
		return nil, p.errorAt(at, ErrUnsupported, "an unknown Unicode property")
	}
	p.pos += len(name) + 2
	return c, nil
}
