package regex

import (
	"unicode/utf8"

	"runner/grammar/expr"
)

// Encoding says how characters are written in bytes.
type Encoding uint8

const (
	// UTF8 writes a character in UTF-8.
	UTF8 Encoding = iota
	// JSONString is the inside of a JSON string (RFC 8259) with few spellings. Printable ASCII stands for itself,
	// except \" and \\. Control characters are \b, \f,
	// , \r, \t or \u00xx in lower case. All others are UTF-8, or \uXXXX in either case with surrogate pairs. DEL counts
	// as printable.
	JSONString
	// JSONFree is the inside of a JSON string with every spelling that JSON allows.
	JSONFree
)

// level is one byte of a spelling. It encodes some bits of a number: each range of values is a byte set.
type level struct {
	bits uint
	set  func(lo, hi uint32) expr.ByteSet
}

func offset(base byte) func(lo, hi uint32) expr.ByteSet {
	return func(lo, hi uint32) expr.ByteSet { return expr.ByteRange(base+byte(lo), base+byte(hi)) }
}

// hexDigit is the set of hexadecimal digits of the values lo+base to hi+base.
func hexDigit(base uint32, upper bool) func(lo, hi uint32) expr.ByteSet {
	return func(lo, hi uint32) (b expr.ByteSet) {
		for v := lo + base; v <= hi+base; v++ {
			b.Add("0123456789abcdef"[v])
			if upper {
				b.Add("0123456789ABCDEF"[v])
			}
		}
		return b
	}
}

func fixed(b byte) func(lo, hi uint32) expr.ByteSet {
	return func(_, _ uint32) expr.ByteSet { return expr.ByteRange(b, b) }
}

var (
	tail = level{6, offset(0x80)}
	utf  = [4][]level{
		{{7, offset(0)}},
		{{5, offset(0xc0)}, tail},
		{{4, offset(0xe0)}, tail, tail},
		{{3, offset(0xf0)}, tail, tail, tail},
	}
	hexLevel   = level{4, hexDigit(0, true)}
	hexControl = []level{{0, fixed('u')}, {0, fixed('0')}, {0, fixed('0')}, {4, hexDigit(0, false)},
		{4, hexDigit(0, false)}}
	hexBMP = []level{{0, fixed('u')}, hexLevel, hexLevel, hexLevel, hexLevel}
	// hexPair writes a code point minus 0x10000 as a surrogate pair.
	hexPair = []level{{0, fixed('u')}, {0, hexEither('d')}, {2, hexDigit(8, true)}, hexLevel, hexLevel,
		{0, fixed('\\')}, {0, fixed('u')}, {0, hexEither('d')}, {2, hexDigit(12, true)}, hexLevel, hexLevel}
)

func hexEither(b byte) func(lo, hi uint32) expr.ByteSet {
	var set expr.ByteSet
	set.Add(b)
	set.Add(b - 'a' + 'A')
	return func(_, _ uint32) expr.ByteSet { return set }
}

// builder makes expressions in one set.
type builder struct {
	set   *expr.Set
	enc   Encoding
	nodes map[*node]expr.ID
	// classes is keyed by the first span, because equal classes mostly share one slice.
	classes map[*span]expr.ID
	// whole is the tree of all values, keyed by its first level.
	whole map[*level]expr.ID
}

func build(s *expr.Set, enc Encoding, n *node) expr.ID {
	b := builder{set: s, enc: enc, nodes: map[*node]expr.ID{}, classes: map[*span]expr.ID{}}
	return b.node(n)
}

// Any returns the expression of one character.
func Any(s *expr.Set, enc Encoding) expr.ID {
	b := builder{set: s, enc: enc}
	return b.class(anyClass)
}

