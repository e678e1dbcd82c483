package jsonschema

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"runner/grammar/expr"
)

// at returns what p demands of the item at position i, without the counts.
func (p *arrayPart) at(i int) []literal {
	var list []literal
	for _, s := range p.sources {
		if l := s.at(i); l != anything {
			list = append(list, l)
		}
	}
	return list
}

// prefix is the number of positions that differ from all later ones.
func (p *arrayPart) prefix() int {
	n := 0
	for _, s := range p.sources {
		n = max(n, len(s.prefix))
	}
	return n
}

func (c *compiler) finishArray(st *state, a *alt) {
	p := a.arr
	if p == nil {
		st.forms = append(st.forms, scalar(c.values().Array))
		return
	}
	p = p.settleCounts()
	if p.max >= 0 && p.min > p.max {
		return
	}
	f := arrayForm{min: p.min, max: p.max}
	n := p.prefix()
	if p.max >= 0 {
		n = min(n, p.max)
	}
	for i := range n {
		f.prefix = append(f.prefix, c.stateOf(p.at(i)...))
	}
	f.rest = c.stateOf(p.at(n)...)
	switch {
	case p.unique != nil && (p.max < 0 || p.max > 1):
		c.finishUnique(st, p, f)
	case len(p.counts) > 0:
		c.finishCounted(st, p, f)
	default:
		st.forms = append(st.forms, &f)
	}
}

// settleCounts drops the counts without effect and turns "none" into a constraint on every item.
func (p *arrayPart) settleCounts() *arrayPart {
	q := *p
	q.counts = nil
	for _, n := range p.counts {
		switch {
		case n.max == 0 && n.min == 0:
			s := itemSource{rest: n.item.negate()}
			for range n.from {
				s.prefix = append(s.prefix, anything)
			}
			q.sources = append(slices.Clip(q.sources), s)
		case n.min > 0 || n.max >= 0:
			q.counts = append(q.counts, n)
			q.min = max(q.min, n.from+n.min)
		}
	}
	return &q
}

// arrayForm describes arrays whose items depend only on their position.
type arrayForm struct {
	prefix   []*state
	rest     *state
	min, max int // max < 0 means no limit
}

func (f *arrayForm) reach(visit func(*state)) {
	for _, st := range f.prefix {
		visit(st)
	}
	if f.max < 0 || f.max > len(f.prefix) {
		visit(f.rest)
	}
}

func (f *arrayForm) hasInstance() bool {
	for i, st := range f.prefix {
		if i < f.min && !st.live {
			return false
		}
	}
	return f.min <= len(f.prefix) || f.rest.live
}

func (f *arrayForm) settle(*compiler) {
	most := slices.IndexFunc(f.prefix, func(st *state) bool { return !st.live })
	if most >= 0 {
		f.prefix, f.max = f.prefix[:most], most
	} else if !f.rest.live {
		f.max = least(f.max, len(f.prefix))
	}
}

func (f *arrayForm) expr(s *expr.Set) expr.ID {
	n := len(f.prefix)
	body := expr.Epsilon
	switch {
	case f.max >= 0 && f.max <= n:
	case n > 0:
		body = s.Repeat(s.Concat(comma(s), f.rest.expr(s)), f.min-n, f.most(n))
	default:
		item := f.rest.expr(s)
		body = s.Concat(item, s.Repeat(s.Concat(comma(s), item), f.min-1, f.most(1)))
		if f.min == 0 {
			body = s.Optional(body)
		}
	}
	for i := n - 1; i >= 0; i-- {
		body = s.Concat(f.prefix[i].expr(s), body)
		if i > 0 {
			body = s.Concat(comma(s), body)
		}
		if i >= f.min {
			body = s.Optional(body)
		}
	}
	return s.Concat(s.Literal("["), body, s.Literal("]"))
}

// most is the upper limit after n items.
func (f *arrayForm) most(n int) int {
	if f.max < 0 {
		return -1
	}
	return f.max - n
}

