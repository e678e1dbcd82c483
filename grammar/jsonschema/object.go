package jsonschema

import (
	"fmt"
	"slices"
	"sync"

	"runner/grammar/expr"
	"runner/grammar/jsontext"
)

// keyLits returns what p demands of the value of a key. It does not say whether the key is allowed.
func (c *compiler) keyLits(p *objectPart, key string) []literal {
	var list []literal
	for _, s := range p.sources {
		list = c.keyed(s, key, list)
	}
	for _, e := range p.extra {
		if e.key == key {
			list = append(list, e.item)
		}
	}
	return list
}

// admitsKey reports whether the key's name allows it.
func (c *compiler) admitsKey(p *objectPart, key string) bool {
	return len(p.names) == 0 || c.allValid(p.names, &value{kind: stringValue, text: key})
}

// namedKeys returns the keys that p names, in the order in which they are written.
func (p *objectPart) namedKeys() []string {
	var keys []string
	seen := map[string]bool{}
	add := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, s := range p.sources {
		for _, n := range s.nodes {
			for _, prop := range n.obj.props {
				add(prop.key)
			}
		}
	}
	for _, key := range p.required {
		add(key)
	}
	for _, e := range p.extra {
		add(e.key)
	}
	for _, key := range p.forbidden {
		add(key)
	}
	return keys
}

// objectForm describes the objects of one alternative: named members in order, then free ones.
type objectForm struct {
	props    []objectProp
	free     []freeMember
	last     []freeMember // if mustLast, the last member is one of these
	mustLast bool
	min, max int // max < 0 means no limit
	// most is the maximum number of free members; negative means no limit.
	most  int
	state *state

	// settle sets these.
	atLeast, atMost []int // how many of the props from i on are there

	mu    sync.Mutex
	rules map[objectPlace]*expr.Rule
}

type objectProp struct {
	key      string
	name     jsontext.Form
	state    *state
	required bool
}

// freeMember is a class of keys with the state of their values. Classes with different states have no key in common, so
// a repeated key cannot bring in an invalid value.
type freeMember struct {
	name  jsontext.Form
	state *state
}

// objectPlace is a position in an object: the next prop, the number of members so far (if that matters), and whether a
// comma is due.
type objectPlace struct {
	prop, count int
	comma       bool
}

func (c *compiler) finishObject(st *state, a *alt) {
	if a.obj == nil {
		st.forms = append(st.forms, scalar(c.values().Object))
		return
	}
	c.finishExisting(st, a.obj, nil)
}

// finishExisting finds a place for every property that must exist somewhere, first among the named keys and then among
// the free ones.
func (c *compiler) finishExisting(st *state, p *objectPart, last []existence) {
	c.step(4)
	if len(p.exists) == 0 {
		c.finishKeys(st, p, last)
		return
	}
	e := p.exists[0]
	with := func(more *objectPart) *objectPart {
		more.max = -1
		q, ok := p.merge(more)
		if !ok {
			return nil
		}
		q.exists = p.exists[1:]
		return q
	}
	candidates, closed := p.namedKeys(), false
	for _, names := range [][]literal{p.names, e.names()} {
		if list, finite := c.finiteNames(names); finite {
			candidates, closed = union(candidates, list), true
		}
	}
	for _, key := range candidates {
		more := &objectPart{required: []string{key}}
		switch {
		case slices.Contains(p.forbidden, key):
			continue
		case e.class == byName:
			if !c.valid(e.item, &value{kind: stringValue, text: key}) {
				continue
			}
		case c.concerns(e, key):
			more.extra = []keyed{{key, e.item}}
		default:
			continue
		}
		if q := with(more); q != nil {
			c.finishExisting(st, q, last)
		}
	}
	if !closed {
		c.finishExisting(st, with(&objectPart{}), append(slices.Clone(last), e))
	}
}

// names returns what e demands of the key.
func (e existence) names() []literal {
	if e.class == byName {
		return []literal{e.item}
	}
	return nil
}

// concerns reports whether e constrains the value of a key.
func (c *compiler) concerns(e existence, key string) bool {
	if e.class == byPattern {
		return c.finds(e.node, e.pattern, key)
	}
	return e.node.obj.prop(key) == nil && !slices.ContainsFunc(e.node.obj.patterns, func(p property) bool {
		return c.finds(e.node, p.key, key)
	})
}

func (c *compiler) finishKeys(st *state, p *objectPart, last []existence) {
	f := &objectForm{min: p.min, max: p.max, most: -1, state: st, mustLast: len(last) > 0}
	if c.opt.Plain {
		f.most = jsontext.PlainMembers
	}
	keys := p.namedKeys()
	names, finite := c.finiteNames(p.names)
	if finite {
		keys = union(keys, names)
	}
	for _, key := range keys {
		required := slices.Contains(p.required, key)
		child := c.nothing
		if !slices.Contains(p.forbidden, key) && c.admitsKey(p, key) {
			child = c.stateOf(c.keyLits(p, key)...)
		}
		if child == c.nothing {
			if required {
				return
			}
			continue
		}
		f.props = append(f.props, objectProp{key, jsontext.LiteralString(key), child, required})
	}
	if !finite && f.max != 0 {
		f.free = c.freeMembers(st, p, keys, existence{node: nil})
		if len(last) > 0 {
			f.last = c.freeMembers(st, p, keys, last[0])
		}
	}
	if len(last) > 1 {
		if len(f.free) == 0 {
			return
		}
		fail(c.errorAt(ErrUnsupported, last[1].node, last[1].keyword(),
			"more than one negated keyword asks for a property of any name"))
	}
	st.forms = append(st.forms, f)
}

func (e existence) keyword() string {
	return [...]string{byPattern: "patternProperties", byRest: "additionalProperties", byName: "propertyNames"}[e.class]
}

