package gbnf

import (
	"strings"
	"unicode/utf8"

	"runner/grammar/expr"
)

// parser reads a grammar by recursive descent.
type parser struct {
	text string
	pos  int
	// depth is the number of groups around pos. Inside a group, line breaks are blanks.
	depth int
	// ranges counts the items of classes.
	ranges int

	rules  []*rule // in the order of their first mention
	byName map[string]*rule
	nodes  []*node
}

func (p *parser) parse() error {
	if len(p.text) > MaxText {
		return &Error{Problem: "the text is too long", Advice: "a grammar may have 1 MiB"}
	}
	for i, r := range p.text {
		if r == 0 {
			return p.errorAt(i, "", "the text contains a NUL character")
		}
		if r == utf8.RuneError && !strings.HasPrefix(p.text[i:], "\uFFFD") {
			return p.errorAt(i, "save the grammar as UTF-8", "the text is not valid UTF-8")
		}
	}
	p.blanks(true)
	for p.pos < len(p.text) {
		if err := p.rule(); err != nil {
			return err
		}
		p.blanks(true)
	}
	return nil
}

// peek returns the byte at pos, or 0 at the end.
func (p *parser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// found describes the text at pos, for errors.
func (p *parser) found() string {
	if p.pos >= len(p.text) {
		return "the end of the text"
	}
	switch r, _ := utf8.DecodeRuneInString(p.text[p.pos:]); r {
	case '\n', '\r':
		return "the end of the line"
	default:
		return quoted(string(r))
	}
}

// blanks skips spaces, tabs and comments, and line breaks that do not end a rule.
func (p *parser) blanks(lines bool) {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			p.pos++
		case c == '#':
			if n := strings.IndexAny(p.text[p.pos:], "\r\n"); n >= 0 {
				p.pos += n
			} else {
				p.pos = len(p.text)
			}
		default:
			return
		}
	}
}

// skip skips n bytes and the blanks after them.
func (p *parser) skip(n int) {
	p.pos += n
	p.blanks(p.depth > 0)
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// name reads the name at pos. It returns "" if there is none.
func (p *parser) name() string {
	start := p.pos
	for p.pos < len(p.text) && isNameByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos]
}

// mention returns the rule of a name. The offset is where the name stands.
func (p *parser) mention(name string, offset int) (*rule, error) {
	if r, ok := p.byName[name]; ok {
		return r, nil
	}
	if len(p.rules) == MaxRules {
		return nil, p.errorAt(offset, "", "there are more than %d rules", MaxRules)
	}
	r := &rule{name: name, used: offset}
	p.byName[name] = r
	p.rules = append(p.rules, r)
	return r, nil
}

// add adds a node whose kids are already there.
func (p *parser) add(n *node) *node {
	n.id = len(p.nodes)
	for _, k := range n.kids {
		k.parent = n
		n.height = max(n.height, k.height+1)
	}
	p.nodes = append(p.nodes, n)
	return n
}

const advicePlaces = `let a line that goes on end with |, or put the alternatives in parentheses`

func (p *parser) rule() error {
	start := p.pos
	name := p.name()
	if name == "" {
		advice := "a rule is: name ::= what it matches"
		if p.peek() == '|' {
			advice = advicePlaces
		}
		return p.errorAt(start, advice, "expected the name of a rule, found %s", p.found())
	}
	if p.peek() == '_' {
		return p.errorAt(p.pos, "use a dash", "names consist of letters, digits and dashes")
	}
	r, err := p.mention(name, start)
	if err != nil {
		return err
	}
	if r.body != nil {
		line, _ := position(p.text, r.defined)
		return p.errorAt(start, "", "rule %s is defined a second time, after line %d", quoted(name), line)
	}
	r.defined = start
	p.blanks(false)
	if !strings.HasPrefix(p.text[p.pos:], "::=") {
		return p.errorAt(p.pos, "", "expected ::= after the name of the rule %s, found %s", quoted(name), p.found())
	}
	p.pos += len("::=")
	p.blanks(true)
	body, err := p.alternatives()
	if err != nil {
		return err
	}
	if c := p.peek(); c != 0 && c != '\r' && c != '\n' {
		return p.unexpected()
	}
	r.body, body.owner = body, r
	r.nonterminal = &expr.Rule{Name: name, Expand: body.expression}
	return nil
}