// Text returns the expression of exactly text in all its spellings. text must be valid UTF-8.
func Text(s *expr.Set, enc Encoding, text string) expr.ID {
	b := builder{set: s, enc: enc}
	var list []expr.ID
	for i := 0; i < len(text); {
		n := i
		for n < len(text) && b.plain(rune(text[n])) {
			n++
		}
		if n > i {
			list = append(list, s.Literal(text[i:n]))
			i = n
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		list = append(list, b.class(class{{r, r}}))
		i += size
	}
	return s.Concat(list...)
}

// plain reports whether the byte r is the only spelling of r.
func (b *builder) plain(r rune) bool {
	switch b.enc {
	case UTF8:
		return r < utf8.RuneSelf
	case JSONString:
		return r >= ' ' && r < utf8.RuneSelf && r != '"' && r != '\\'
	}
	return false
}

func (b *builder) node(n *node) expr.ID {
	if id, ok := b.nodes[n]; ok {
		return id
	}
	var id expr.ID
	switch n.op {
	case classOp:
		first := &n.class[0]
		known := false
		if id, known = b.classes[first]; !known {
			id = b.class(n.class)
			b.classes[first] = id
		}
	case concatOp:
		id = b.concat(n.subs)
	case altOp:
		ids := make([]expr.ID, len(n.subs))
		for i, sub := range n.subs {
			ids[i] = b.node(sub)
		}
		id = b.set.Union(ids...)
	case repeatOp:
		id = b.set.Repeat(b.node(n.subs[0]), n.lo, n.hi)
	}
	b.nodes[n] = id
	return id
}

// concat joins neighbouring characters with a single spelling into one literal.
func (b *builder) concat(subs []*node) expr.ID {
	var ids []expr.ID
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			ids = append(ids, b.set.Literal(string(literal)))
			literal = literal[:0]
		}
	}
	for _, sub := range subs {
		if sub.op == classOp {
			if r, ok := sub.class.single(); ok && b.plain(r) {
				literal = append(literal, byte(r))
				continue
			}
		}
		flush()
		ids = append(ids, b.node(sub))
	}
	flush()
	return b.set.Concat(ids...)
}

// class returns the expression of one character of c.
func (b *builder) class(c class) expr.ID {
	var ids, escapes []expr.ID
	first := class{} // the characters spelled in UTF-8
	for _, p := range c {
		switch {
		case b.enc == UTF8:
			first = append(first, p)
		case p.hi >= ' ':
			first = append(first, span{max(p.lo, ' '), p.hi})
		}
	}
	ids = b.utf8(ids, first)
	if b.enc == UTF8 {
		return b.set.Union(ids...)
	}
	escapes = b.escapes(escapes, c)
	if len(escapes) > 0 {
		ids = append(ids, b.set.Concat(b.set.Byte(expr.ByteRange('\\', '\\')), b.set.Union(escapes...)))
	}
	return b.set.Union(ids...)
}

// utf8 appends the expressions of the characters of c in UTF-8. Inside a JSON string it leaves out " and \.
func (b *builder) utf8(ids []expr.ID, c class) []expr.ID {
	var ascii expr.ByteSet
	for _, p := range c {
		if p.lo < utf8.RuneSelf {
			ascii.AddRange(byte(p.lo), byte(min(p.hi, utf8.RuneSelf-1)))
		}
	}
	if b.enc != UTF8 {
		ascii.Remove('"')
		ascii.Remove('\\')
	}
	ids = append(ids, b.set.Byte(ascii))
	bounds := [...]rune{utf8.RuneSelf, 0x800, 0x10000, utf8.MaxRune + 1}
	for n, levels := range utf[1:] {
		ids = append(ids, b.spell(levels, c, bounds[n], bounds[n+1]-1, 0))
	}
	return ids
}

