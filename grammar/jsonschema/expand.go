package jsonschema

import (
	"math/bits"
	"slices"
)

var free = func() (list [6][]*alt) {
	for i := range list {
		list[i] = []*alt{{kind: 1 << i}}
	}
	return list
}()

func slot(k kinds) int { return bits.TrailingZeros8(uint8(k)) }

// top returns the alternative of kind k without constraints.
func top(k kinds) []*alt { return free[slot(k)] }

// product returns the alternatives of "a and b".
func (c *compiler) product(a, b []*alt) []*alt {
	if len(a) == 1 && a[0].free() {
		return b
	}
	if len(b) == 1 && b[0].free() {
		return a
	}
	var out []*alt
	many := len(a)*len(b) > few
	for _, x := range a {
		for _, y := range b {
			m := c.merge(x, y)
			switch {
			case m == nil:
			case !many:
				out = append(out, m)
			case !c.emptyHere(m):
				out = c.absorb(out, m)
			}
		}
	}
	c.bound(len(out))
	return out
}

// few is the number of alternatives up to which a search for superfluous ones does not pay.
const few = 4

// absorb adds m to a list unless another element contains it, and drops the elements that m contains.
func (c *compiler) absorb(list []*alt, m *alt) []*alt {
	c.step(1 + len(list)/8)
	for _, a := range list {
		if m.within(a) {
			return list
		}
	}
	return append(slices.DeleteFunc(list, func(a *alt) bool { return a.within(m) }), m)
}

// emptyHere reports whether a plainly has no instance among the values under consideration.
func (c *compiler) emptyHere(a *alt) bool {
	if c.given != nil {
		if a = c.merge(c.given, a); a == nil {
			return true
		}
	}
	return c.plainlyEmpty(a)
}

// plain returns what l demands of values of kind k outside its branches. Every alternative of l includes it.
func (c *compiler) plain(l literal, k kinds, levels int) *alt {
	n := c.of(l)
	if l.negated() || n.always != 0 || n.types&k == 0 || levels == 0 {
		return top(k)[0]
	}
	a := c.own(n, k)
	if n.logic == nil {
		return a
	}
	inner := n.logic.all
	if n.logic.ref != nil {
		inner = append(slices.Clone(inner), n.logic.ref)
	}
	for _, s := range inner {
		if b := c.merge(a, c.plain(holds(s), k, levels-1)); b != nil {
			a = b
		}
	}
	return a
}

// expand returns the alternatives of kind k in which l holds.
func (c *compiler) expand(l literal, k kinds) []*alt {
	n := c.of(l)
	if n.always != 0 {
		if (n.always > 0) != l.negated() {
			return top(k)
		}
		return nil
	}
	c.step(1)
	if n.busy == c.generation || c.inPlace > maxInPlace {
		c.failLoop(n)
	}
	defer func(before int) { n.busy = before; c.inPlace-- }(n.busy)
	n.busy = c.generation
	c.inPlace++
	if l.negated() {
		return c.expandNegated(n, k)
	}
	return c.expandHeld(n, k)
}

// failLoop refuses a schema that refers to itself for the same value.
func (c *compiler) failLoop(n *node) {
	fail(c.errorAt(ErrUnsupported, n, "$ref", "the schema refers to itself without descending into the instance"))
}

// maxInPlace limits how many schemas may apply to one value through references from one to the next.
const maxInPlace = 500

func (c *compiler) expandHeld(n *node, k kinds) []*alt {
	if n.types&k == 0 {
		return nil
	}
	scope := n.unevaluated(k)
	if scope != nil {
		c.scopes++
	}
	alts := top(k)
	if n.logic == nil {
		alts = []*alt{c.own(n, k)}
	} else {
		for _, f := range n.logic.order {
			if alts = c.product(alts, c.factor(n, f, k)); len(alts) == 0 {
				break
			}
		}
	}
	if scope != nil {
		c.scopes--
		alts = c.closeOff(n, scope, alts, k)
	}
	return alts
}

func (c *compiler) factor(n *node, f factor, k kinds) []*alt {
	l := n.logic
	switch f {
	case ownFactor:
		return []*alt{c.own(n, k)}
	case refFactor:
		return c.expand(holds(l.ref), k)
	case allFactor:
		alts := top(k)
		for _, s := range l.all {
			alts = c.product(alts, c.expand(holds(s), k))
		}
		return alts
	case anyFactor:
		return c.anyOf(n, l.any, k)
	case oneFactor:
		return c.oneOf(l.one, k)
	case notFactor:
		return c.expand(violates(l.not), k)
	case ifFactor:
		return c.conditional(l, k)
	}
	return c.dependencies(n, k)
}

// own returns what the keywords of n itself demand of values of kind k.
func (c *compiler) own(n *node, k kinds) *alt {
	if a := n.top[slot(k)]; a != nil && c.scopes == 0 {
		return a
	}
	a := &alt{kind: k}
	if n.enum != nil {
		a.finite = true
		for _, v := range n.enum.list {
			if v.kinds() == k {
				a.values = append(a.values, v)
			}
		}
	}
	switch k {
	case numberKind:
		a.num = n.num
		if n.integer {
			part := numberPart{}
			if n.num != nil {
				part = *n.num
			}
			part.integer = true
			a.num = &part
		}
	case stringKind:
		a.str = n.str
	case arrayKind:
		if n.arr != nil {
			a.arr = n.arr.part(n)
		}
	case objectKind:
		if n.obj != nil {
			a.obj = n.obj.part(n)
		}
	}
	if c.scopes > 0 && (k == arrayKind && n.arr != nil || k == objectKind && n.obj != nil) {
		a.held = []*node{n}
	} else {
		n.top[slot(k)] = a
	}
	return a
}