// unexpected returns the error for a character that continues neither a rule nor a group.
func (p *parser) unexpected() error {
	switch {
	case strings.HasPrefix(p.text[p.pos:], "::="):
		return p.errorAt(p.pos, "", "expected the end of the rule before the name of the next one")
	case p.peek() == ')':
		return p.errorAt(p.pos, "", "there is no group for ) to close")
	case p.peek() == '_':
		return p.errorAt(p.pos, "use a dash", "names consist of letters, digits and dashes")
	}
	return p.errorAt(p.pos, "", "unexpected %s", p.found())
}

// alternatives reads sequences separated by |, up to the first character that continues none.
func (p *parser) alternatives() (*node, error) {
	var kids []*node
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		kids = append(kids, n)
		if p.peek() != '|' {
			break
		}
		p.pos++
		p.blanks(true)
	}
	if len(kids) == 1 {
		return kids[0], nil
	}
	n := p.add(&node{op: choice, kids: kids})
	n.collectWords()
	return n, nil
}

// sequence reads items and the repetitions after them. It may be empty.
func (p *parser) sequence() (*node, error) {
	var kids []*node
	for {
		n, err := p.item()
		if err != nil {
			return nil, err
		}
		if n == nil {
			break
		}
		if n, err = p.repetitions(n); err != nil {
			return nil, err
		}
		kids = append(kids, n)
	}
	switch len(kids) {
	case 0:
		return p.add(&node{op: literal}), nil
	case 1:
		return kids[0], nil
	}
	return p.add(&node{op: sequence, kids: kids}), nil
}

// item reads a literal, class, dot, group or reference. It returns nil if none begins here.
func (p *parser) item() (*node, error) {
	if len(p.nodes)+p.ranges > MaxSymbols {
		return nil, p.errorAt(p.pos, "", "there are more than %d symbols", MaxSymbols)
	}
	switch c := p.peek(); {
	case c == '"':
		return p.literal()
	case c == '[':
		return p.class()
	case c == '.':
		p.skip(1)
		return p.add(&node{op: class, spans: classOf(nil, true)}), nil
	case c == '(':
		return p.group()
	case c == '<' || c == '!':
		return nil, p.errorAt(p.pos, "write the text that the token stands for as a literal",
			"token references are not supported")
	case c == '*' || c == '+' || c == '?' || c == '{':
		return nil, p.errorAt(p.pos, "", "there is nothing before %s to repeat", p.found())
	case isNameByte(c):
		return p.reference()
	}
	return nil, nil
}

func (p *parser) reference() (*node, error) {
	start := p.pos
	r, err := p.mention(p.name(), start)
	if err != nil {
		return nil, err
	}
	n := p.add(&node{op: reference, rule: r})
	r.uses = append(r.uses, n)
	p.skip(0)
	return n, nil
}

func (p *parser) group() (*node, error) {
	start := p.pos
	if p.depth == MaxNesting {
		return nil, p.errorAt(start, "", "groups are nested more than %d deep", MaxNesting)
	}
	p.depth++
	p.skip(1)
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.pos == len(p.text) || strings.HasPrefix(p.text[p.pos:], "::=") {
		return nil, p.errorAt(start, "", "the group is not closed")
	}
	if p.peek() != ')' {
		return nil, p.unexpected()
	}
	p.depth--
	p.skip(1)
	return n, nil
}

// repetitions wraps n in the repetitions that follow it.
func (p *parser) repetitions(n *node) (*node, error) {
	for {
		start, least, most := p.pos, 0, -1
		switch p.peek() {
		case '*':
			p.skip(1)
		case '+':
			least = 1
			p.skip(1)
		case '?':
			most = 1
			p.skip(1)
		case '{':
			var err error
			if least, most, err = p.bounds(); err != nil {
				return nil, err
			}
		default:
			return n, nil
		}
		if n.height >= 4*MaxNesting { // a group adds a choice, a sequence and a repetition
			return nil, p.errorAt(start, "", "repetitions and groups are nested too deep")
		}
		n = p.add(&node{op: repeat, kids: []*node{n}, min: least, max: most})
	}
}

