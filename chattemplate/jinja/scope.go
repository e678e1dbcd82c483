package jinja

import (
	"slices"
)

// Names are bound to slots when a template is parsed, by the rules of jinja2's compiler: each scope first collects the
// names that it reads and writes, in the order of the source. A name that a scope writes is its own there, and starts as
// the name of the outer scope, if the outer scope has one; a name that is only read and that no outer scope knows is
// looked up among the render's variables where the scope is entered.

// variable is a name of one scope.
type variable struct {
	fn   *function
	slot int
}

// symbols are the names of a scope. Branches of an if work on copies, which share own.
type symbols struct {
	parent *symbols
	fn     *function
	refs   map[string]*variable
	loads  map[*variable]symbolLoad
	order  *[]*variable
	stores map[string]bool
	own    map[string]*variable
}

type symbolLoad struct {
	param bool
	kind  loadKind
	name  string
	from  *variable
}

func newSymbols(parent *symbols, fn *function) *symbols {
	return &symbols{
		parent: parent, fn: fn, refs: map[string]*variable{}, loads: map[*variable]symbolLoad{},
		order: new([]*variable), stores: map[string]bool{}, own: map[string]*variable{},
	}
}

func (s *symbols) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.refs[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *symbols) define(name string, l symbolLoad) *variable {
	v := s.own[name]
	if v == nil {
		v = &variable{fn: s.fn, slot: s.fn.slots}
		s.fn.slots++
		s.own[name] = v
		*s.order = append(*s.order, v)
	}
	s.refs[name] = v
	s.loads[v] = l
	return v
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if s.refs[name] != nil {
		return
	}
	if outer := s.parent.find(name); outer != nil {
		s.define(name, symbolLoad{kind: loadAlias, from: outer})
		return
	}
	s.define(name, symbolLoad{kind: loadMissing})
}

func (s *symbols) param(name string) *variable {
	s.stores[name] = true
	return s.define(name, symbolLoad{param: true})
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, symbolLoad{kind: loadVar, name: name})
	}
}

