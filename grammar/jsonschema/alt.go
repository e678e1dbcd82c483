package jsonschema

import (
	"math/big"
	"slices"
)

// literal is a schema or its negation: twice the id of the node, plus one if negated.
type literal int32

// anything is the literal without constraints.
const anything literal = -1

func holds(n *node) literal            { return literal(n.id << 1) }
func violates(n *node) literal         { return literal(n.id<<1 | 1) }
func (l literal) negated() bool        { return l&1 == 1 }
func (l literal) negate() literal      { return l ^ 1 }
func (c *compiler) of(l literal) *node { return c.load(c.nodes[l>>1]) }

// alt is one alternative of a normal form: a conjunction of constraints on values of one kind, without "or".
// Alternatives are immutable; merge makes new ones.
type alt struct {
	kind   kinds
	finite bool     // only values are admitted, after they are checked against the whole conjunction
	values []*value // if finite
	except []*value // excluded numbers or strings
	num    *numberPart
	str    *stringPart
	arr    *arrayPart
	obj    *objectPart
	held   []*node // the schemas that hold, as far as the unevaluated keywords need them
	poison *poison // a constraint that cannot be enforced; it matters only if the alternative has instances without it
}

// poison is a constraint that cannot be enforced.
type poison struct {
	node            *node
	keyword, reason string
}

type numberPart struct {
	integer, fractional   bool
	min, max              *big.Rat
	exclMin, exclMax      bool
	multiple, notMultiple []*big.Rat
}

type stringPart struct {
	min, max              int // max < 0 means no limit
	patterns, notPatterns []string
	formats, notFormats   []string
	only                  *value // of a key: just this one
}

// itemSource constrains the items of an array by their position.
type itemSource struct {
	prefix []literal
	rest   literal
}

func (s *itemSource) at(i int) literal {
	if i < len(s.prefix) {
		return s.prefix[i]
	}
	return s.rest
}

// counting limits how many items satisfy a literal, from a position on.
type counting struct {
	item     literal
	from     int
	min, max int // max < 0 means no limit
}

type arrayPart struct {
	sources  []itemSource
	counts   []counting
	min, max int   // max < 0 means no limit
	unique   *node // whose uniqueItems it is
}

// keySource constrains the values of an object by their keys.
type keySource struct {
	nodes  []*node // whose properties and patternProperties are matched
	own    bool    // their schemas apply; otherwise the keys only count as matched
	others literal // for keys that match nothing
}

// existence demands a property that satisfies item. The negated schema decides which keys qualify.
type existence struct {
	node    *node
	pattern string // a key that this pattern finds, if class is byPattern
	class   keyClass
	item    literal
}

type keyClass uint8

const (
	byPattern keyClass = iota
	byRest             // a key that is neither a property of node nor found by its patterns
	byName             // a key that satisfies item; its value is free
)

type keyed struct {
	key  string
	item literal
}

type objectPart struct {
	sources   []*keySource
	required  []string
	forbidden []string
	extra     []keyed // more constraints on the value of a key
	names     []literal
	exists    []existence
	min, max  int // max < 0 means no limit
}

// raise and lower narrow the range.
func (p *numberPart) raise(bound *big.Rat, excl bool) {
	if p.min == nil {
		p.min, p.exclMin = bound, excl
		return
	}
	switch p.min.Cmp(bound) {
	case -1:
		p.min, p.exclMin = bound, excl
	case 0:
		p.exclMin = p.exclMin || excl
	}
}

func (p *numberPart) lower(bound *big.Rat, excl bool) {
	if p.max == nil {
		p.max, p.exclMax = bound, excl
		return
	}
	switch p.max.Cmp(bound) {
	case 1:
		p.max, p.exclMax = bound, excl
	case 0:
		p.exclMax = p.exclMax || excl
	}
}

func (p *numberPart) merge(q *numberPart) (*numberPart, bool) {
	r := *p
	r.integer, r.fractional = p.integer || q.integer, p.fractional || q.fractional
	if q.min != nil {
		r.raise(q.min, q.exclMin)
	}
	if q.max != nil {
		r.lower(q.max, q.exclMax)
	}
	r.multiple = join(p.multiple, q.multiple)
	r.notMultiple = join(p.notMultiple, q.notMultiple)
	if r.integer && r.fractional {
		return nil, false
	}
	if r.min != nil && r.max != nil {
		if d := r.min.Cmp(r.max); d > 0 || d == 0 && (r.exclMin || r.exclMax) {
			return nil, false
		}
	}
	return &r, true
}

func (p *stringPart) merge(q *stringPart) (*stringPart, bool) {
	r := &stringPart{
		min: max(p.min, q.min), max: least(p.max, q.max),
		patterns: union(p.patterns, q.patterns), notPatterns: union(p.notPatterns, q.notPatterns),
		formats: union(p.formats, q.formats), notFormats: union(p.notFormats, q.notFormats),
	}
	return r, (r.max < 0 || r.min <= r.max) && !overlap(r.patterns, r.notPatterns) && !overlap(r.formats, r.notFormats)
}

func (p *arrayPart) merge(q *arrayPart) (*arrayPart, bool) {
	r := &arrayPart{
		sources: join(p.sources, q.sources), counts: join(p.counts, q.counts),
		min: max(p.min, q.min), max: least(p.max, q.max), unique: p.unique,
	}
	if r.unique == nil {
		r.unique = q.unique
	}
	return r, r.max < 0 || r.min <= r.max
}