// bounds reads {m}, {m,} or {m,n}.
func (p *parser) bounds() (least, most int, err error) {
	start := p.pos
	p.skip(1)
	if least, err = p.integer(); err != nil {
		return 0, 0, err
	}
	most = least
	if p.peek() == ',' {
		p.skip(1)
		most = -1
		if p.peek() != '}' {
			if most, err = p.integer(); err != nil {
				return 0, 0, err
			}
			if most < least {
				return 0, 0, p.errorAt(start, "", "the repetition's upper bound %d is below its lower bound %d", most, least)
			}
		}
	}
	if p.peek() != '}' {
		return 0, 0, p.errorAt(p.pos, "a repetition is {m}, {m,} or {m,n}",
			"expected } after the bounds of a repetition, found %s", p.found())
	}
	p.skip(1)
	return least, most, nil
}

func (p *parser) integer() (int, error) {
	start, n := p.pos, 0
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		if n = 10*n + int(c-'0'); n > MaxRepetition {
			return 0, p.errorAt(start, "", "the repetition exceeds %d", MaxRepetition)
		}
		p.pos++
	}
	if p.pos == start {
		return 0, p.errorAt(start, "a repetition is {m}, {m,} or {m,n}", "expected a number, found %s", p.found())
	}
	p.skip(0)
	return n, nil
}

func (p *parser) literal() (*node, error) {
	start := p.pos
	p.pos++
	var b []byte
	for p.peek() != '"' {
		if p.pos == len(p.text) {
			return nil, p.errorAt(start, "", "the literal is not closed")
		}
		at := p.pos
		r, err := p.char()
		if err != nil {
			return nil, err
		}
		if r >= surrogateMin && r <= surrogateMax {
			return nil, p.errorAt(at, "write a character beyond U+FFFF as one \\U escape of eight digits",
				"U+%04X is half of a pair and no character of its own", r)
		}
		b = utf8.AppendRune(b, r)
	}
	p.skip(1)
	return p.add(&node{op: literal, text: string(b)}), nil
}

func (p *parser) class() (*node, error) {
	start := p.pos
	p.pos++
	negated := p.peek() == '^'
	if negated {
		p.pos++
	}
	var spans []span
	for p.peek() != ']' {
		if p.pos == len(p.text) {
			return nil, p.errorAt(start, "", "the character class is not closed")
		}
		at := p.pos
		lo, err := p.char()
		if err != nil {
			return nil, err
		}
		hi := lo
		// A dash before the closing bracket stands for itself.
		if p.peek() == '-' && p.pos+1 < len(p.text) && p.text[p.pos+1] != ']' {
			p.pos++
			if hi, err = p.char(); err != nil {
				return nil, err
			}
		}
		if hi < lo {
			return nil, p.errorAt(at, "", "the range's ends are swapped: U+%04X is above U+%04X", lo, hi)
		}
		spans = append(spans, span{lo, hi})
	}
	if len(spans) == 0 {
		return nil, p.errorAt(start, `any character is .; write \] for a bracket`, "the character class is empty")
	}
	p.ranges += len(spans)
	spans = classOf(spans, negated)
	if len(spans) == 0 {
		return nil, p.errorAt(start, "", "no character is in the class")
	}
	p.skip(1)
	return p.add(&node{op: class, spans: spans}), nil
}

// char reads a character of a literal or class, or an escape for one.
func (p *parser) char() (rune, error) {
	if p.peek() != '\\' {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		p.pos += size
		return r, nil
	}
	start := p.pos
	p.pos += 2
	var kind byte
	if p.pos <= len(p.text) {
		kind = p.text[p.pos-1]
	}
	switch kind {
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case '\\', '"', '[', ']':
		return rune(kind), nil
	case 'x':
		return p.hex(start, 2)
	case 'u':
		return p.hex(start, 4)
	case 'U':
		return p.hex(start, 8)
	}
	return 0, p.errorAt(start, `there are \n \r \t \\ \" \[ \] \xHH \uHHHH and \UHHHHHHHH`, "unknown escape")
}

// hex reads the digits of an escape.
func (p *parser) hex(start, digits int) (rune, error) {
	value := uint32(0)
	for range digits {
		c := p.peek()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.errorAt(start, "", "the escape needs %d hexadecimal digits", digits)
		}
		value = value<<4 | uint32(c)
		p.pos++
	}
	if value > utf8.MaxRune {
		return 0, p.errorAt(start, "", "U+%X is not a code point", value)
	}
	return rune(value), nil
}
