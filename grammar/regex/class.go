package regex

import (
	"slices"
	"unicode"

	"runner/grammar/expr"
)

// span is a range of code points, both ends included.
type span struct{ lo, hi rune }

// class is a set of code points: ascending spans with gaps between them. It has no surrogates, which no text contains.
type class []span

var (
	anyClass   = newClass(span{0, unicode.MaxRune})
	digitClass = class{{'0', '9'}}
	wordClass  = class{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	// ECMA-262's WhiteSpace and LineTerminator.
	spaceClass = class{{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
		{0x202f, 0x202f},
		{0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}}
	dotClass = class{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.negate()

	notDigitClass, notWordClass, notSpaceClass = digitClass.negate(), wordClass.negate(), spaceClass.negate()
)

const firstSurrogate, lastSurrogate = 0xd800, 0xdfff

// newClass returns the class of all code points in spans, in any order. It takes over the slice.
func newClass(spans ...span) class {
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
	var c class
	for _, p := range spans {
		if p.lo < firstSurrogate && p.hi > lastSurrogate {
			c = c.push(span{p.lo, firstSurrogate - 1})
			p.lo = lastSurrogate + 1
		}
		if p.lo >= firstSurrogate && p.lo <= lastSurrogate {
			p.lo = lastSurrogate + 1
		}
		if p.hi >= firstSurrogate && p.hi <= lastSurrogate {
			p.hi = firstSurrogate - 1
		}
		if p.lo <= p.hi {
			c = c.push(p)
		}
	}
	return c
}

// push adds a span that does not begin before the last one.
func (c class) push(p span) class {
	if n := len(c); n > 0 && p.lo <= c[n-1].hi+1 {
		c[n-1].hi = max(c[n-1].hi, p.hi)
		return c
	}
	return append(c, p)
}

func (c class) negate() class {
	var out []span
	next := rune(0)
	for _, p := range c {
		if p.lo > next {
			out = append(out, span{next, p.lo - 1})
		}
		next = p.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, span{next, unicode.MaxRune})
	}
	return newClass(out...)
}

// single returns the only code point. It reports false if there are several or none.
func (c class) single() (rune, bool) {
	if len(c) == 1 && c[0].lo == c[0].hi {
		return c[0].lo, true
	}
	return 0, false
}

// fromTables returns the class of all code points of the tables.
func fromTables(tables ...*unicode.RangeTable) class {
	var out []span
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			out = append(out, span{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			out = append(out, span{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return newClass(out...)
}

// Chars is a set of characters, for notations that have classes of their own.
type Chars struct{ class class }

// CharsOf returns the characters of ranges, each from its first to its second code point.
func CharsOf(ranges ...[2]rune) Chars {
	spans := make([]span, len(ranges))
	for i, r := range ranges {
		spans[i] = span{r[0], r[1]}
	}
	return Chars{newClass(spans...)}
}

// Negated returns all other characters.
func (c Chars) Negated() Chars { return Chars{c.class.negate()} }

// IsEmpty reports whether no character is in the set. Surrogates are no characters.
func (c Chars) IsEmpty() bool { return len(c.class) == 0 }

// Expr returns the expression of one character of the set.
func (c Chars) Expr(s *expr.Set, enc Encoding) expr.ID {
	b := builder{set: s, enc: enc}
	return b.class(c.class)
}