// escapes appends the expressions of the text after the \ in the escapes of the characters of c.
func (b *builder) escapes(ids []expr.ID, c class) []expr.ID {
	var short expr.ByteSet
	long := class{}
	for _, p := range c {
		for i := 0; p.lo < utf8.RuneSelf && i < len(shortEscapes); i += 2 {
			if r := rune(shortEscapes[i]); p.lo <= r && r <= p.hi && (r != '/' || b.enc == JSONFree) {
				short.Add(shortEscapes[i+1])
			}
		}
		long = append(long, p)
	}
	ids = append(ids, b.set.Byte(short))
	if b.enc == JSONFree {
		ids = append(ids, b.spell(hexBMP, long, 0, 0xffff, 0))
	} else {
		for _, p := range [...]span{{0, '\b' - 1}, {'\v', '\v'}, {'\r' + 1, ' ' - 1}} {
			ids = append(ids, b.spell(hexControl, long, p.lo, p.hi, 0))
		}
		ids = append(ids, b.spell(hexBMP, long, utf8.RuneSelf, 0xffff, 0))
	}
	return append(ids, b.spell(hexPair, long, 0x10000, utf8.MaxRune, 0x10000))
}

// shortEscapes maps a character to the letter of its escape.
const shortEscapes = "\"\"\\\\//\bb\ff\nn\rr\tt"

// spell returns the expression of the code points of c from lo to hi, minus base, in bytes of the levels.
func (b *builder) spell(levels []level, c class, lo, hi, base rune) expr.ID {
	var spans []span
	for _, p := range c {
		if p.lo <= hi && p.hi >= lo {
			spans = append(spans, span{max(p.lo, lo) - base, min(p.hi, hi) - base})
		}
	}
	if len(spans) == 0 {
		return expr.Empty
	}
	return b.tree(levels, spans)
}

// all returns the expression of all values of the levels.
func (b *builder) all(levels []level) expr.ID {
	if len(levels) == 0 {
		return expr.Epsilon
	}
	id, ok := b.whole[&levels[0]]
	if !ok {
		id = b.set.Concat(b.set.Byte(levels[0].set(0, 1<<levels[0].bits-1)), b.all(levels[1:]))
		if b.whole == nil {
			b.whole = map[*level]expr.ID{}
		}
		b.whole[&levels[0]] = id
	}
	return id
}

// branch is the set of bytes with the same continuation.
type branch struct {
	set  expr.ByteSet
	next expr.ID
}

// tree returns the expression of the values in spans, written in the levels. Equal tails are shared, so it has the
// fewest possible derivatives.
func (b *builder) tree(levels []level, spans []span) expr.ID {
	if len(levels) == 0 {
		return expr.Epsilon
	}
	shift := uint(0)
	for _, l := range levels[1:] {
		shift += l.bits
	}
	low := rune(1)<<shift - 1
	var branches []branch
	add := func(lo, hi rune, next expr.ID) {
		set := levels[0].set(uint32(lo), uint32(hi))
		for i := range branches {
			if branches[i].next == next {
				branches[i].set = branches[i].set.Union(set)
				return
			}
		}
		branches = append(branches, branch{set, next})
	}
	for i := 0; i < len(spans); {
		p := spans[i]
		first, last := p.lo>>shift, p.hi>>shift
		if p.lo&low == 0 && (first < last || p.hi&low == low) {
			// Whole blocks, then the rest, if any.
			if p.hi&low != low {
				spans[i].lo = last << shift
				last--
			} else {
				i++
			}
			add(first, last, b.all(levels[1:]))
			continue
		}
		// Part of one block.
		var parts []span
		for i < len(spans) && spans[i].lo>>shift == first {
			p := &spans[i]
			parts = append(parts, span{p.lo & low, min(p.hi, first<<shift|low) & low})
			if p.hi>>shift > first {
				p.lo = (first + 1) << shift
				break
			}
			i++
		}
		add(first, first, b.tree(levels[1:], parts))
	}
	ids := make([]expr.ID, len(branches))
	for i, br := range branches {
		ids[i] = b.set.Concat(b.set.Byte(br.set), br.next)
	}
	return b.set.Union(ids...)
}
