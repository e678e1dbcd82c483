package jsonschema

import (
	"math/big"
)

// expandNegated returns the alternatives of kind k that violate n, that is, at least one of its keywords.
func (c *compiler) expandNegated(n *node, k kinds) []*alt {
	if n.types&k == 0 {
		return top(k)
	}
	defer func(scopes int) { c.scopes = scopes }(c.scopes)
	c.scopes = 0 // nothing under a negation counts as evaluated
	var out []*alt
	if n.enum != nil {
		out = c.violateEnum(n, k)
	}
	switch k {
	case numberKind:
		out = append(out, violateNumber(n)...)
	case stringKind:
		out = append(out, violateString(n)...)
	case arrayKind:
		out = append(out, c.violateArray(n)...)
	case objectKind:
		out = append(out, c.violateObject(n)...)
	}
	if l := n.logic; l != nil {
		out = append(out, c.violateLogic(n, l, k)...)
	}
	return c.tidy(out)
}

// violateEnum returns the alternatives that equal none of the values. Arrays and objects are turned into schemas.
func (c *compiler) violateEnum(n *node, k kinds) []*alt {
	var except []*value
	alts := top(k)
	for _, v := range n.enum.list {
		if c.step(1); v.kinds() != k {
			continue
		}
		switch k {
		case numberKind, stringKind:
			except = append(except, v)
		case arrayKind, objectKind:
			alts = c.product(alts, c.expand(violates(c.exactly(v)), k))
		}
	}
	if except != nil {
		return []*alt{{kind: k, except: except}}
	}
	return alts
}

// exactly returns a schema for exactly one value. For an array or object it uses no enum.
func (c *compiler) exactly(v *value) *node {
	if s, ok := c.exact[v]; ok {
		return s
	}
	n := &node{types: v.kinds()}
	switch v.kind {
	case arrayValue:
		n.arr = &arrayWords{min: len(v.items), max: len(v.items), maxContains: -1}
		for _, item := range v.items {
			n.arr.prefix = append(n.arr.prefix, c.exactly(item))
		}
	case objectValue:
		n.obj = &objectWords{max: -1, additional: c.never}
		for _, m := range v.members {
			n.obj.props = append(n.obj.props, property{m.key, c.exactly(m.value)})
			n.obj.required = append(n.obj.required, m.key)
		}
	default:
		n.enum = newValueSet([]*value{v})
	}
	c.exact[v] = c.synthetic(n)
	return n
}

func violateNumber(n *node) []*alt {
	var out []*alt
	add := func(p numberPart) { out = append(out, &alt{kind: numberKind, num: &p}) }
	if n.integer {
		add(numberPart{fractional: true})
	}
	if p := n.num; p != nil {
		if p.min != nil {
			add(numberPart{max: p.min, exclMax: !p.exclMin})
		}
		if p.max != nil {
			add(numberPart{min: p.max, exclMin: !p.exclMax})
		}
		for _, m := range p.multiple {
			add(numberPart{notMultiple: []*big.Rat{m}})
		}
	}
	return out
}

func violateString(n *node) []*alt {
	var out []*alt
	add := func(p stringPart) { out = append(out, &alt{kind: stringKind, str: &p}) }
	if p := n.str; p != nil {
		if p.min > 0 {
			add(stringPart{max: p.min - 1})
		}
		if p.max >= 0 {
			add(stringPart{min: p.max + 1, max: -1})
		}
		for _, pattern := range p.patterns {
			add(stringPart{max: -1, notPatterns: []string{pattern}})
		}
		for _, format := range p.formats {
			add(stringPart{max: -1, notFormats: []string{format}})
		}
	}
	return out
}

