package lark

import (
	"fmt"
	"strconv"
	"strings"

	"runner/grammar/regex"
)

// maxNesting is the maximum depth of nested groups.
const maxNesting = 100

type parser struct {
	tokens []token
	at     int
	depth  int
	rules  map[string]*node
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

// takes consumes a mark and reports whether it was there.
func (p *parser) takes(text string) bool {
	if t := p.peek(); t.kind == mark && t.text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) need(text string) error {
	if !p.takes(text) {
		return p.unexpected(strconv.Quote(text))
	}
	return nil
}

func (p *parser) unexpected(want string) error {
	t := p.peek()
	return fmt.Errorf("line %d: unexpected %s; expected %s", t.line, t, want)
}

// file reads all rules, terminals and directives.
func (p *parser) file() error {
	for {
		switch t := p.peek(); {
		case t.kind == end:
			return nil
		case t.kind == newline:
			p.at++
		case t.kind == mark && strings.HasPrefix(t.text, "%"):
			if err := p.directive(); err != nil {
				return err
			}
		default:
			if err := p.rule(); err != nil {
				return err
			}
		}
	}
}

// directive reads %import and refuses all others.
func (p *parser) directive() error {
	d := p.next()
	if d.text != "%import" {
		return fmt.Errorf("line %d: %s is not supported", d.line, d.text)
	}
	if from := p.next(); from.kind != name || from.text != "common" {
		return fmt.Errorf("line %d: %%import is only supported from common", d.line)
	}
	if p.takes("(") {
		for !p.takes(")") {
			if err := p.imported(false); err != nil {
				return err
			}
			if !p.takes(",") && p.peek().text != ")" {
				return p.unexpected(`")"`)
			}
		}
		return nil
	}
	if err := p.need("."); err != nil {
		return err
	}
	return p.imported(true)
}

// imported reads a terminal of common. The import may rename it.
func (p *parser) imported(renamed bool) error {
	t := p.next()
	body, ok := common[t.text]
	if !ok {
		return fmt.Errorf("line %d: common has no terminal %s", t.line, t)
	}
	to := t
	if renamed && p.takes("->") {
		to = p.next()
	}
	return p.define(to, &node{op: pattern, text: body})
}

func (p *parser) define(t token, body *node) error {
	if t.kind != name {
		return fmt.Errorf("line %d: %s is not a name", t.line, t)
	}
	if p.rules[t.text] != nil {
		return fmt.Errorf("line %d: %s is defined twice", t.line, t.text)
	}
	p.rules[t.text] = body
	return nil
}

// rule reads a rule or a terminal.
func (p *parser) rule() error {
	for p.takes("?") || p.takes("!") {
		continue
	}
	t := p.next()
	if t.kind != name {
		p.at--
		return p.unexpected("a name")
	}
	if p.peek().text == "{" {
		return fmt.Errorf("line %d: templates are not supported: %s", t.line, t.text)
	}
	if p.takes(".") { // a priority
		p.takes("-")
		if n := p.next(); n.kind != number {
			return fmt.Errorf("line %d: the priority of %s is not a number", t.line, t.text)
		}
	}
	if err := p.need(":"); err != nil {
		return err
	}
	body, err := p.choice()
	if err != nil {
		return err
	}
	if k := p.peek().kind; k != newline && k != end {
		return p.unexpected("the end of the line")
	}
	return p.define(t, body)
}

// bar consumes a |, which may be on a later line.
func (p *parser) bar() bool {
	from := p.at
	for p.peek().kind == newline {
		p.at++
	}
	if p.takes("|") {
		return true
	}
	p.at = from
	return false
}

func (p *parser) choice() (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("line %d: groups nest more than %d deep", p.peek().line, maxNesting)
	}
	defer func() { p.depth-- }()
	n := &node{op: choice}
	p.bar() // one may stand before the first
	for {
		k, err := p.sequence()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, k)
		if p.takes("->") {
			if t := p.next(); t.kind != name {
				return nil, fmt.Errorf("line %d: an alias must be a name", t.line)
			}
		}
		if !p.bar() {
			return n, nil
		}
	}
}

func (p *parser) sequence() (*node, error) {
	n := &node{op: sequence}
	for {
		k, err := p.item()
		if err != nil {
			return nil, err
		}
		if k == nil {
			return n, nil
		}
		if k, err = p.repeated(k); err != nil {
			return nil, err
		}
		n.kids = append(n.kids, k)
	}
}

// repeated reads the quantifier of an item.
func (p *parser) repeated(k *node) (*node, error) {
	switch {
	case p.takes("?"):
		return &node{op: repeat, kids: []*node{k}, max: 1}, nil
	case p.takes("*"):
		return &node{op: repeat, kids: []*node{k}, max: -1}, nil
	case p.takes("+"):
		return &node{op: repeat, kids: []*node{k}, min: 1, max: -1}, nil
	case !p.takes("~"):
		return k, nil
	}
	least, err := p.count()
	if err != nil {
		return nil, err
	}
	most := least
	if p.takes("..") {
		if most, err = p.count(); err != nil {
			return nil, err
		}
	}
	if most < least {
		return nil, fmt.Errorf("line %d: %d..%d is not a range", p.peek().line, least, most)
	}
	return &node{op: repeat, kids: []*node{k}, min: least, max: most}, nil
}

