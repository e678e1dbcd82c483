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

func parse(pattern string) (*node, error) {
	if len(pattern) > MaxPattern {
		return nil, &Error{Kind: ErrTooLarge, Offset: MaxPattern, Problem: fmt.Sprintf("longer than %d bytes", MaxPattern)}
	}
	for i, r := range pattern {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(pattern[i:]); size == 1 {
				return nil, &Error{Kind: ErrSyntax, Offset: i, Problem: "not valid UTF-8"}
			}
		}
	}
	p := &parser{text: pattern, names: map[string]bool{}, brackets: map[string]class{}}
	n, _, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.text) {
		return nil, p.errorAt(p.pos, ErrSyntax, "unmatched )")
	}
	return n, nil
}

func (p *parser) errorAt(offset int, kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Offset: offset, Problem: fmt.Sprintf(format, args...)}
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
func (p *parser) alternatives() (*node, int, error) {
	var list []*node
	product := 1
	for {
		n, k, err := p.sequence()
		if err != nil {
			return nil, 0, err
		}
		list, product = append(list, n), max(product, k)
		if !p.take("|") {
			return alternate(list...), product, nil
		}
	}
}

func (p *parser) sequence() (*node, int, error) {
	var list []*node
	product := 1
	for p.pos < len(p.text) && p.text[p.pos] != '|' && p.text[p.pos] != ')' {
		at := p.pos
		n, k, err := p.atom()
		if err != nil {
			return nil, 0, err
		}
		lo, hi, found, err := p.quantifier()
		if err != nil {
			return nil, 0, err
		}
		if found {
			if b := p.text[at]; b == '^' || b == '$' {
				return nil, 0, p.errorAt(at, ErrSyntax, "%c cannot be repeated", b)
			}
			if k *= max(lo, hi, 1); k > MaxRepeat {
				return nil, 0, p.errorAt(at, ErrTooLarge, "the repetition counts multiply to more than %d", MaxRepeat)
			}
			n = repeat(n, lo, hi)
		}
		list, product = append(list, n), max(product, k)
	}
	return concat(list...), product, nil
}

// quantifier reads *, +, ?, {m}, {m,} or {m,n}, if there is one. It may be lazy.
func (p *parser) quantifier() (lo, hi int, found bool, err error) {
	at := p.pos
	switch {
	case p.take("*"):
		hi = -1
	case p.take("+"):
		lo, hi = 1, -1
	case p.take("?"):
		hi = 1
	default:
		if lo, hi, found, err = p.counts(); !found || err != nil {
			return 0, 0, false, err
		}
	}
	p.take("?")
	if p.pos < len(p.text) {
		again := p.pos
		_, _, counted, _ := p.counts()
		p.pos = again
		if counted || strings.IndexByte("*+?", p.text[p.pos]) >= 0 {
			return 0, 0, false, p.errorAt(at, ErrSyntax, "two quantifiers in a row")
		}
	}
	return lo, hi, true, nil
}

