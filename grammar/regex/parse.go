package regex

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parser reads a pattern by recursive descent.
type parser struct {
	text  string
	pos   int
	depth int
	names map[string]bool
	// brackets caches classes by their text, so that repeated ones share memory.
	brackets map[string]class
	spans    int // of them
}

func parse(pattern string) (n *node, err error) {
	if len(pattern) > MaxPattern {
		return nil, &Error{Kind: ErrTooLarge, Offset: MaxPattern, Problem: fmt.Sprintf("longer than %d bytes", MaxPattern)}
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			n, err = nil, e
		}
	}()
	p := &parser{text: pattern, names: map[string]bool{}, brackets: map[string]class{}}
	for i, r := range pattern {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(pattern[i:]); size == 1 {
				p.fail(i, ErrSyntax, "not valid UTF-8")
			}
		}
	}
	n, _ = p.alternatives()
	if p.pos < len(p.text) {
		p.fail(p.pos, ErrSyntax, "unmatched )")
	}
	return n, nil
}

// fail refuses the pattern. It panics with an *Error, which parse recovers: nearly every rule can fail, and no caller
// has anything to add to the error.
func (p *parser) fail(offset int, kind error, format string, args ...any) {
	p.failWith("", offset, kind, format, args...)
}

// failWith is fail with advice.
func (p *parser) failWith(advice string, offset int, kind error, format string, args ...any) {
	panic(&Error{Kind: kind, Offset: offset, Problem: fmt.Sprintf(format, args...), advice: advice})
}

func (p *parser) rest() string { return p.text[p.pos:] }

// take consumes text if it comes next.
func (p *parser) take(text string) bool {
	if !strings.HasPrefix(p.rest(), text) {
		return false
	}
	p.pos += len(text)
	return true
}

// alternatives reads up to the end or an unmatched ). The number returned with a part is the product of the repetition
// counts in it.
func (p *parser) alternatives() (*node, int) {
	var list []*node
	product := 1
	for {
		n, k := p.sequence()
		list, product = append(list, n), max(product, k)
		if !p.take("|") {
			return alternate(list...), product
		}
	}
}

func (p *parser) sequence() (*node, int) {
	var list []*node
	product := 1
	for p.pos < len(p.text) && p.text[p.pos] != '|' && p.text[p.pos] != ')' {
		at := p.pos
		n, k := p.atom()
		if lo, hi, found := p.quantifier(); found {
			if b := p.text[at]; b == '^' || b == '$' {
				p.fail(at, ErrSyntax, "%c cannot be repeated", b)
			}
			if k *= max(lo, hi, 1); k > MaxRepeat {
				p.fail(at, ErrTooLarge, "the repetition counts multiply to more than %d", MaxRepeat)
			}
			n = repeat(n, lo, hi)
		}
		list, product = append(list, n), max(product, k)
	}
	return concat(list...), product
}

// quantifier reads *, +, ?, {m}, {m,} or {m,n}, if there is one. It may be lazy.
func (p *parser) quantifier() (lo, hi int, found bool) {
	at := p.pos
	switch {
	case p.take("*"):
		hi = -1
	case p.take("+"):
		lo, hi = 1, -1
	case p.take("?"):
		hi = 1
	default:
		if lo, hi, found = p.counts(); !found {
			return 0, 0, false
		}
	}
	p.take("?")
	if p.pos < len(p.text) {
		_, _, counted := p.counts()
		if counted || strings.IndexByte("*+?", p.text[p.pos]) >= 0 {
			p.fail(at, ErrSyntax, "two quantifiers in a row")
		}
	}
	return lo, hi, true
}

// counts reads a quantifier in braces. A brace that starts none is a plain character, not an error.
func (p *parser) counts() (lo, hi int, found bool) {
	at := p.pos
	if !p.take("{") {
		return 0, 0, false
	}
	lo, ok := p.number()
	hi = lo
	if ok && p.take(",") {
		if hi, ok = p.number(); !ok {
			hi, ok = -1, true
		}
	}
	if !ok || !p.take("}") {
		p.pos = at
		return 0, 0, false
	}
	switch {
	case max(lo, hi) > MaxRepeat:
		p.fail(at, ErrTooLarge, "a repetition count above %d", MaxRepeat)
	case hi >= 0 && hi < lo:
		p.fail(at, ErrSyntax, "the repetition counts are out of order")
	}
	return lo, hi, true
}

// number reads a decimal number. Numbers that are too large become one number that is too large.
func (p *parser) number() (int, bool) {
	start, n := p.pos, 0
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		n = min(10*n+int(p.text[p.pos]-'0'), MaxRepeat+1)
		p.pos++
	}
	return n, p.pos > start
}