func (p *parser) count() (int, error) {
	t := p.next()
	n, err := strconv.Atoi(t.text)
	if t.kind != number || err != nil || n > regex.MaxRepeat {
		return 0, fmt.Errorf("line %d: %s is not a count of at most %d", t.line, t, regex.MaxRepeat)
	}
	return n, nil
}

// item reads one part of a sequence. It returns nil if there is none.
func (p *parser) item() (*node, error) {
	t := p.peek()
	switch {
	case t.kind == name:
		p.at++
		if p.peek().text == "{" && p.peek().kind == mark {
			return nil, fmt.Errorf("line %d: templates are not supported: %s", t.line, t.text)
		}
		return &node{op: reference, text: t.text}, nil
	case t.kind == literal:
		p.at++
		if p.takes("..") {
			return p.span(t)
		}
		text, err := exactly(t)
		return &node{op: pattern, text: text}, err
	case t.kind == expression:
		p.at++
		text, err := python(t)
		return &node{op: pattern, text: text}, err
	case p.takes("("):
		n, err := p.choice()
		if err != nil {
			return nil, err
		}
		return n, p.closing(")")
	case p.takes("["):
		n, err := p.choice()
		if err != nil {
			return nil, err
		}
		return &node{op: repeat, kids: []*node{n}, max: 1}, p.closing("]")
	}
	return nil, nil
}

func (p *parser) closing(text string) error {
	for p.peek().kind == newline {
		p.at++
	}
	return p.need(text)
}

// span reads the end of a range of characters.
func (p *parser) span(from token) (*node, error) {
	to := p.next()
	lo, hi := []rune(from.text), []rune(to.text)
	if to.kind != literal || len(lo) != 1 || len(hi) != 1 || lo[0] > hi[0] || from.flags+to.flags != "" {
		return nil, fmt.Errorf("line %d: a range goes from one character to a later one", from.line)
	}
	return &node{op: pattern, text: "[" + escape(lo[0]) + "-" + escape(hi[0]) + "]"}, nil
}

// exactly returns the pattern of a string.
func exactly(t token) (string, error) {
	if strings.Trim(t.flags, "i") != "" {
		return "", fmt.Errorf("line %d: the flags %s of a string are not supported", t.line, t.flags)
	}
	var b strings.Builder
	for _, r := range t.text {
		lower, upper := []rune(strings.ToLower(string(r))), []rune(strings.ToUpper(string(r)))
		switch {
		case t.flags == "" || len(lower) == 1 && len(upper) == 1 && lower[0] == upper[0]:
			b.WriteString(escape(r))
		case r > 'z':
			return "", fmt.Errorf("line %d: the flag i is only supported for letters from a to z", t.line)
		default:
			b.WriteString("[" + string(lower) + string(upper) + "]")
		}
	}
	return b.String(), nil
}

// escape returns the pattern of one character. It is valid inside a class, too.
func escape(r rune) string {
	switch {
	case strings.ContainsRune(`\^$.|?*+()[]{}/-`, r):
		return `\` + string(r)
	case r < ' ' || r == 0x7F:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return string(r)
}

// python returns the pattern of a Python regular expression. Its dot is everything except a line feed.
func python(t token) (string, error) {
	dot := `[^\n]`
	switch strings.Trim(t.flags, "u") {
	case "":
	case "s":
		dot = `[\s\S]`
	default:
		return "", fmt.Errorf("line %d: the flags %s of a regular expression are not supported", t.line, t.flags)
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(t.text); i++ {
		switch c := t.text[i]; {
		case c == '\\' && i+1 < len(t.text):
			b.WriteString(t.text[i : i+2])
			i++
		case c == '.' && !class:
			b.WriteString(dot)
		default:
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
		}
	}
	if _, err := regex.Parse(b.String()); err != nil {
		return "", fmt.Errorf("line %d: %w", t.line, err)
	}
	return "(?:" + b.String() + ")", nil
}

// common holds the patterns of the terminals that can be imported.
var common = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[a-fA-F0-9]`, "INT": `[0-9]+`, "SIGNED_INT": `[\+\-]?[0-9]+`,
	"DECIMAL": decimal, "FLOAT": float, "SIGNED_FLOAT": `[\+\-]?` + float,
	"NUMBER": `(?:` + float + `|[0-9]+)`, "SIGNED_NUMBER": `[\+\-]?(?:` + float + `|[0-9]+)`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`,
	"LCASE_LETTER":   `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[a-zA-Z]`, "WORD": `[a-zA-Z]+`,
	"CNAME":     `[a-zA-Z_][a-zA-Z_0-9]*`,
	"WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`, "CR": `\r`, "LF": `\n`, "NEWLINE": `(?:\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `\/\/[^\n]*`, "SQL_COMMENT": `\-\-[^\n]*`,
}

const (
	decimal = `(?:[0-9]+\.(?:[0-9]+)?|\.[0-9]+)`
	float   = `(?:[0-9]+[eE][\+\-]?[0-9]+|` + decimal + `(?:[eE][\+\-]?[0-9]+)?)`
)