// finiteNames returns the keys that satisfy names. It reports false if they are not finitely many.
func (c *compiler) finiteNames(names []literal) ([]string, bool) {
	if len(names) == 0 {
		return nil, false
	}
	st := c.stateOf(names...)
	c.open(st)
	if st == c.any || slices.ContainsFunc(st.alts, func(a *alt) bool { return a.kind == stringKind }) {
		return nil, false
	}
	var keys []string
	for _, v := range st.values.list {
		if v.kind == stringValue {
			keys = append(keys, v.text)
		}
	}
	return keys, true
}

func (f *objectForm) reach(visit func(*state)) {
	for _, p := range f.props {
		visit(p.state)
	}
	for _, m := range f.free {
		visit(m.state)
	}
	for _, m := range f.last {
		visit(m.state)
	}
}

func anyLive(list []freeMember) bool {
	return slices.ContainsFunc(list, func(m freeMember) bool { return m.state.live })
}

func (f *objectForm) hasInstance() bool {
	if f.mustLast && !anyLive(f.last) {
		return false
	}
	needed, possible := 0, 0
	for _, p := range f.props {
		switch {
		case p.state.live && p.required:
			needed++
			possible++
		case p.state.live:
			possible++
		case p.required:
			return false
		}
	}
	if f.mustLast {
		needed++
	}
	if anyLive(f.free) || f.mustLast {
		possible = max(possible+1, f.min)
	}
	return possible >= f.min && (f.max < 0 || needed <= f.max)
}

func (f *objectForm) settle(c *compiler) {
	f.props = slices.DeleteFunc(f.props, func(p objectProp) bool { return !p.state.live })
	dead := func(m freeMember) bool { return !m.state.live }
	f.free, f.last = slices.DeleteFunc(f.free, dead), slices.DeleteFunc(f.last, dead)
	n := len(f.props)
	f.atLeast, f.atMost = make([]int, n+1), make([]int, n+1)
	if f.mustLast {
		f.atLeast[n] = 1
	}
	if len(f.free) > 0 || f.mustLast {
		f.atMost[n] = 1 // as two free keys may be the same
	}
	for i := n - 1; i >= 0; i-- {
		f.atLeast[i], f.atMost[i] = f.atLeast[i+1], f.atMost[i+1]+1
		if f.props[i].required {
			f.atLeast[i]++
		}
	}
	if distinct := f.atLeast[0] + 1 - f.atLeast[n]; f.atMost[n] > 0 && f.min > distinct {
		fail(c.errorAt(ErrUnsupported, c.holder(f.state, "minProperties"), "minProperties",
			"two keys that the schema does not name cannot be kept from being the same"))
	}
	if f.min <= f.atLeast[0] {
		f.min = 0
	}
	if len(f.free) == 0 && f.max >= f.atMost[0] {
		f.max = -1
	}
	f.rules = map[objectPlace]*expr.Rule{}
}

func (f *objectForm) expr(s *expr.Set) expr.ID {
	return s.Concat(s.Literal("{"), s.Rule(f.rule(objectPlace{})))
}

func (f *objectForm) rule(at objectPlace) *expr.Rule {
	if f.min == 0 && f.max < 0 {
		at.count = 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.rules[at]
	if !ok {
		r = &expr.Rule{Name: fmt.Sprintf("object %d", at.prop), Expand: func(s *expr.Set) expr.ID { return f.members(s, at) }}
		f.rules[at] = r
	}
	return r
}

// possible reports whether the object can be completed with the props from i on, after count members.
func (f *objectForm) possible(i, count int) bool {
	return count+f.atMost[i] >= f.min && (f.max < 0 || count+f.atLeast[i] <= f.max)
}

// members is the rest of the object.
func (f *objectForm) members(s *expr.Set, at objectPlace) expr.ID {
	var next []expr.ID
	i := at.prop
	for ; i < len(f.props); i++ {
		p := &f.props[i]
		if f.possible(i+1, at.count+1) {
			rest := f.rule(objectPlace{i + 1, at.count + 1, true})
			next = append(next, s.Concat(p.name(s), colon(s), p.state.expr(s), s.Rule(rest)))
		}
		if p.required || !f.possible(i+1, at.count) {
			break
		}
	}
	end := expr.Empty
	if i == len(f.props) {
		if end = s.Literal("}"); at.count < f.min || f.mustLast {
			end = expr.Empty
		}
		if f.max < 0 || at.count < f.max {
			next = append(next, f.freeRest(s, at.count))
		}
	}
	if all := s.Union(next...); at.comma {
		return s.Union(s.Concat(comma(s), all), end)
	} else {
		return s.Union(all, end)
	}
}

// freeRest is one or more free members and the end of the object.
func (f *objectForm) freeRest(s *expr.Set, count int) expr.ID {
	member := func(list []freeMember) expr.ID {
		var any []expr.ID
		for _, m := range list {
			any = append(any, s.Concat(m.name(s), colon(s), m.state.expr(s)))
		}
		return s.Union(any...)
	}
	most := f.most - 1
	if left := f.max - count - 1; f.max >= 0 && (f.most < 0 || left < most) {
		most = left
	}
	one := member(f.free)
	if f.mustLast {
		return s.Concat(s.Repeat(s.Concat(one, comma(s)), 0, most), member(f.last), s.Literal("}"))
	}
	return s.Concat(one, s.Repeat(s.Concat(comma(s), one), 0, most), s.Literal("}"))
}

func colon(s *expr.Set) expr.ID { return s.Concat(s.Literal(":"), s.Optional(s.Literal(" "))) }
func comma(s *expr.Set) expr.ID { return s.Concat(s.Literal(","), s.Optional(s.Literal(" "))) }
