package jinja

import (
	"fmt"
	"strings"
)

// tupleOpts says how to read an expression that may be a tuple.
type tupleOpts struct {
	// cond allows a conditional expression.
	cond bool
	// parens: the tuple is in parentheses and may be empty.
	parens bool
	// end is a word that ends the tuple.
	end string
}

// tupleEnds reports whether a tuple ends here, after a comma.
func (p *parser) tupleEnds(end string) bool {
	t := p.cur()
	return t.kind == tokVarEnd || t.kind == tokBlockEnd || t.isOp(")") || end != "" && t.isName(end)
}

func (p *parser) tuple(o tupleOpts) expr {
	var items []expr
	isTuple := false
	for !p.tupleEnds(o.end) {
		items = append(items, p.expression(o.cond))
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !o.parens {
			p.fail("Expected an expression, got %s", p.cur().describe())
		}
	}
	return &listExpr{items: items, tuple: true}
}

func (p *parser) expression(cond bool) expr {
	p.down()
	defer p.up(1)
	if !cond {
		return p.or()
	}
	line := p.cur().line
	e := p.or()
	n := 0
	for p.skipName("if") {
		p.down()
		n++
		c := &condExpr{yes: e, line: line, cond: p.or()}
		if p.skipName("else") {
			c.no = p.expression(true)
		}
		e = c
	}
	p.up(n)
	return e
}

// chain reads left-associative operators. Each operator nests the tree one level deeper.
func (p *parser) chain(operand func() expr, step func(left expr) expr) expr {
	e := operand()
	n := 0
	for {
		p.down()
		n++
		next := step(e)
		if next == nil {
			p.up(n)
			return e
		}
		e = next
	}
}

func (p *parser) or() expr { return p.logic("or", p.and) }

func (p *parser) and() expr { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() expr) expr {
	return p.chain(operand, func(left expr) expr {
		if !p.skipName(word) {
			return nil
		}
		return &logicExpr{or: word == "or", a: left, b: operand()}
	})
}