func (c *compiler) violateArray(n *node) []*alt {
	w := n.arr
	if w == nil {
		return nil
	}
	var out []*alt
	add := func(p arrayPart) { out = append(out, &alt{kind: arrayKind, arr: &p}) }
	if w.min > 0 {
		add(arrayPart{max: w.min - 1})
	}
	if w.max >= 0 {
		add(arrayPart{min: w.max + 1, max: -1})
	}
	for i, item := range w.prefix {
		if c.load(item).always <= 0 {
			s := itemSource{rest: anything}
			for range i {
				s.prefix = append(s.prefix, anything)
			}
			s.prefix = append(s.prefix, violates(item))
			add(arrayPart{sources: []itemSource{s}, min: i + 1, max: -1})
		}
	}
	if w.items != nil && c.load(w.items).always <= 0 {
		add(arrayPart{counts: []counting{{item: violates(w.items), from: len(w.prefix), min: 1, max: -1}}, max: -1})
	}
	if w.contains != nil {
		if w.minContains > 0 {
			add(arrayPart{counts: []counting{{item: holds(w.contains), max: w.minContains - 1}}, max: -1})
		}
		if w.maxContains >= 0 {
			add(arrayPart{counts: []counting{{item: holds(w.contains), min: w.maxContains + 1, max: -1}}, max: -1})
		}
	}
	if w.unique {
		out = append(out, &alt{kind: arrayKind, poison: &poison{n, "uniqueItems", "its negation cannot be kept"}})
	}
	if w.unevaluated != nil {
		out = append(out, &alt{kind: arrayKind, poison: &poison{n, "unevaluatedItems", "its negation cannot be kept"}})
	}
	return out
}

func (c *compiler) violateObject(n *node) []*alt {
	w := n.obj
	if w == nil {
		return nil
	}
	var out []*alt
	add := func(p objectPart) { out = append(out, &alt{kind: objectKind, obj: &p}) }
	for _, key := range w.required {
		add(objectPart{forbidden: []string{key}, max: -1})
	}
	for _, p := range w.props {
		if c.load(p.node).always <= 0 {
			add(objectPart{required: []string{p.key}, extra: []keyed{{p.key, violates(p.node)}}, max: -1})
		}
	}
	for _, p := range w.patterns {
		if c.load(p.node).always <= 0 {
			add(objectPart{exists: []existence{{node: n, class: byPattern, pattern: p.key, item: violates(p.node)}}, max: -1})
		}
	}
	if w.additional != nil && c.load(w.additional).always <= 0 {
		add(objectPart{exists: []existence{{node: n, class: byRest, item: violates(w.additional)}}, max: -1})
	}
	if w.names != nil && c.load(w.names).always <= 0 {
		add(objectPart{exists: []existence{{node: n, class: byName, item: violates(w.names)}}, max: -1})
	}
	if w.min > 0 {
		add(objectPart{max: w.min - 1})
	}
	if w.max >= 0 {
		add(objectPart{min: w.max + 1, max: -1})
	}
	for _, d := range w.needs {
		for _, key := range d.required {
			if key != d.key {
				add(objectPart{required: []string{d.key}, forbidden: []string{key}, max: -1})
			}
		}
		if d.node != nil {
			present := []*alt{{kind: objectKind, obj: &objectPart{required: []string{d.key}, max: -1}}}
			out = append(out, c.product(present, c.expand(violates(d.node), objectKind))...)
		}
	}
	if w.unevaluated != nil {
		out = append(out, &alt{kind: objectKind, poison: &poison{n, "unevaluatedProperties", "its negation cannot be kept"}})
	}
	return out
}

func (c *compiler) violateLogic(n *node, l *logicWords, k kinds) []*alt {
	var out []*alt
	none := func(list []*node) []*alt {
		alts := top(k)
		for _, s := range list {
			alts = c.product(alts, c.expand(violates(s), k))
		}
		return alts
	}
	if l.ref != nil {
		out = append(out, c.expand(violates(l.ref), k)...)
	}
	for _, s := range l.all {
		out = append(out, c.expand(violates(s), k)...)
	}
	if l.any != nil {
		out = append(out, none(l.any)...)
	}
	if l.one != nil {
		out = append(out, none(l.one)...)
		for i, s := range l.one {
			first := c.expand(holds(s), k)
			for _, t := range l.one[i+1:] {
				out = append(out, c.product(first, c.expand(holds(t), k))...)
			}
		}
	}
	if l.not != nil {
		out = append(out, c.expand(holds(l.not), k)...)
	}
	if l.cond != nil {
		if l.then != nil {
			out = append(out, c.product(c.expand(holds(l.cond), k), c.expand(violates(l.then), k))...)
		}
		if l.other != nil {
			out = append(out, c.product(c.expand(violates(l.cond), k), c.expand(violates(l.other), k))...)
		}
	}
	return out
}