func (p *objectPart) merge(q *objectPart) (*objectPart, bool) {
	r := &objectPart{
		sources: union(p.sources, q.sources), required: union(p.required, q.required),
		forbidden: union(p.forbidden, q.forbidden),
		extra:     union(p.extra, q.extra), names: union(p.names, q.names), exists: union(p.exists, q.exists),
		min: max(p.min, q.min), max: least(p.max, q.max),
	}
	return r, (r.max < 0 || r.min <= r.max && len(r.required) <= r.max) && !overlap(r.required, r.forbidden)
}

// merge returns the conjunction of two alternatives of one kind. It returns nil if the result is plainly empty.
func (c *compiler) merge(a, b *alt) *alt {
	c.step(1)
	if a.free() {
		return b
	}
	if b.free() {
		return a
	}
	m := &alt{kind: a.kind, except: join(a.except, b.except), held: union(a.held, b.held), poison: a.poison}
	if m.poison == nil {
		m.poison = b.poison
	}
	if a.finite || b.finite {
		m.finite = true
		if m.values = a.values; !a.finite {
			m.values = b.values
		} else if b.finite {
			both := newValueSet(b.values)
			m.values = slices.DeleteFunc(slices.Clone(a.values), func(v *value) bool { return !both.has(v) })
		}
		if len(m.values) == 0 {
			return nil
		}
	}
	ok := [4]bool{}
	m.num, ok[0] = mergePart(a.num, b.num, (*numberPart).merge)
	m.str, ok[1] = mergePart(a.str, b.str, (*stringPart).merge)
	m.arr, ok[2] = mergePart(a.arr, b.arr, (*arrayPart).merge)
	m.obj, ok[3] = mergePart(a.obj, b.obj, (*objectPart).merge)
	if ok != [4]bool{true, true, true, true} {
		return nil
	}
	return m
}

func mergePart[T any](a, b *T, merge func(a, b *T) (*T, bool)) (*T, bool) {
	if a == nil {
		return b, true
	}
	if b == nil {
		return a, true
	}
	return merge(a, b)
}

// free reports whether the alternative has no constraints.
func (a *alt) free() bool {
	return !a.finite && a.except == nil && a.num == nil && a.str == nil && a.arr == nil && a.obj == nil && a.held == nil &&
		a.poison == nil
}

// join appends without changing its arguments. union also skips elements that are already there.
func join[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	return slices.Concat(a, b)
}

func union[T comparable](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	out, fresh := a, false
	for _, x := range b {
		if !slices.Contains(a, x) {
			if !fresh {
				out, fresh = slices.Clone(a), true
			}
			out = append(out, x)
		}
	}
	return out
}

func overlap(a, b []string) bool {
	return len(b) > 0 && slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// least returns the smaller of two upper limits. A negative one means no limit.
func least(a, b int) int {
	if a < 0 {
		return b
	}
	if b < 0 {
		return a
	}
	return min(a, b)
}

// within reports whether every instance of a plainly is one of b: a has all constraints of b.
func (a *alt) within(b *alt) bool {
	if b.poison != nil || b.finite || a.finite || !subset(b.except, a.except) || !subset(b.held, a.held) ||
		!subset(a.held, b.held) {
		return false
	}
	return partWithin(a.num, b.num, (*numberPart).within) && partWithin(a.str, b.str, (*stringPart).within) &&
		partWithin(a.arr, b.arr, (*arrayPart).within) && partWithin(a.obj, b.obj, (*objectPart).within)
}

func partWithin[T any](a, b *T, within func(a, b *T) bool) bool {
	return a == b || b == nil || a != nil && within(a, b)
}

func (p *numberPart) within(q *numberPart) bool {
	r, ok := p.merge(q)
	return ok && r.integer == p.integer && r.fractional == p.fractional && r.min == p.min && r.max == p.max &&
		r.exclMin == p.exclMin && r.exclMax == p.exclMax && subset(q.multiple, p.multiple) &&
		subset(q.notMultiple, p.notMultiple)
}

func (p *stringPart) within(q *stringPart) bool {
	return p.min >= q.min && least(p.max, q.max) == p.max && subset(q.patterns, p.patterns) &&
		subset(q.notPatterns, p.notPatterns) &&
		subset(q.formats, p.formats) && subset(q.notFormats, p.notFormats)
}

func (p *arrayPart) within(q *arrayPart) bool {
	for _, s := range q.sources {
		if !slices.ContainsFunc(p.sources, func(t itemSource) bool {
			return t.rest == s.rest && slices.Equal(t.prefix, s.prefix)
		}) {
			return false
		}
	}
	return p.min >= q.min && least(p.max, q.max) == p.max && (q.unique == nil || p.unique != nil) &&
		subset(q.counts, p.counts)
}

func (p *objectPart) within(q *objectPart) bool {
	return p.min >= q.min && least(p.max, q.max) == p.max && subset(q.sources, p.sources) &&
		subset(q.required, p.required) &&
		subset(q.forbidden, p.forbidden) && subset(q.extra, p.extra) && subset(q.names, p.names) && subset(q.exists, p.exists)
}

func subset[T comparable](a, b []T) bool {
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}