func (p *parser) atom() (*node, int) {
	at := p.pos
	r, size := utf8.DecodeRuneInString(p.rest())
	p.pos += size
	switch r {
	case '^':
		return begin, 1
	case '$':
		return end, 1
	case '.':
		return oneOf(dotClass), 1
	case '(':
		return p.group(at)
	case '[':
		return oneOf(p.bracket(at)), 1
	case '\\':
		return oneOf(p.escape(at, false)), 1
	case '*', '+', '?':
		p.fail(at, ErrSyntax, "nothing to repeat before %c", r)
	case '{':
		p.pos = at
		if _, _, found := p.counts(); found {
			p.fail(at, ErrSyntax, "nothing to repeat before {")
		}
		p.pos = at + 1
	}
	return oneOf(class{{r, r}}), 1
}

func (p *parser) group(at int) (*node, int) {
	if p.take("?") {
		p.groupKind(at)
	}
	if p.depth++; p.depth > maxDepth {
		p.fail(at, ErrTooLarge, "more than %d groups inside each other", maxDepth)
	}
	n, k := p.alternatives()
	p.depth--
	if !p.take(")") {
		p.fail(at, ErrSyntax, "unmatched (")
	}
	return n, k
}

// groupKind reads the text after (?.
func (p *parser) groupKind(at int) {
	switch {
	case p.take(":"):
	case p.take("=") || p.take("!"):
		p.fail(at, ErrUnsupported, "lookahead is not supported")
	case p.take("<=") || p.take("<!"):
		p.fail(at, ErrUnsupported, "lookbehind is not supported")
	case p.take("<") || p.take("P<"):
		name, _, ok := strings.Cut(p.rest(), ">")
		if !ok || !isName(name) {
			p.fail(at, ErrSyntax, "a group name is made of letters, digits and _")
		}
		if p.names[name] {
			p.fail(at, ErrSyntax, "two groups have the same name")
		}
		p.names[name] = true
		p.pos += len(name) + 1
	case strings.HasPrefix(p.rest(), "P=") || strings.HasPrefix(p.rest(), "P>"):
		p.fail(at, ErrUnsupported, "a back-reference is not supported")
	case p.pos < len(p.text) && strings.IndexByte("imsUx-", p.text[p.pos]) >= 0:
		p.fail(at, ErrUnsupported, "flags inside a pattern are not supported")
	default:
		p.fail(at, ErrSyntax, "an unknown kind of group")
	}
}

// isName reports whether both dialects accept a group name.
func isName(name string) bool {
	for i, r := range name {
		if r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r)) && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// bracket reads a class after its [.
func (p *parser) bracket(at int) class {
	negated := p.take("^")
	if strings.HasPrefix(p.rest(), "]") {
		p.failWith(`write \] for a bracket in the class, [\s\S] for any character`,
			at, ErrSyntax, "an empty class reads differently in different dialects")
	}
	var spans []span
	for !p.take("]") {
		start := p.pos
		lo := p.member(at)
		rest := p.rest()
		from, single := lo.single()
		if !single || len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
			spans = append(spans, lo.class...)
			continue
		}
		p.pos++
		hi := p.member(at)
		to, single := hi.single()
		if !single {
			p.fail(start, ErrSyntax, "a range that ends in a class")
		}
		if to < from {
			p.fail(start, ErrSyntax, "a range out of order")
		}
		spans = append(spans, span{from, to})
	}
	text := p.text[at:p.pos]
	c, ok := p.brackets[text]
	if !ok {
		if c = newClass(spans...); negated {
			c = c.negate()
		}
		p.brackets[text] = c
		if p.spans += len(c); p.spans > maxSpans {
			p.fail(at, ErrTooLarge, "the classes have more than %d ranges in all", maxSpans)
		}
	}
	return c
}

// item is a member of a class in brackets: a class or a code point, possibly a surrogate.
type item struct {
	class class
	char  rune // -1 for a class
}

func (i item) single() (rune, bool) { return i.char, i.char >= 0 }

func (p *parser) member(bracket int) item {
	at := p.pos
	if at == len(p.text) {
		p.fail(bracket, ErrSyntax, "unmatched [")
	}
	if strings.HasPrefix(p.rest(), "[:") {
		p.failWith(`write \[ for a bracket in the class, and ranges or \p{...} instead of [:name:]`,
			at, ErrSyntax, "[: in a class reads differently in different dialects")
	}
	r, size := utf8.DecodeRuneInString(p.rest())
	p.pos += size
	if r != '\\' {
		return item{class{{r, r}}, r}
	}
	if char, ok := p.codePoint(at); ok {
		return item{class{{char, char}}, char}
	}
	c := p.escape(at, true)
	if r, ok := c.single(); ok {
		return item{c, r}
	}
	return item{c, -1}
}
