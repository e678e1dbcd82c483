package jsonschema

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// valid reports whether a value from the schema itself (enum, const or a key) satisfies l.
func (c *compiler) valid(l literal, v *value) bool {
	c.step(1)
	n := c.of(l)
	if c.inPlace++; c.inPlace > maxInPlace {
		c.failLoop(n)
	}
	defer func() { c.inPlace-- }()
	return c.satisfies(n, v) != l.negated()
}

func (c *compiler) allValid(list []literal, v *value) bool {
	for _, l := range list {
		if !c.valid(l, v) {
			return false
		}
	}
	return true
}

func (c *compiler) satisfies(n *node, v *value) bool {
	if n.always != 0 {
		return n.always > 0
	}
	k := v.kinds()
	if n.types&k == 0 || n.enum != nil && !n.enum.has(v) {
		return false
	}
	ok := true
	switch k {
	case numberKind:
		ok = (!n.integer || v.num.IsInt()) && (n.num == nil || n.num.admits(v.num))
	case stringKind:
		ok = n.str == nil || c.admitsString(n, v.text)
	case arrayKind:
		ok = n.arr == nil || c.admitsArray(n, v)
	case objectKind:
		ok = n.obj == nil || c.admitsObject(n, v)
	}
	return ok && (n.logic == nil || c.admitsLogic(n.logic, v))
}

func (p *numberPart) admits(x *big.Rat) bool {
	if p.min != nil {
		if d := x.Cmp(p.min); d < 0 || d == 0 && p.exclMin {
			return false
		}
	}
	if p.max != nil {
		if d := x.Cmp(p.max); d > 0 || d == 0 && p.exclMax {
			return false
		}
	}
	return !slices.ContainsFunc(p.multiple, func(m *big.Rat) bool { return !new(big.Rat).Quo(x, m).IsInt() })
}

func (c *compiler) admitsString(n *node, text string) bool {
	p := n.str
	length := utf8.RuneCountInString(text)
	if length < p.min || p.max >= 0 && length > p.max {
		return false
	}
	for _, pattern := range p.patterns {
		if !c.finds(n, pattern, text) {
			return false
		}
	}
	for _, format := range p.formats {
		if !c.hasFormat(n, format, text) {
			return false
		}
	}
	return true
}

func (c *compiler) admitsArray(n *node, v *value) bool {
	w := n.arr
	if w.unevaluated != nil {
		fail(c.errorAt(ErrUnsupported, n, "unevaluatedItems", "it applies to the values of an enum or const"))
	}
	if len(v.items) < w.min || w.max >= 0 && len(v.items) > w.max {
		return false
	}
	found := 0
	for i, item := range v.items {
		switch {
		case i < len(w.prefix):
			if !c.valid(holds(w.prefix[i]), item) {
				return false
			}
		case w.items != nil && !c.valid(holds(w.items), item):
			return false
		}
		if w.contains != nil && c.valid(holds(w.contains), item) {
			found++
		}
	}
	if w.unique && len(newValueSet(v.items).list) < len(v.items) {
		return false
	}
	return w.contains == nil || found >= w.minContains && (w.maxContains < 0 || found <= w.maxContains)
}

func (c *compiler) admitsObject(n *node, v *value) bool {
	w := n.obj
	if w.unevaluated != nil {
		fail(c.errorAt(ErrUnsupported, n, "unevaluatedProperties", "it applies to the values of an enum or const"))
	}
	if len(v.members) < w.min || w.max >= 0 && len(v.members) > w.max {
		return false
	}
	for _, key := range w.required {
		if v.get(key) == nil {
			return false
		}
	}
	for _, m := range v.members {
		if !c.allValid(c.ownKey(n, m.key), m.value) {
			return false
		}
		if w.names != nil && !c.valid(holds(w.names), &value{kind: stringValue, text: m.key}) {
			return false
		}
	}
	return c.admitsNeeds(n, v)
}

// ownKey returns what the keywords of n demand of the value of a key.
func (c *compiler) ownKey(n *node, key string) []literal {
	others := anything
	if n.obj.additional != nil {
		others = holds(n.obj.additional)
	}
	return c.keyed(&keySource{nodes: []*node{n}, own: true, others: others}, key, nil)
}

// keyed appends to list what a source demands of the value of a key.
func (c *compiler) keyed(s *keySource, key string, list []literal) []literal {
	known := false
	for _, n := range s.nodes {
		if p := n.obj.prop(key); p != nil {
			known = true
			if s.own {
				list = append(list, holds(p))
			}
		}
		for _, p := range n.obj.patterns {
			if c.finds(n, p.key, key) {
				known = true
				if s.own {
					list = append(list, holds(p.node))
				}
			}
		}
	}
	if !known && s.others != anything {
		list = append(list, s.others)
	}
	return list
}

func (c *compiler) admitsLogic(l *logicWords, v *value) bool {
	if l.ref != nil && !c.valid(holds(l.ref), v) {
		return false
	}
	for _, s := range l.all {
		if !c.valid(holds(s), v) {
			return false
		}
	}
	holding := func(list []*node) (count int) {
		for _, s := range list {
			if c.valid(holds(s), v) {
				count++
			}
		}
		return count
	}
	if l.any != nil && holding(l.any) == 0 || l.one != nil && holding(l.one) != 1 {
		return false
	}
	if l.not != nil && c.valid(holds(l.not), v) {
		return false
	}
	if l.cond != nil {
		then := l.other
		if c.valid(holds(l.cond), v) {
			then = l.then
		}
		return then == nil || c.valid(holds(then), v)
	}
	return true
}

// admitsNeeds checks the dependencies of n.
func (c *compiler) admitsNeeds(n *node, v *value) bool {
	for _, d := range n.obj.needs {
		if v.get(d.key) == nil {
			continue
		}
		if d.node != nil && !c.valid(holds(d.node), v) || slices.ContainsFunc(d.required, func(key string) bool {
			return v.get(key) == nil
		}) {
			return false
		}
	}
	return true
}
