package jsonschema

import (
	"slices"

	"runner/grammar/jsontext"
)

// pattern is an entry of patternProperties that applies.
type pattern struct {
	text   string
	node   *node // for errors
	source int
	item   literal
}

// freeMembers returns the members whose keys are not in named. They are grouped by the patterns that match the key,
// with a group only for patterns that some key matches. If must is set, only members that satisfy it are returned.
func (c *compiler) freeMembers(st *state, p *objectPart, named []string, must existence) []freeMember {
	g := grouping{c: c, state: st, p: p, named: named, must: must}
	for i, s := range p.sources {
		for _, n := range s.nodes {
			for _, prop := range n.obj.patterns {
				item := anything
				if s.own {
					item = holds(prop.node)
				}
				g.patterns = append(g.patterns, pattern{prop.key, n, i, item})
			}
		}
	}
	if must.node != nil {
		g.addMust()
	}
	g.keys = []stringPart{{max: -1}}
	g.except = [][]*value{nil}
	if names := p.names; len(names) > 0 || must.node != nil && must.class == byName {
		if must.node != nil && must.class == byName {
			names = append(slices.Clone(names), must.item)
		}
		g.constrainNames(names)
	}
	g.split(0, nil)
	return g.out
}

// grouping splits the free keys of an object by the patterns that match them.
type grouping struct {
	c        *compiler
	state    *state
	p        *objectPart
	named    []string
	must     existence
	patterns []pattern
	keys     []stringPart // propertyNames demands any one of these
	except   [][]*value   // the names that each of them excludes
	out      []freeMember
}

func (g *grouping) addMust() {
	switch g.must.class {
	case byPattern:
		g.patterns = append(g.patterns, pattern{g.must.pattern, g.must.node, mustSource, anything})
	case byRest:
		for _, p := range g.must.node.obj.props {
			g.named = union(g.named, []string{p.key})
		}
		for _, p := range g.must.node.obj.patterns {
			g.patterns = append(g.patterns, pattern{p.key, g.must.node, mustSource, anything})
		}
	}
}

// mustSource marks the patterns that come from the negated schema.
const mustSource = -1

func (g *grouping) constrainNames(names []literal) {
	c := g.c
	st := c.stateOf(names...)
	if st == c.any {
		return
	}
	c.open(st)
	g.keys, g.except = nil, nil
	for _, v := range st.values.list {
		if v.kind == stringValue { // names that are free of an object but finitely many among others
			g.keys = append(g.keys, stringPart{max: -1, only: v})
			g.except = append(g.except, nil)
		}
	}
	for _, a := range st.alts {
		if a.kind != stringKind {
			continue
		}
		if a.poison != nil {
			fail(c.errorAt(ErrUnsupported, a.poison.node, a.poison.keyword, a.poison.reason))
		}
		part := stringPart{max: -1}
		if a.str != nil {
			part = *a.str
		}
		g.keys = append(g.keys, part)
		g.except = append(g.except, a.except)
	}
}

// split decides whether pattern i matches the key. in holds the decisions for the earlier patterns.
func (g *grouping) split(i int, in []bool) {
	c := g.c
	c.step(4)
	if i < len(g.patterns) {
		if same := slices.IndexFunc(g.patterns[:i], func(p pattern) bool { return p.text == g.patterns[i].text }); same >= 0 {
			g.split(i+1, append(in, in[same]))
			return
		}
		g.split(i+1, append(slices.Clone(in), false))
		in = append(slices.Clone(in), true)
		if slices.Contains(in[:i], true) { // many patterns have nothing in common
			part := g.narrow(stringPart{max: -1}, in)
			part.notPatterns = nil
			if _, ok := c.stringForm(g.state, part, nil); !ok {
				return
			}
		}
		g.split(i+1, in)
		return
	}
	if child, ok := g.child(in); ok && child != c.nothing {
		g.add(in, child)
	}
}

// child returns the state of the values whose keys match exactly the patterns chosen by in.
func (g *grouping) child(in []bool) (*state, bool) {
	var lits []literal
	mustFound := false
	for s, source := range g.p.sources {
		known := false
		for i, p := range g.patterns {
			if p.source == s && in[i] {
				known = true
				lits = append(lits, p.item)
			}
		}
		if !known {
			lits = append(lits, source.others)
		}
	}
	for i, p := range g.patterns {
		mustFound = mustFound || p.source == mustSource && in[i]
	}
	if g.must.node != nil && g.must.class != byName {
		if mustFound != (g.must.class == byPattern) {
			return nil, false
		}
		lits = append(lits, g.must.item)
	}
	return g.c.stateOf(lits...), true
}

// add makes members for the keys that match as in says.
func (g *grouping) add(in []bool, child *state) {
	for k, part := range g.keys {
		part = g.narrow(part, in)
		if g.c.opt.Plain && part.free() {
			part.max = jsontext.PlainKey
		}
		if part.only != nil {
			if !slices.Contains(g.named, part.only.text) && g.has(in, part.only.text) {
				g.out = append(g.out, freeMember{jsontext.LiteralString(part.only.text), child})
			}
			continue
		}
		var except []string
		for _, name := range g.named {
			if g.has(in, name) {
				except = append(except, name)
			}
		}
		for _, v := range g.except[k] {
			except = append(except, v.text)
		}
		if name, ok := g.c.stringForm(g.state, part, except); ok {
			g.out = append(g.out, freeMember{name, child})
		}
	}
}

// narrow adds to part the patterns that match the key and those that do not.
func (g *grouping) narrow(part stringPart, in []bool) stringPart {
	var yes, no []string
	for i := range in {
		if in[i] {
			yes = append(yes, g.patterns[i].text)
		} else {
			no = append(no, g.patterns[i].text)
		}
	}
	part.patterns, part.notPatterns = union(part.patterns, yes), union(part.notPatterns, no)
	return part
}

// free reports whether p is the name of a member without constraints.
func (p *stringPart) free() bool {
	return p.only == nil && p.min == 0 && p.max < 0 &&
		len(p.patterns)+len(p.notPatterns)+len(p.formats)+len(p.notFormats) == 0
}

// has reports whether key matches as in says.
func (g *grouping) has(in []bool, key string) bool {
	for i := range in {
		if g.c.finds(g.patterns[i].node, g.patterns[i].text, key) != in[i] {
			return false
		}
	}
	return true
}
