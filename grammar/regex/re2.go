package regex

import (
	"strconv"
	"strings"
	"unicode"
)

// RE2 returns a pattern for package regexp that finds the same texts. A validator that knows only RE2's dialect can use
// it.
func (r *Regex) RE2() string {
	var b strings.Builder
	r.source.writeRE2(&b)
	return b.String()
}

func (n *node) writeRE2(b *strings.Builder) {
	switch n.op {
	case classOp:
		n.class.writeRE2(b)
	case beginOp:
		b.WriteString(`\A`)
	case endOp:
		b.WriteString(`\z`)
	case concatOp:
		for _, sub := range n.subs {
			sub.writeRE2(b)
		}
	case altOp:
		if n.isVoid() {
			b.WriteString(`[^\x{0}-\x{10FFFF}]`)
			return
		}
		b.WriteString("(?:")
		for i, sub := range n.subs {
			if i > 0 {
				b.WriteByte('|')
			}
			sub.writeRE2(b)
		}
		b.WriteByte(')')
	case repeatOp:
		b.WriteString("(?:")
		n.subs[0].writeRE2(b)
		b.WriteByte(')')
		switch {
		case n.lo == 0 && n.hi < 0:
			b.WriteByte('*')
		case n.lo == 1 && n.hi < 0:
			b.WriteByte('+')
		case n.lo == 0 && n.hi == 1:
			b.WriteByte('?')
		case n.hi < 0:
			b.WriteString("{" + strconv.Itoa(n.lo) + ",}")
		default:
			b.WriteString("{" + strconv.Itoa(n.lo) + "," + strconv.Itoa(n.hi) + "}")
		}
	}
}

func (c class) writeRE2(b *strings.Builder) {
	if r, ok := c.single(); ok {
		writeRune(b, r)
		return
	}
	b.WriteByte('[')
	for _, p := range c {
		writeRune(b, p.lo)
		if p.hi > p.lo {
			b.WriteByte('-')
			writeRune(b, p.hi)
		}
	}
	b.WriteByte(']')
}

func writeRune(b *strings.Builder, r rune) {
	if r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		b.WriteRune(r)
		return
	}
	b.WriteString(`\x{`)
	b.WriteString(strconv.FormatInt(int64(r), 16))
	b.WriteByte('}')
}