func (w *arrayWords) part(n *node) *arrayPart {
	p := &arrayPart{min: w.min, max: w.max}
	if w.unique {
		p.unique = n
	}
	if len(w.prefix) > 0 || w.items != nil {
		s := itemSource{rest: anything}
		for _, item := range w.prefix {
			s.prefix = append(s.prefix, holds(item))
		}
		if w.items != nil {
			s.rest = holds(w.items)
		}
		p.sources = []itemSource{s}
	}
	if w.contains != nil && (w.minContains > 0 || w.maxContains >= 0) {
		p.counts = []counting{{item: holds(w.contains), min: w.minContains, max: w.maxContains}}
	}
	return p
}

func (w *objectWords) part(n *node) *objectPart {
	p := &objectPart{required: w.required, min: w.min, max: w.max}
	if len(w.props) > 0 || len(w.patterns) > 0 || w.additional != nil {
		s := &keySource{nodes: []*node{n}, own: true, others: anything}
		if w.additional != nil {
			s.others = holds(w.additional)
		}
		p.sources = []*keySource{s}
	}
	if w.names != nil {
		p.names = []literal{holds(w.names)}
	}
	return p
}

// anyOf returns the alternatives in which one of the branches holds. If it matters which ones hold, every combination
// is an alternative of its own.
func (c *compiler) anyOf(n *node, branches []*node, k kinds) []*alt {
	var out []*alt
	if c.scopes == 0 {
		for _, s := range branches {
			alts := c.expand(holds(s), k)
			if len(alts) == 1 && alts[0].free() {
				return alts
			}
			out = append(out, alts...)
		}
		c.bound(len(out))
		return out
	}
	if len(branches) > maxCombined {
		return []*alt{{kind: k, poison: &poison{n, "anyOf",
			"too many branches under a keyword that asks which of them hold"}}}
	}
	for set := 1; set < 1<<len(branches); set++ {
		alts := top(k)
		for i, s := range branches {
			l := holds(s)
			if set>>i&1 == 0 {
				l = violates(s)
			}
			alts = c.product(alts, c.expand(l, k))
		}
		out = append(out, alts...)
	}
	return c.tidy(out)
}

// tidy returns the same alternatives without those that are plainly superfluous.
func (c *compiler) tidy(alts []*alt) []*alt {
	for _, a := range alts {
		if a.free() {
			return []*alt{a}
		}
	}
	c.bound(len(alts))
	return alts
}

const maxCombined = 4

// oneOf returns the alternatives in which exactly one branch holds. It leaves out the negation of a branch that plainly
// has no instance in common with the one that holds.
func (c *compiler) oneOf(branches []*node, k kinds) []*alt {
	lists := make([][]*alt, len(branches))
	for i, s := range branches {
		lists[i] = c.expand(holds(s), k)
	}
	var out []*alt
	for i, list := range lists {
		for _, a := range list {
			alts := []*alt{a}
			for j, others := range lists {
				if i == j || len(others) == 0 || a.finite || c.disjoint(a, branches[i], others) {
					continue // values are checked against the whole schema in the end
				}
				alts = c.product(alts, c.expand(violates(branches[j]), k))
			}
			out = append(out, alts...)
		}
		c.bound(len(out))
	}
	return out
}

// disjoint reports whether a, an alternative of branch, plainly has no instance in common with any of others.
func (c *compiler) disjoint(a *alt, branch *node, others []*alt) bool {
	for _, b := range others {
		if b.finite {
			for _, v := range b.values {
				if c.valid(holds(branch), v) {
					return false
				}
			}
			continue
		}
		if m := c.merge(a, b); m != nil && !c.emptyHere(m) {
			return false
		}
	}
	return true
}

func (c *compiler) conditional(l *logicWords, k kinds) []*alt {
	if l.then == nil && l.other == nil && c.scopes == 0 {
		return top(k)
	}
	branch := func(cond literal, then *node) []*alt {
		alts := c.expand(cond, k)
		if then != nil && len(alts) > 0 {
			alts = c.product(alts, c.expand(holds(then), k))
		}
		return alts
	}
	yes, no := branch(holds(l.cond), l.then), branch(violates(l.cond), l.other)
	return join(yes, no)
}

func (c *compiler) dependencies(n *node, k kinds) []*alt {
	if k != objectKind {
		return top(k)
	}
	alts := top(k)
	for _, d := range n.obj.needs {
		absent := &alt{kind: k, obj: &objectPart{forbidden: []string{d.key}, max: -1}}
		present := []*alt{{kind: k, obj: &objectPart{required: union([]string{d.key}, d.required), max: -1}}}
		if d.node != nil {
			present = c.product(present, c.expand(holds(d.node), k))
		}
		alts = c.product(alts, append([]*alt{absent}, present...))
	}
	return alts
}
