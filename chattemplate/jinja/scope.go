package jinja

// Names are bound to slots at parse time, by the rules of jinja2's compiler. Each scope first collects the names that
// it reads and writes, in source order. A name that a scope writes belongs to that scope. It starts with the value of
// the same name in the outer scope, if there is one. A name that is only read and that no outer scope has is looked up
// among the render's variables when the scope is entered.

// variable is a name of one scope.
type variable struct {
	fn   *function
	slot int
}

// symbols are the names of a scope. Each branch of an if has its own symbols on top of those of the scope, its base;
// merge copies them to the base. They share own and order.
type symbols struct {
	parent *symbols
	base   *symbols
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

// local finds a name in this scope only.
func (s *symbols) local(name string) *variable {
	for ; s != nil; s = s.base {
		if v := s.refs[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *symbols) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.local(name); v != nil {
			return v
		}
	}
	return nil
}

// stored reports whether the scope writes a name.
func (s *symbols) stored(name string) bool {
	for ; s != nil; s = s.base {
		if s.stores[name] {
			return true
		}
	}
	return false
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
	if s.local(name) != nil {
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

// branch returns new symbols on top of s.
func (s *symbols) branch() *symbols {
	return &symbols{
		parent: s.parent, base: s, fn: s.fn, refs: map[string]*variable{}, loads: map[*variable]symbolLoad{},
		order: s.order, stores: map[string]bool{}, own: s.own,
	}
}

// merge adds the names from the branches of an if. A name that only some of them wrote starts with the value of the
// outer scope or of the render.
func (s *symbols) merge(branches ...*symbols) {
	written := map[string]bool{}
	for _, b := range branches {
		for n := range b.stores {
			if !s.stored(n) {
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

// collect gathers the names that statements use in this scope, without the scopes inside it.
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
		first := s.branch()
		first.collect(st.bodies[0])
		elifs, other := s.branch(), s.branch()
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

// walk calls f for an expression and all its parts, in source order.
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