// countedForm describes arrays in which a certain number of items satisfies something. Each item is either counted or
// not. If there is an upper limit, an item that is not counted does not satisfy it.
type countedForm struct {
	arrayForm
	counts  []counting
	last    int // positions from here on are alike
	choices map[countedChoice]*state

	mu    sync.Mutex
	ready map[countedPlace]bool // whether the array can be completed
	rules map[countedPlace]*expr.Rule
}

// countedPlace is a position in an array: its length as far as that matters, and the counts likewise.
type countedPlace struct {
	length int
	counts [maxCounts]int
}

// countedChoice is an item at a position. set says which counts include it.
type countedChoice struct {
	at  int
	set uint8
}

const (
	maxCounts = 3
	maxPlaces = 4096
)

func (c *compiler) finishCounted(st *state, p *arrayPart, f arrayForm) {
	g := &countedForm{arrayForm: f, counts: p.counts, choices: map[countedChoice]*state{},
		rules: map[countedPlace]*expr.Rule{}}
	g.last = max(len(f.prefix), f.min)
	places := 1
	for _, n := range p.counts {
		g.last = max(g.last, n.from)
		places *= max(n.min, n.max) + 1
	}
	if f.max >= 0 {
		g.last = f.max
	}
	if len(p.counts) > maxCounts || places > maxPlaces || places*(g.last+1) > maxPlaces {
		fail(c.errorAt(ErrUnsupported, c.holder(st, "contains"), "contains", "counts and lengths are too large together"))
	}
	for i := range min(g.last, max(len(f.prefix), maxFrom(p.counts))) + 1 {
		for set := range uint8(1) << len(p.counts) {
			if child, ok := g.choice(c, p, i, set); ok && child != c.nothing {
				g.choices[countedChoice{i, set}] = child
			}
		}
	}
	st.forms = append(st.forms, g)
}

func maxFrom(counts []counting) (from int) {
	for _, n := range counts {
		from = max(from, n.from)
	}
	return from
}

// choice returns the state of an item at position i that the counts in set include.
func (g *countedForm) choice(c *compiler, p *arrayPart, i int, set uint8) (*state, bool) {
	lits := p.at(i)
	for j, n := range g.counts {
		counted := set>>j&1 == 1
		switch {
		case counted && i < n.from:
			return nil, false
		case counted:
			lits = append(lits, n.item)
		case n.max >= 0 && i >= n.from:
			lits = append(lits, n.item.negate())
		}
	}
	return c.stateOf(lits...), true
}

func (g *countedForm) reach(visit func(*state)) {
	for i := range g.choicePosition(g.last) + 1 {
		for set := range uint8(1) << len(g.counts) {
			if st := g.choices[countedChoice{i, set}]; st != nil {
				visit(st)
			}
		}
	}
}

// choicePosition is the position that represents position i.
func (g *countedForm) choicePosition(i int) int {
	return min(i, max(len(g.prefix), maxFrom(g.counts)))
}

// next calls yield for every item that may come at a place, with the place it leads to.
func (g *countedForm) next(at countedPlace, yield func(*state, countedPlace)) {
	if g.max >= 0 && at.length >= g.max {
		return
	}
	for set := range uint8(1) << len(g.counts) {
		st := g.choices[countedChoice{g.choicePosition(at.length), set}]
		if st == nil || !st.live {
			continue
		}
		to := countedPlace{length: min(at.length+1, g.last), counts: at.counts}
		over := false
		for j, n := range g.counts {
			if set>>j&1 == 1 {
				if n.max < 0 {
					to.counts[j] = min(to.counts[j]+1, n.min)
				} else {
					to.counts[j]++
					over = over || to.counts[j] > n.max
				}
			}
		}
		if !over {
			yield(st, to)
		}
	}
}

func (g *countedForm) complete(at countedPlace) bool {
	for j, n := range g.counts {
		if at.counts[j] < n.min {
			return false
		}
	}
	return at.length >= g.min
}

func (g *countedForm) hasInstance() bool {
	if g.ready != nil {
		return g.ready[countedPlace{}]
	}
	return g.search(countedPlace{}, map[countedPlace]bool{})
}

