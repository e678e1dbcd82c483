package jsonschema

import (
	"encoding/binary"
	"slices"

	"runner/grammar/expr"
	"runner/grammar/jsontext"
)

// state is a conjunction of literals. It is a nonterminal of the grammar. A schema has finitely many, so recursion
// returns to an existing one.
type state struct {
	lits   []literal
	rule   expr.Rule
	phase  phase
	values valueSet // the instances that enum, const, null and booleans give
	alts   []*alt   // the other instances, by kind
	forms  []form   // of both, once the state is reached
	live   bool     // it has an instance
}

type phase uint8

const (
	untouched phase = iota
	opening
	opened  // values and alts are known
	reached // forms are known or being computed
)

// form is an alternative of a state, ready to become an expression.
type form interface {
	// reach calls visit for every state that the form refers to.
	reach(visit func(*state))
	// hasInstance reports whether there is an instance, based on what is known about the states it refers to.
	hasInstance() bool
	// settle is called once, when it is known which states have instances. It checks what could not be checked before.
	settle(c *compiler)
	expr(s *expr.Set) expr.ID
}

// scalar is a form that refers to no states.
type scalar jsontext.Form

func (f scalar) reach(func(*state))       {}
func (f scalar) hasInstance() bool        { return true }
func (f scalar) settle(*compiler)         {}
func (f scalar) expr(s *expr.Set) expr.ID { return f(s) }

// stateOf returns the state of a conjunction. It replaces schemas that only refer to others by those others.
func (c *compiler) stateOf(lits ...literal) *state {
	var list []literal
	for hops := 0; len(lits) > 0; hops++ {
		l := lits[0]
		lits = lits[1:]
		if l == anything {
			continue
		}
		n := c.of(l)
		if hops > maxInPlace {
			c.failLoop(n)
		}
		switch inner := n.wraps(); {
		case n.always != 0:
			if (n.always > 0) == l.negated() {
				return c.nothing
			}
		case inner == notFactor:
			lits = slices.Insert(slices.Clone(lits), 0, violates(n.logic.not)^l&1)
		case inner == refFactor:
			lits = slices.Insert(slices.Clone(lits), 0, holds(n.logic.ref)|l&1)
		case inner == allFactor && (!l.negated() || len(n.logic.all) == 1):
			parts := make([]literal, len(n.logic.all), len(n.logic.all)+len(lits))
			for i, s := range n.logic.all {
				parts[i] = holds(s) | l&1
			}
			lits = append(parts, lits...)
		case slices.Contains(list, l.negate()):
			return c.nothing
		case !slices.Contains(list, l):
			list = append(list, l)
		}
	}
	return c.intern(list)
}

// wraps returns the factor of a schema that has only one and nothing else. It returns ownFactor for other schemas.
func (n *node) wraps() factor {
	l := n.logic
	if l == nil || n.types != allKinds || n.integer || n.enum != nil || n.num != nil || n.str != nil || n.arr != nil ||
		n.obj != nil {
		return ownFactor
	}
	var only factor
	for _, f := range l.order {
		if f != ownFactor {
			if only != ownFactor {
				return ownFactor
			}
			only = f
		}
	}
	return only
}

func (c *compiler) intern(list []literal) *state {
	if len(list) == 0 {
		return c.any
	}
	sorted := list
	if !slices.IsSorted(list) {
		sorted = slices.Clone(list)
		slices.Sort(sorted)
	}
	c.key = c.key[:0]
	for _, l := range sorted {
		c.key = binary.LittleEndian.AppendUint32(c.key, uint32(l))
	}
	st, ok := c.states[string(c.key)]
	if !ok {
		st = &state{lits: list}
		st.rule = expr.Rule{Name: "value", Expand: st.body}
		c.states[string(c.key)] = st
	}
	return st
}

// open computes the normal form of st.
func (c *compiler) open(st *state) {
	if st.phase != untouched {
		return
	}
	st.phase = opening
	defer func(scopes, inPlace, generation int, given *alt) {
		c.scopes, c.inPlace, c.generation, c.given = scopes, inPlace, generation, given
	}(c.scopes, c.inPlace, c.generation, c.given)
	c.generations++
	c.scopes, c.inPlace, c.generation = 0, 0, c.generations
	if list, ok := c.finite(st.lits); ok {
		st.admit(c, list)
	} else {
		c.openKinds(st)
	}
	st.phase = opened
}

var constants = []*value{{kind: nullValue}, {kind: falseValue}, {kind: trueValue}}

