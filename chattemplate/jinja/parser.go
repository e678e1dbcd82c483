package jinja

import (
	"slices"
)

// parser turns tokens into statements. It panics with *Error.
type parser struct {
	tokens []token
	pos    int
	lim    Limits
	depth  int
	// open is the stack of the open tags.
	open []string
	// loops is the number of open loops of the current function, for break and continue.
	loops int
	// read has the last token at which each name was used.
	read map[string]int
}

func (p *parser) cur() *token { return &p.tokens[p.pos] }

func (p *parser) peek() *token { return &p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() *token {
	t := &p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

// reads reports whether a name was used after the token start.
func (p *parser) reads(name string, start int) bool { return p.read[name] > start }

func (p *parser) fail(format string, args ...any) { syntaxError(p.cur().line, format, args...) }

// tagNesting is how many levels of nesting a tag inside a tag counts as.
const tagNesting = 10

// down counts one more level of nesting. up takes n levels back.
func (p *parser) down() { p.deeper(1) }

func (p *parser) deeper(n int) {
	p.depth += n
	if p.depth > p.lim.Nesting {
		panic(&Error{Kind: KindLimit, Line: p.cur().line, Message: "the template nests too deep"})
	}
}

func (p *parser) up(n int) { p.depth -= n }

func (t *token) isOp(op string) bool     { return t.kind == tokOp && t.text == op }
func (t *token) isName(name string) bool { return t.kind == tokName && t.text == name }

func (p *parser) skipOp(op string) bool {
	if p.cur().isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.cur().isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) *token {
	if !p.cur().isOp(op) {
		p.fail("expected token '%s', got %s", op, p.cur().describe())
	}
	return p.next()
}

func (p *parser) expectName() *token {
	if p.cur().kind != tokName {
		p.fail("expected token 'name', got %s", p.cur().describe())
	}
	return p.next()
}

func (p *parser) expectWord(name string) *token {
	if !p.cur().isName(name) {
		p.fail("expected token '%s', got %s", name, p.cur().describe())
	}
	return p.next()
}

func (p *parser) expectKind(k tokenKind) {
	if p.cur().kind != k {
		if p.cur().kind == tokEOF {
			p.fail("unexpected end of template, expected '%s'.", kindNames[k])
		}
		p.fail("expected token '%s', got %s", kindNames[k], p.cur().describe())
	}
	p.next()
}

var kindNames = map[tokenKind]string{
	tokEOF: "end of template", tokData: "template data / text", tokVarBegin: "begin of print statement",
	tokVarEnd: "end of print statement", tokBlockBegin: "begin of statement block",
	tokBlockEnd: "end of statement block", tokString: "string", tokInt: "integer", tokFloat: "float",
}

func (t *token) describe() string {
	if n := kindNames[t.kind]; n != "" {
		return "'" + n + "'"
	}
	return "'" + t.text + "'"
}

// statements reads up to one of the end tags, or to the end of the template. The end tag is then the current token.
func (p *parser) statements(ends ...string) []stmt {
	var body []stmt
	p.deeper(tagNesting)
	defer p.up(tagNesting)
	for {
		t := p.cur()
		switch t.kind {
		case tokEOF:
			if ends != nil {
				p.failTag("Unexpected end of template.", t.line)
			}
			return body
		case tokData:
			body = append(body, &dataStmt{NewText(t.text, Trusted)})
			p.next()
		case tokVarBegin:
			p.next()
			body = append(body, &outputStmt{x: p.tuple(tupleOpts{cond: true}), line: t.line})
			p.expectKind(tokVarEnd)
		case tokBlockBegin:
			p.next()
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return body
			}
			body = append(body, p.statement())
			p.expectKind(tokBlockEnd)
		default:
			p.fail("unexpected %s", t.describe())
		}
	}
}

// body reads the body of a tag. It starts at the tag's closing mark and stops at one of the end tags, which is then the
// current token.
func (p *parser) body(ends ...string) []stmt {
	p.skipOp(":")
	p.expectKind(tokBlockEnd)
	return p.statements(ends...)
}

// bodyTo is body with a single end tag, which it consumes.
func (p *parser) bodyTo(end string) []stmt {
	b := p.body(end)
	p.next()
	return b
}

// functionBody is bodyTo for a body that break and continue cannot leave.
func (p *parser) functionBody(end string) []stmt {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return p.bodyTo(end)
}

func (p *parser) failTag(message string, line int) {
	if len(p.open) > 0 {
		message += " The innermost block that needs to be closed is '" + p.open[len(p.open)-1] + "'."
	}
	syntaxError(line, "%s", message)
}

func (p *parser) statement() (s stmt) {
	t := p.cur()
	if t.kind != tokName {
		p.fail("tag name expected")
	}
	p.open = append(p.open, t.text)
	switch t.text {
	case "for":
		s = p.forTag()
	case "if":
		s = p.ifTag()
	case "set":
		s = p.setTag()
	case "macro":
		s = p.macroTag()
	case "call":
		s = p.callTag()
	case "filter":
		s = p.filterTag()
	case "with":
		s = p.withTag()
	case "break", "continue":
		p.next()
		if p.loops == 0 {
			syntaxError(t.line, "'%s' outside loop", t.text)
		}
		s = jumpStmt(ctlContinue)
		if t.text == "break" {
			s = jumpStmt(ctlBreak)
		}
	case "generation":
		p.next()
		s = &generationStmt{body: p.functionBody("endgeneration")}
	case "include", "import", "from", "extends", "block":
		syntaxError(t.line, "the %s tag is refused: a chat template must be a single template", t.text)
	default:
		p.open = p.open[:len(p.open)-1]
		p.failTag("Encountered unknown tag '"+t.text+"'.", t.line)
	}
	p.open = p.open[:len(p.open)-1]
	return s
}

func (p *parser) forTag() stmt {
	f := &forStmt{line: p.next().line, loop: -1}
	begin := p.pos
	f.testVar = p.target(false, "in")
	p.pos = begin // read it again: the test has variables of its own
	f.target = p.target(false, "in")
	p.expectWord("in")
	f.iter = p.tuple(tupleOpts{end: "recursive"})
	if p.skipName("if") {
		f.test = p.expression(true)
	}
	if p.cur().isName("recursive") {
		p.fail("recursive loops are not supported; use a macro")
	}
	start := p.pos
	p.loops++
	f.body = p.body("endfor", "else")
	p.loops--
	f.usesLoop = p.reads("loop", start)
	if p.next().text == "else" {
		f.elseBody = p.bodyTo("endfor")
	}
	return f
}

func (p *parser) ifTag() stmt {
	s := &ifStmt{}
	for {
		s.lines = append(s.lines, p.next().line)
		s.conds = append(s.conds, p.tuple(tupleOpts{}))
		s.bodies = append(s.bodies, p.body("elif", "else", "endif"))
		if p.cur().text == "elif" {
			continue
		}
		if p.next().text == "else" {
			s.bodies = append(s.bodies, p.bodyTo("endif"))
		}
		return s
	}
}

func (p *parser) setTag() stmt {
	line := p.next().line
	t := p.target(true, "")
	if p.skipOp("=") {
		return &setStmt{target: t, x: p.tuple(tupleOpts{cond: true}), line: line}
	}
	s := &setBlockStmt{target: t, line: line}
	s.filter = p.filters(false)
	s.body = p.bodyTo("endset")
	return s
}

func (p *parser) signature(d *macroDef) {
	p.expectOp("(")
	for !p.cur().isOp(")") {
		if len(d.params) > 0 {
			p.expectOp(",")
		}
		p.fewNames(len(d.params))
		t := p.expectName()
		if slices.ContainsFunc(d.params, func(o *nameTarget) bool { return o.name == t.text }) {
			syntaxError(t.line, "duplicate argument '%s' in function definition", t.text)
		}
		d.params = append(d.params, &nameTarget{name: t.text, line: t.line})
		if p.skipOp("=") {
			d.defaults = append(d.defaults, p.expression(true))
		} else if len(d.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	}
	p.expectOp(")")
}

func (p *parser) macroTag() stmt {
	m := &macroStmt{macroDef: macroDef{line: p.next().line}}
	t := p.expectName()
	m.name = t.text
	m.target = &nameTarget{name: t.text, line: t.line}
	p.signature(&m.macroDef)
	p.macroBody(&m.macroDef, "endmacro")
	return m
}

// macroBody reads the body of a macro or call block. It notes whether the body uses the special parameter caller.
func (p *parser) macroBody(d *macroDef, end string) {
	start := p.pos
	d.body = p.functionBody(end)
	d.usesCaller = p.reads("caller", start)
	for _, name := range []string{"varargs", "kwargs"} {
		if p.reads(name, start) {
			syntaxError(d.line, "%s is not supported; name the parameters of the macro", name)
		}
	}
}

func (p *parser) callTag() stmt {
	c := &callStmt{line: p.next().line}
	c.macroDef.line = c.line
	c.name = "caller"
	if p.cur().isOp("(") {
		p.signature(&c.macroDef)
	}
	call, ok := p.expression(true).(*callExpr)
	if !ok {
		syntaxError(c.line, "expected call")
	}
	c.call = call
	p.macroBody(&c.macroDef, "endcall")
	return c
}

func (p *parser) filterTag() stmt {
	s := &filterStmt{line: p.next().line}
	s.filter = p.filters(true)
	s.body = p.bodyTo("endfilter")
	return s
}

func (p *parser) withTag() stmt {
	s := &withStmt{line: p.next().line}
	for p.cur().kind != tokBlockEnd && p.cur().kind != tokEOF {
		if len(s.targets) > 0 {
			p.expectOp(",")
		}
		s.targets = append(s.targets, p.target(false, ""))
		p.expectOp("=")
		s.values = append(s.values, p.expression(true))
	}
	s.body = p.bodyTo("endwith")
	return s
}

// target reads the left side of an assignment, with namespace attributes if allowed. end is the word after it.
func (p *parser) target(attrs bool, end string) target {
	t := &tupleTarget{line: p.cur().line}
	for {
		t.items = append(t.items, p.targetItem(attrs))
		if !p.skipOp(",") {
			break
		}
		if p.tupleEnds(end) {
			return t
		}
	}
	if len(t.items) == 1 {
		return t.items[0]
	}
	return t
}

func (p *parser) targetItem(attrs bool) target {
	p.down()
	defer p.up(1)
	if p.skipOp("(") {
		t := p.target(false, "")
		p.expectOp(")")
		return t
	}
	t := p.cur()
	if t.kind != tokName || constants[t.text] != nil {
		p.fail("can't assign to %s", t.describe())
	}
	p.next()
	if attrs && p.skipOp(".") {
		ns := &nameExpr{name: t.text, line: t.line}
		return &attrTarget{ns: ns, attr: str(p.expectName().text, Trusted), line: t.line}
	}
	return &nameTarget{name: t.text, line: t.line}
}