// counts reads a quantifier in braces. A brace that starts none is a plain character, not an error.
func (p *parser) counts() (lo, hi int, found bool, err error) {
	at := p.pos
	if !p.take("{") {
		return 0, 0, false, nil
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
		return 0, 0, false, nil
	}
	switch {
	case max(lo, hi) > MaxRepeat:
		return 0, 0, true, p.errorAt(at, ErrTooLarge, "a repetition count above %d", MaxRepeat)
	case hi >= 0 && hi < lo:
		return 0, 0, true, p.errorAt(at, ErrSyntax, "the repetition counts are out of order")
	}
	return lo, hi, true, nil
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

func (p *parser) atom() (*node, int, error) {
	at := p.pos
	r, size := utf8.DecodeRuneInString(p.rest())
	p.pos += size
	switch r {
	case '^':
		return begin, 1, nil
	case '$':
		return end, 1, nil
	case '.':
		return oneOf(dotClass), 1, nil
	case '(':
		return p.group(at)
	case '[':
		c, err := p.bracket(at)
		return oneOf(c), 1, err
	case '\\':
		c, err := p.escape(at, false)
		return oneOf(c), 1, err
	case '*', '+', '?':
		return nil, 0, p.errorAt(at, ErrSyntax, "nothing to repeat before %c", r)
	case '{':
		p.pos = at
		if _, _, found, _ := p.counts(); found {
			return nil, 0, p.errorAt(at, ErrSyntax, "nothing to repeat before {")
		}
		p.pos = at + 1
	}
	return oneOf(class{{r, r}}), 1, nil
}

func (p *parser) group(at int) (*node, int, error) {
	if p.take("?") {
		if err := p.groupKind(at); err != nil {
			return nil, 0, err
		}
	}
	if p.depth++; p.depth > maxDepth {
		return nil, 0, p.errorAt(at, ErrTooLarge, "more than %d groups inside each other", maxDepth)
	}
	n, k, err := p.alternatives()
	if err != nil {
		return nil, 0, err
	}
	p.depth--
	if !p.take(")") {
		return nil, 0, p.errorAt(at, ErrSyntax, "unmatched (")
	}
	return n, k, nil
}

// groupKind reads the text after (?.
func (p *parser) groupKind(at int) error {
	switch {
	case p.take(":"):
		return nil
	case p.take("=") || p.take("!"):
		return p.errorAt(at, ErrUnsupported, "lookahead is not supported")
	case p.take("<=") || p.take("<!"):
		return p.errorAt(at, ErrUnsupported, "lookbehind is not supported")
	case p.take("<") || p.take("P<"):
		name, _, ok := strings.Cut(p.rest(), ">")
		if !ok || !isName(name) {
			return p.errorAt(at, ErrSyntax, "a group name is made of letters, digits and _")
		}
		if p.names[name] {
			return p.errorAt(at, ErrSyntax, "two groups have the same name")
		}
		p.names[name] = true
		p.pos += len(name) + 1
		return nil
	case strings.HasPrefix(p.rest(), "P=") || strings.HasPrefix(p.rest(), "P>"):
		return p.errorAt(at, ErrUnsupported, "a back-reference is not supported")
	case p.pos < len(p.text) && strings.IndexByte("imsUx-", p.text[p.pos]) >= 0:
		return p.errorAt(at, ErrUnsupported, "flags inside a pattern are not supported")
	}
	return p.errorAt(at, ErrSyntax, "an unknown kind of group")
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
func (p *parser) bracket(at int) (class, error) {
	negated := p.take("^")
	if strings.HasPrefix(p.rest(), "]") {
		err := p.errorAt(at, ErrSyntax, "an empty class reads differently in different dialects")
		err.advice = `write \] for a bracket in the class, [\s\S] for any character`
		return nil, err
	}
	var spans []span
	for !p.take("]") {
		start := p.pos
		lo, err := p.member(at)
		if err != nil {
			return nil, err
		}
		rest := p.rest()
		from, single := lo.single()
		if !single || len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
			spans = append(spans, lo.class...)
			continue
		}
		p.pos++
		hi, err := p.member(at)
		if err != nil {
			return nil, err
		}
		to, single := hi.single()
		if !single {
			return nil, p.errorAt(start, ErrSyntax, "a range that ends in a class")
		}
		if to < from {
			return nil, p.errorAt(start, ErrSyntax, "a range out of order")
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
			return nil, p.errorAt(at, ErrTooLarge, "the classes have more than %d ranges in all", maxSpans)
		}
	}
	return c, nil
}

// item is a member of a class in brackets: a class or a code point, possibly a surrogate.
type item struct {
	class class
	char  rune // -1 for a class
}

func (i item) single() (rune, bool) { return i.char, i.char >= 0 }

func (p *parser) member(bracket int) (item, error) {
	at := p.pos
	if at == len(p.text) {
		return item{}, p.errorAt(bracket, ErrSyntax, "unmatched [")
	}
	if strings.HasPrefix(p.rest(), "[:") {
		err := p.errorAt(at, ErrSyntax, "[: in a class reads differently in different dialects")
		err.advice = `write \[ for a bracket in the class, and ranges or \p{...} instead of [:name:]`
		return item{}, err
	}
	r, size := utf8.DecodeRuneInString(p.rest())
	p.pos += size
	if r != '\\' {
		return item{class{{r, r}}, r}, nil
	}
	if char, ok, err := p.codePoint(at); ok || err != nil {
		return item{class{{char, char}}, char}, err
	}
	c, err := p.escape(at, true)
	if r, ok := c.single(); ok {
		return item{c, r}, err
	}
	return item{c, -1}, err
}