func (c *compiler) openKinds(st *state) {
	set := allKinds
	for _, l := range st.lits {
		if n := c.of(l); !l.negated() {
			set &= n.types
		}
	}
	for _, v := range constants {
		if set&v.kinds() != 0 {
			st.admit(c, []*value{v})
		}
	}
	for _, k := range []kinds{numberKind, stringKind, arrayKind, objectKind} {
		if set&k == 0 {
			continue
		}
		c.given = c.allPlain(st.lits, k)
		alts := top(k)
		for _, l := range st.lits {
			if alts = c.product(alts, c.expand(l, k)); len(alts) == 0 {
				break
			}
		}
		for _, a := range alts {
			if a.finite {
				st.admit(c, a.values)
			} else {
				st.alts = append(st.alts, a)
			}
		}
	}
}

// allPlain returns what a conjunction demands of values of kind k in every branch.
func (c *compiler) allPlain(lits []literal, k kinds) *alt {
	a := top(k)[0]
	for _, l := range lits {
		if b := c.merge(a, c.plain(l, k, maxLook)); b != nil {
			a = b
		}
	}
	return a
}

// admit adds the values that are valid in a state to it.
func (st *state) admit(c *compiler, list []*value) {
	for _, v := range list {
		if c.allValid(st.lits, v) {
			st.values.add(v)
		}
	}
}

// finite returns a list of values that contains every instance of the conjunction.
func (c *compiler) finite(lits []literal) ([]*value, bool) {
	for _, l := range lits {
		if l.negated() {
			continue
		}
		if n := c.of(l); n.enum != nil {
			return n.enum.list, true
		}
	}
	return nil, false
}

// plainlyEmpty reports whether a look at the next levels shows that a has no instance.
func (c *compiler) plainlyEmpty(a *alt) bool {
	if c.depth >= maxLook {
		return false
	}
	if p := a.obj; p != nil {
		for _, key := range p.required {
			if !c.admitsKey(p, key) || c.emptyState(c.stateOf(c.keyLits(p, key)...)) {
				return true
			}
		}
		if p.min > 0 && len(p.required) == 0 && len(p.sources) > 1 && c.keyless(p) {
			return true
		}
	}
	if p := a.arr; p != nil {
		for i := range min(p.min, maxLook) {
			if c.emptyState(c.stateOf(p.at(i)...)) {
				return true
			}
		}
	}
	return false
}

// keyless reports whether an object that several schemas close has no key that all of them allow.
func (c *compiler) keyless(p *objectPart) bool {
	for _, s := range p.sources {
		if s.others == anything || c.of(s.others).always >= 0 {
			return false
		}
	}
	keys := p.namedKeys()
	for _, key := range keys {
		if c.stateOf(c.keyLits(p, key)...) != c.nothing {
			return false
		}
	}
	return len(c.freeMembers(c.any, p, keys, existence{})) == 0
}

// maxLook is the number of levels and of items that are compared to distinguish two branches.
const maxLook = 3

func (c *compiler) emptyState(st *state) bool {
	if st == c.nothing {
		return true
	}
	if len(st.lits) < 2 || st.phase == opening {
		return false
	}
	c.depth++
	defer func() { c.depth-- }()
	c.open(st)
	return len(st.values.list) == 0 && !slices.ContainsFunc(st.alts, func(a *alt) bool { return !c.plainlyEmpty(a) })
}

// finish turns the normal form of st into forms.
func (c *compiler) finish(st *state) {
	c.open(st)
	st.phase = reached
	if len(st.values.list) > 0 {
		st.forms = append(st.forms, c.literals(st.values.list))
	}
	for _, a := range st.alts {
		if p := a.poison; p != nil {
			if c.plainlyEmpty(a) {
				continue
			}
			fail(c.errorAt(ErrUnsupported, p.node, p.keyword, p.reason))
		}
		switch a.kind {
		case numberKind:
			c.finishNumber(st, a)
		case stringKind:
			c.finishString(st, a)
		case arrayKind:
			c.finishArray(st, a)
		case objectKind:
			c.finishObject(st, a)
		}
	}
}

// body is the union of the forms that have instances.
func (st *state) body(s *expr.Set) expr.ID {
	parts := make([]expr.ID, 0, len(st.forms))
	for _, f := range st.forms {
		if f.hasInstance() {
			parts = append(parts, f.expr(s))
		}
	}
	return s.Union(parts...)
}

// expr is the expression of st: inline if it refers to no other state, else a rule.
func (st *state) expr(s *expr.Set) expr.ID {
	for _, f := range st.forms {
		if _, ok := f.(scalar); !ok {
			return s.Rule(&st.rule)
		}
	}
	return st.body(s)
}