func (s *symbols) copy() *symbols {
	c := *s
	c.refs, c.loads, c.stores = cloneMap(s.refs), cloneMap(s.loads), cloneMap(s.stores)
	return &c
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// merge takes over what the branches of an if found. What only some of them wrote starts as the outer scope's or the
// render's variable.
func (s *symbols) merge(branches ...*symbols) {
	written := map[string]bool{}
	for _, b := range branches {
		for n := range b.stores {
			if !s.stores[n] {
				written[n] = true
			}
		}
	}
	for _, b := range branches {
		for n, v := range b.refs {
			s.refs[n] = v
		}
		for v, l := range b.loads {
			s.loads[v] = l
		}
		for n := range b.stores {
			s.stores[n] = true
		}
	}
	for n := range written {
		v := s.find(n)
		if outer := s.parent.find(n); outer != nil {
			s.loads[v] = symbolLoad{kind: loadAlias, from: outer}
		} else {
			s.loads[v] = symbolLoad{kind: loadVar, name: n}
		}
	}
}

// collect gathers the names that statements use in the scope itself, not in the scopes within.
func (s *symbols) collect(body []stmt) {
	for _, st := range body {
		s.collectStmt(st)
	}
}

func (s *symbols) collectStmt(st stmt) {
	switch st := st.(type) {
	case *outputStmt:
		s.collectExpr(st.x)
	case *ifStmt:
		s.collectExpr(st.conds[0])
		first := s.copy()
		first.collect(st.bodies[0])
		elifs, other := s.copy(), s.copy()
		for i := 1; i < len(st.conds); i++ {
			elifs.collectStmt(&ifStmt{conds: st.conds[i : i+1], bodies: st.bodies[i : i+1]})
		}
		if len(st.bodies) > len(st.conds) {
			other.collect(st.bodies[len(st.conds)])
		}
		s.merge(first, elifs, other)
	case *forStmt:
		s.collectExpr(st.iter)
	case *setStmt:
		s.collectExpr(st.x)
		s.collectTarget(st.target, false)
	case *setBlockStmt:
		s.collectTarget(st.target, false)
	case *macroStmt:
		s.store(st.name)
	case *callStmt:
		s.collectExpr(st.call)
	case *filterStmt:
		s.collectExpr(st.filter)
	case *withStmt:
		for _, v := range st.values {
			s.collectExpr(v)
		}
	}
}

func (s *symbols) collectTarget(t target, param bool) {
	switch t := t.(type) {
	case *nameTarget:
		if param {
			s.param(t.name)
		} else {
			s.store(t.name)
		}
	case *attrTarget:
		s.load(t.ns.name)
	case *tupleTarget:
		for _, it := range t.items {
			s.collectTarget(it, param)
		}
	}
}

func (s *symbols) collectExpr(e expr) {
	walk(e, func(e expr) {
		if n, ok := e.(*nameExpr); ok {
			s.load(n.name)
		}
	})
}

// walk calls f for an expression and all within, in the order of the source.
func walk(e expr, f func(expr)) {
	if e == nil {
		return
	}
	f(e)
	all := func(es ...expr) {
		for _, x := range es {
			walk(x, f)
		}
	}
	args := func(a arguments) {
		all(a.pos...)
		all(a.named...)
		all(a.star, a.kwstar)
	}
	switch e := e.(type) {
	case *attrExpr:
		walk(e.obj, f)
	case *itemExpr:
		all(e.obj, e.key)
	case *sliceExpr:
		all(e.obj, e.start, e.stop, e.step)
	case *callExpr:
		walk(e.fn, f)
		args(e.args)
	case *filterExpr:
		walk(e.obj, f)
		args(e.args)
	case *testExpr:
		walk(e.obj, f)
		args(e.args)
	case *binaryExpr:
		all(e.a, e.b)
	case *unaryExpr:
		walk(e.x, f)
	case *notExpr:
		walk(e.x, f)
	case *andExpr:
		all(e.a, e.b)
	case *orExpr:
		all(e.a, e.b)
	case *compareExpr:
		walk(e.first, f)
		for _, o := range e.rest {
			walk(o.x, f)
		}
	case *concatExpr:
		all(e.parts...)
	case *condExpr:
		all(e.cond, e.yes, e.no)
	case *listExpr:
		all(e.items...)
	case *tupleExpr:
		all(e.items...)
	case *dictExpr:
		for i := range e.keys {
			all(e.keys[i], e.vals[i])
		}
	}
}

// scope is a place in the template while names are bound.
type scope struct {
	syms *symbols
	fn   *function
	// top: a write here is seen by blocks. soft: unknown filters and tests are errors only when reached.
	top, soft bool
}

func (sc scope) inner(fn *function) scope {
	return scope{syms: newSymbols(sc.syms, fn), fn: fn}
}

// resolver binds the names of a template.
type resolver struct {
	// vars are the variables that the template reads from the render.
	vars map[string]bool
}

func (rs *resolver) ref(sc scope, name string) varRef {
	v := sc.syms.find(name)
	return varRef{hops: sc.fn.depth - v.fn.depth, slot: v.slot}
}

// frame returns what a scope does when it is entered.
func (rs *resolver) frame(sc scope) frame {
	var f frame
	for _, v := range *sc.syms.order {
		l, ok := sc.syms.loads[v]
		if !ok || l.param {
			continue
		}
		out := load{kind: l.kind, slot: v.slot, name: l.name}
		switch l.kind {
		case loadVar:
			rs.vars[l.name] = true
		case loadAlias:
			out.from = varRef{hops: sc.fn.depth - l.from.fn.depth, slot: l.from.slot}
		}
		f.loads = append(f.loads, out)
	}
	return f
}

// template binds a whole template and returns its function and the frame to enter it with.
func (rs *resolver) template(body []stmt) (*function, frame) {
	fn := &function{}
	sc := scope{syms: newSymbols(nil, fn), fn: fn, top: true}
	sc.syms.collect(body)
	rs.stmts(sc, body)
	return fn, rs.frame(sc)
}

func (rs *resolver) stmts(sc scope, body []stmt) {
	for _, st := range body {
		rs.stmt(sc, st)
	}
}

func (rs *resolver) stmt(sc scope, st stmt) {
	switch st := st.(type) {
	case *outputStmt:
		rs.expr(sc, st.x)
	case *ifStmt:
		sc.soft = true
		for _, c := range st.conds {
			rs.expr(sc, c)
		}
		for _, b := range st.bodies {
			rs.stmts(sc, b)
		}
	case *forStmt:
		rs.forStmt(sc, st)
	case *setStmt:
		rs.expr(sc, st.x)
		rs.target(sc, st.target)
	case *setBlockStmt:
		in := sc.inner(sc.fn)
		in.syms.collect(st.body)
		in.syms.collectExpr(st.filter)
		rs.stmts(in, st.body)
		rs.expr(in, st.filter)
		rs.target(sc, st.target)
		st.frame = rs.frame(in)
	case *macroStmt:
		rs.macro(sc, &st.macroDef)
		rs.target(sc, st.target)
	case *callStmt:
		rs.macro(sc, &st.macroDef)
		rs.expr(sc, st.call)
	case *filterStmt:
		in := sc.inner(sc.fn)
		in.syms.collect(st.body)
		in.syms.collectExpr(st.filter)
		rs.stmts(in, st.body)
		rs.expr(in, st.filter)
		st.frame = rs.frame(in)
	case *withStmt:
		in := sc.inner(sc.fn)
		for _, t := range st.targets {
			in.syms.collectTarget(t, true)
		}
		in.syms.collect(st.body)
		for i, t := range st.targets {
			rs.target(in, t)
			rs.expr(sc, st.values[i])
		}
		rs.stmts(in, st.body)
		st.frame = rs.frame(in)
	case *scopeStmt:
		in := sc.inner(sc.fn)
		in.syms.collect(st.body)
		rs.stmts(in, st.body)
		st.frame = rs.frame(in)
	case *generationStmt:
		st.fn = &function{depth: sc.fn.depth + 1}
		in := sc.inner(st.fn)
		in.syms.collect(st.body)
		rs.stmts(in, st.body)
		st.frame = rs.frame(in)
	case *blockStmt:
		st.fn = &function{}
		in := scope{syms: newSymbols(nil, st.fn), fn: st.fn}
		in.syms.collect(st.body)
		rs.stmts(in, st.body)
		st.frame = rs.frame(in)
	}
}

func (rs *resolver) forStmt(sc scope, st *forStmt) {
	rs.expr(sc, st.iter)
	fn := sc.fn
	if st.recursive {
		fn = &function{depth: sc.fn.depth + 1}
	}
	st.fn = fn
	in, test, other := sc.inner(fn), sc.inner(fn), sc.inner(fn)
	if st.recursive || usesName(st.body, "loop") {
		st.loop = in.syms.param("loop").slot
	}
	forbidLoop(st)
	in.syms.collectTarget(st.target, true)
	in.syms.collect(st.body)
	if st.test != nil {
		test.syms.collectTarget(st.testVar, true)
		test.syms.collectExpr(st.test)
		rs.target(test, st.testVar)
		rs.expr(test, st.test)
		st.testFrame = rs.frame(test)
	}
	rs.target(in, st.target)
	rs.stmts(in, st.body)
	st.frame = rs.frame(in)
	other.syms.collect(st.elseBody)
	rs.stmts(other, st.elseBody)
	st.otherFrame = rs.frame(other)
}

// macro binds a macro's parameters, defaults and body, and finds out which special parameters the body uses.
func (rs *resolver) macro(sc scope, d *macroDef) {
	d.fn = &function{depth: sc.fn.depth + 1}
	in := sc.inner(d.fn)
	d.caller, d.varargs, d.kwargs = -1, -1, -1
	explicit := map[string]int{}
	for i, p := range d.params {
		in.syms.param(p.name)
		explicit[p.name] = i
	}
	special := func(name string, slot *int) {
		if _, ok := explicit[name]; !ok && usesName(d.body, name) {
			*slot = in.syms.param(name).slot
		}
	}
	if i, ok := explicit["caller"]; ok && usesName(d.body, "caller") && i < len(d.params)-len(d.defaults) {
		syntaxError(d.line, `When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`)
	}
	special("caller", &d.caller)
	special("kwargs", &d.kwargs)
	special("varargs", &d.varargs)
	for _, e := range d.defaults {
		in.syms.collectExpr(e)
	}
	in.syms.collect(d.body)
	for _, p := range d.params {
		rs.target(in, p)
	}
	for _, e := range d.defaults {
		rs.expr(in, e)
	}
	rs.stmts(in, d.body)
	d.frame = rs.frame(in)
}

func (rs *resolver) target(sc scope, t target) {
	switch t := t.(type) {
	case *nameTarget:
		t.ref = rs.ref(sc, t.name)
		t.export = sc.top
	case *attrTarget:
		t.ns.ref = rs.ref(sc, t.ns.name)
	case *tupleTarget:
		for _, it := range t.items {
			rs.target(sc, it)
		}
	}
}

// expr binds the names of an expression, and its filters and tests.
func (rs *resolver) expr(sc scope, e expr) {
	soft := map[expr]bool{}
	walk(e, func(e expr) {
		switch e := e.(type) {
		case *nameExpr:
			e.ref = rs.ref(sc, e.name)
		case *condExpr:
			for _, x := range []expr{e.cond, e.yes, e.no} {
				walk(x, func(x expr) { soft[x] = true })
			}
		case *filterExpr:
			e.sig = filters[e.name]
			if e.sig == nil && !sc.soft && !soft[e] {
				syntaxError(e.line, "No filter named '%s'.", e.name)
			}
		case *testExpr:
			e.sig = tests[e.name]
			if e.sig == nil && !sc.soft && !soft[e] {
				syntaxError(e.line, "No test named '%s'.", e.name)
			}
		}
	})
}

// usesName reports whether statements, at any depth, read a name before they write it.
func usesName(body []stmt, name string) bool {
	found, written := false, false
	visit(body, func(e expr) {
		if n, ok := e.(*nameExpr); ok && n.name == name && !written {
			found = true
		}
	}, func(t *nameTarget) {
		written = written || t.name == name
	})
	return found
}

// forbidLoop fails when a loop or anything in it writes to the name loop.
func forbidLoop(st *forStmt) {
	visit([]stmt{st}, func(expr) {}, func(t *nameTarget) {
		if t.name == "loop" {
			syntaxError(t.line, "Can't assign to special loop variable in for-loop target")
		}
	})
}

// visit calls onExpr for every expression and onTarget for every name written in statements at any depth, blocks and the
// names of macros and of their parameters left out.
func visit(body []stmt, onExpr func(expr), onTarget func(*nameTarget)) {
	exprs := func(es ...expr) {
		for _, e := range es {
			walk(e, onExpr)
		}
	}
	var targets func(t target)
	targets = func(t target) {
		switch t := t.(type) {
		case *nameTarget:
			onTarget(t)
		case *attrTarget:
			onExpr(t.ns)
		case *tupleTarget:
			for _, it := range t.items {
				targets(it)
			}
		}
	}
	in := func(body []stmt) { visit(body, onExpr, onTarget) }
	for _, st := range body {
		switch st := st.(type) {
		case *outputStmt:
			exprs(st.x)
		case *ifStmt:
			for i, b := range st.bodies {
				if i < len(st.conds) {
					exprs(st.conds[i])
				}
				in(b)
			}
		case *forStmt:
			targets(st.target)
			exprs(st.iter)
			in(st.body)
			in(st.elseBody)
			exprs(st.test)
		case *setStmt:
			targets(st.target)
			exprs(st.x)
		case *setBlockStmt:
			targets(st.target)
			exprs(st.filter)
			in(st.body)
		case *macroStmt:
			exprs(st.defaults...)
			in(st.body)
		case *callStmt:
			exprs(st.call)
			exprs(st.defaults...)
			in(st.body)
		case *filterStmt:
			in(st.body)
			exprs(st.filter)
		case *withStmt:
			exprs(st.values...)
			in(st.body)
		case *scopeStmt:
			in(st.body)
		case *generationStmt:
			in(st.body)
		}
	}
}

// sortedNames returns the keys of a set in order.
func sortedNames(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