// search finds the places from which the array can be completed.
func (g *countedForm) search(at countedPlace, known map[countedPlace]bool) bool {
	if done, ok := known[at]; ok {
		return done
	}
	known[at] = g.complete(at)
	g.next(at, func(_ *state, to countedPlace) {
		if to != at && g.search(to, known) {
			known[at] = true
		}
	})
	return known[at]
}

func (g *countedForm) settle(*compiler) {
	ready := map[countedPlace]bool{}
	g.search(countedPlace{}, ready)
	g.ready = ready
}

func (g *countedForm) expr(s *expr.Set) expr.ID {
	return s.Concat(s.Literal("["), s.Rule(g.rule(countedPlace{}, false)))
}

func (g *countedForm) rule(at countedPlace, due bool) *expr.Rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := at
	if !due {
		key.length = -1 // the very start
	}
	r, ok := g.rules[key]
	if !ok {
		r = &expr.Rule{Name: fmt.Sprintf("array %d", at.length), Expand: func(s *expr.Set) expr.ID {
			return g.items(s, at, due)
		}}
		g.rules[key] = r
	}
	return r
}

func (g *countedForm) items(s *expr.Set, at countedPlace, due bool) expr.ID {
	var list []expr.ID
	g.next(at, func(st *state, to countedPlace) {
		if g.ready[to] {
			list = append(list, s.Concat(st.expr(s), s.Rule(g.rule(to, true))))
		}
	})
	body := s.Union(list...)
	if due {
		body = s.Concat(comma(s), body)
	}
	if g.complete(at) {
		body = s.Union(body, s.Literal("]"))
	}
	return body
}

// uniqueForm describes arrays of different values from a short list.
type uniqueForm struct {
	values   []*value
	min, max int
	plain    bool // integers have no fraction

	mu    sync.Mutex
	rules map[uint64]*expr.Rule
}

func (c *compiler) finishUnique(st *state, p *arrayPart, f arrayForm) {
	refuse := func(reason string) { fail(c.errorAt(ErrUnsupported, p.unique, "uniqueItems", reason)) }
	if slices.ContainsFunc(f.prefix, func(st *state) bool { return st != f.rest }) || len(p.counts) > 0 {
		refuse("the items are constrained by position or number as well")
	}
	c.open(f.rest)
	if len(f.rest.alts) > 0 || f.rest == c.any {
		refuse("the items are not values out of a finite list")
	}
	values := f.rest.values.list
	if len(values) > 64 {
		refuse("the items have more than 64 different values")
	}
	most := least(f.max, len(values))
	if f.min <= most {
		st.forms = append(st.forms, &uniqueForm{values: values, min: f.min, max: most, plain: c.opt.Plain,
			rules: map[uint64]*expr.Rule{}})
	}
}

func (f *uniqueForm) reach(func(*state))       {}
func (f *uniqueForm) hasInstance() bool        { return true }
func (f *uniqueForm) settle(*compiler)         {}
func (f *uniqueForm) expr(s *expr.Set) expr.ID { return s.Concat(s.Literal("["), s.Rule(f.rule(0))) }

// rule is the rest of the array after the values in used.
func (f *uniqueForm) rule(used uint64) *expr.Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.rules[used]
	if !ok {
		r = &expr.Rule{Name: "distinct", Expand: func(s *expr.Set) expr.ID { return f.items(s, used) }}
		f.rules[used] = r
	}
	return r
}

func (f *uniqueForm) items(s *expr.Set, used uint64) expr.ID {
	count := bits.OnesCount64(used)
	body := expr.Empty
	if count < f.max {
		var list []expr.ID
		for i, v := range f.values {
			if used>>i&1 == 0 {
				list = append(list, s.Concat(literal1(v, f.plain)(s), s.Rule(f.rule(used|1<<i))))
			}
		}
		if body = s.Union(list...); count > 0 {
			body = s.Concat(comma(s), body)
		}
	}
	if count >= f.min {
		body = s.Union(body, s.Literal("]"))
	}
	return body
}