func (p *parser) not() expr {
	if p.skipName("not") {
		p.down()
		defer p.up(1)
		return &notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	line := p.cur().line
	e := p.sum()
	var rest []operand
	for {
		t := p.cur()
		op := ""
		switch {
		case t.kind == tokOp:
			switch t.text {
			case "==", "!=", "<", "<=", ">", ">=":
				op = t.text
			}
		case t.isName("in"):
			op = "in"
		case t.isName("not") && p.peek().isName("in"):
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		p.next()
		rest = append(rest, operand{op, p.sum()})
	}
	if rest == nil {
		return e
	}
	return &compareExpr{first: e, rest: rest, line: line}
}

// binaries reads left-associative binary operators of one precedence.
func (p *parser) binaries(operand func() expr, ops ...string) expr {
	return p.chain(operand, func(left expr) expr {
		t := p.cur()
		if t.kind != tokOp {
			return nil
		}
		for _, op := range ops {
			if t.text == op {
				p.next()
				return &binaryExpr{op: op, a: left, b: operand(), line: t.line}
			}
		}
		return nil
	})
}

func (p *parser) sum() expr { return p.binaries(p.concat, "+", "-") }

func (p *parser) concat() expr {
	line := p.cur().line
	first := p.product()
	if !p.cur().isOp("~") {
		return first
	}
	c := &concatExpr{parts: []expr{first}, line: line}
	for p.skipOp("~") {
		c.parts = append(c.parts, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.binaries(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr {
	return p.binaries(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expr {
	p.down()
	defer p.up(1)
	t := p.cur()
	var e expr
	if t.isOp("-") || t.isOp("+") {
		p.next()
		e = &unaryExpr{op: t.text, x: p.unary(false), line: t.line}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filterExpr(e)
	}
	return e
}

// constants are the names of values.
var constants = map[string]Value{
	"true": boolValue(true), "True": boolValue(true), "false": boolValue(false), "False": boolValue(false),
	"none": noneValue{}, "None": noneValue{},
}

func (p *parser) primary() expr {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		if v := constants[t.text]; v != nil {
			return &constExpr{v}
		}
		p.read[t.text] = p.pos
		return &nameExpr{name: t.text, line: t.line, undef: &undefined{name: str(t.text, Trusted)}}
	case tokString:
		var b strings.Builder
		for p.cur().kind == tokString {
			b.WriteString(p.next().text)
		}
		return &constExpr{str(b.String(), Trusted)}
	case tokInt, tokFloat:
		p.next()
		return &constExpr{t.num}
	}
	switch {
	case t.isOp("("):
		p.next()
		e := p.tuple(tupleOpts{cond: true, parens: true})
		p.expectOp(")")
		return e
	case t.isOp("["):
		p.next()
		l := &listExpr{}
		for !p.cur().isOp("]") {
			if len(l.items) > 0 {
				p.expectOp(",")
				if p.cur().isOp("]") {
					break
				}
			}
			l.items = append(l.items, p.expression(true))
		}
		p.expectOp("]")
		return l
	case t.isOp("{"):
		return p.dict()
	}
	p.fail("unexpected %s", t.describe())
	return nil
}

func (p *parser) dict() expr {
	d := &dictExpr{line: p.next().line}
	for !p.cur().isOp("}") {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.cur().isOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression(true))
		p.expectOp(":")
		d.vals = append(d.vals, p.expression(true))
	}
	p.expectOp("}")
	return d
}

func (p *parser) postfix(e expr) expr {
	return p.chain(func() expr { return e }, func(e expr) expr {
		switch t := p.cur(); {
		case t.isOp("."), t.isOp("["):
			return p.subscript(e)
		case t.isOp("("):
			return p.call(e)
		}
		return nil
	})
}

func (p *parser) filterExpr(e expr) expr {
	return p.chain(func() expr { return e }, func(e expr) expr {
		switch t := p.cur(); {
		case t.isOp("|"):
			p.next()
			return p.filter(e)
		case t.isName("is"):
			return p.test(e)
		case t.isOp("("):
			return p.call(e)
		}
		return nil
	})
}

func (p *parser) subscript(e expr) expr {
	t := p.next()
	if t.text == "." {
		a := p.next()
		switch a.kind {
		case tokName:
			return &attrExpr{obj: e, name: str(a.text, Trusted), line: t.line}
		case tokInt:
			return &itemExpr{obj: e, key: &constExpr{a.num}, line: t.line}
		}
		syntaxError(a.line, "expected name or number")
	}
	var keys []expr
	for !p.cur().isOp("]") {
		if len(keys) > 0 {
			p.expectOp(",")
		}
		keys = append(keys, p.sliceOrKey(e, t.line))
	}
	p.expectOp("]")
	switch len(keys) {
	case 1:
		if s, ok := keys[0].(*sliceExpr); ok {
			return s
		}
		return &itemExpr{obj: e, key: keys[0], line: t.line}
	default:
		for _, k := range keys {
			if _, ok := k.(*sliceExpr); ok {
				syntaxError(t.line, "slices in tuples are not supported")
			}
		}
		return &itemExpr{obj: e, key: &listExpr{items: keys, tuple: true}, line: t.line}
	}
}

// sliceOrKey reads one subscript. A slice applies to obj.
func (p *parser) sliceOrKey(obj expr, line int) expr {
	s := &sliceExpr{obj: obj, line: line}
	if !p.cur().isOp(":") {
		k := p.expression(true)
		if !p.cur().isOp(":") {
			return k
		}
		s.start = k
	}
	p.next()
	end := func() bool { return p.cur().isOp("]") || p.cur().isOp(",") }
	if !p.cur().isOp(":") && !end() {
		s.stop = p.expression(true)
	}
	if p.skipOp(":") && !end() {
		s.step = p.expression(true)
	}
	return s
}

func (p *parser) call(fn expr) expr {
	line := p.cur().line
	return &callExpr{fn: fn, args: p.arguments(), line: line}
}

// maxNames limits the parameters of a macro and the keyword arguments of a call.
const maxNames = 1000

func (p *parser) fewNames(n int) {
	if n >= maxNames {
		panic(&Error{Kind: KindLimit, Line: p.cur().line, Message: fmt.Sprintf("more than %d parameters or keyword arguments",
			maxNames)})
	}
}

func (p *parser) arguments() arguments {
	var a arguments
	line := p.expectOp("(").line
	ensure := func(ok bool) {
		if !ok {
			syntaxError(line, "invalid syntax for function call expression")
		}
	}
	for first := true; !p.cur().isOp(")"); first = false {
		if !first {
			p.expectOp(",")
			if p.cur().isOp(")") {
				break
			}
		}
		switch t := p.cur(); {
		case t.isOp("*"):
			ensure(a.star == nil && a.kwstar == nil)
			p.next()
			a.star = p.expression(true)
		case t.isOp("**"):
			ensure(a.kwstar == nil)
			p.next()
			a.kwstar = p.expression(true)
		case t.kind == tokName && p.peek().isOp("="):
			ensure(a.kwstar == nil)
			p.fewNames(len(a.names))
			for _, n := range a.names {
				if n == t.text {
					syntaxError(t.line, "keyword argument repeated: %s", n)
				}
			}
			p.next()
			p.next()
			a.names = append(a.names, t.text)
			a.named = append(a.named, p.expression(true))
		default:
			ensure(a.star == nil && a.kwstar == nil && a.names == nil)
			a.pos = append(a.pos, p.expression(true))
		}
	}
	p.expectOp(")")
	return a
}

// dottedName reads the name of a filter or test.
func (p *parser) dottedName() (string, int) {
	t := p.expectName()
	name := t.text
	for p.skipOp(".") {
		name += "." + p.expectName().text
	}
	return name, t.line
}

func (p *parser) filter(e expr) expr {
	f := &applyExpr{obj: e, what: "filter"}
	f.name, f.line = p.dottedName()
	if p.cur().isOp("(") {
		f.args = p.arguments()
	}
	return f
}

// filters reads the filters of a block. inline says that the first stands without a bar.
func (p *parser) filters(inline bool) expr {
	var e expr = textExpr{}
	n := 0
	defer func() { p.up(n) }()
	for ; inline || p.skipOp("|"); inline = false {
		p.down()
		n++
		e = p.filter(e)
	}
	return e
}

func (p *parser) test(e expr) expr {
	p.next()
	negated := p.skipName("not")
	t := &applyExpr{obj: e, what: "test"}
	t.name, t.line = p.dottedName()
	switch c := p.cur(); {
	case c.isOp("("):
		t.args = p.arguments()
	case c.isName("else"), c.isName("or"), c.isName("and"):
	case c.isName("is"):
		p.fail("You cannot chain multiple tests with is")
	case c.kind == tokName, c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, c.isOp("["), c.isOp("{"):
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
