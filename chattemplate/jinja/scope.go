package jinja

// Names are bound to slots at parse time, by the rules of jinja2's compiler. Each scope first collects the names that
// it reads and writes, in source order. A name that a scope writes belongs to that scope. It starts with the value of
// the same name in the outer scope, if there is one. A name that is only read and that no outer scope has is looked up
// among the render's variables when the scope is entered.

// variable is a name of one scope. load says what it starts with when the scope is entered.
type variable struct {
	fn   *function
	slot int
	name string
	load loadKind
	// from is the variable of an outer scope for loadAlias.
	from *variable
}

// symbols are the names of a scope.
type symbols struct {
	parent *symbols
	fn     *function
	names  map[string]*variable
	order  []*variable
}

func newSymbols(parent *symbols, fn *function) *symbols {
	return &symbols{parent: parent, fn: fn, names: map[string]*variable{}}
}

func (s *symbols) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.names[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *symbols) define(name string, kind loadKind, from *variable) *variable {
	v := s.names[name]
	if v == nil {
		v = &variable{fn: s.fn, slot: s.fn.slots, name: name}
		s.fn.slots++
		s.names[name] = v
		s.order = append(s.order, v)
	}
	v.load, v.from = kind, from
	return v
}

// store notes that the scope writes a name. In a branch of an if, it may keep the value with which it starts.
func (s *symbols) store(name string, branch bool) {
	if s.names[name] != nil {
		return
	}
	if outer := s.parent.find(name); outer != nil {
		s.define(name, loadAlias, outer)
	} else if branch {
		s.define(name, loadVar, nil)
	} else {
		s.define(name, loadMissing, nil)
	}
}

func (s *symbols) param(name string) *variable { return s.define(name, loadParam, nil) }

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, loadVar, nil)
	}
}

// collect gathers the names that statements use in this scope, without the scopes inside it. With branch, the
// statements are a branch of an if.
func (s *symbols) collect(body []stmt, branch bool) {
	for _, st := range body {
		switch st := st.(type) {
		case *outputStmt:
			s.collectExpr(st.x)
		case *ifStmt:
			for i, b := range st.bodies {
				if i < len(st.conds) {
					s.collectExpr(st.conds[i])
				}
				s.collect(b, true)
			}
		case *forStmt:
			s.collectExpr(st.iter)
		case *setStmt:
			s.collectExpr(st.x)
			s.collectTarget(st.target, false, branch)
		case *setBlockStmt:
			s.collectTarget(st.target, false, branch)
		case *macroStmt:
			s.store(st.name, branch)
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
}

func (s *symbols) collectTarget(t target, param, branch bool) {
	switch t := t.(type) {
	case *nameTarget:
		if param {
			s.param(t.name)
		} else {
			s.store(t.name, branch)
		}
	case *attrTarget:
		s.load(t.ns.name)
	case *tupleTarget:
		for _, it := range t.items {
			s.collectTarget(it, param, branch)
		}
	}
}

func (s *symbols) collectExpr(e expr) {
	walk(e, false, func(e expr, _ bool) {
		if n, ok := e.(*nameExpr); ok {
			s.load(n.name)
		}
	})
}

// walk calls f for an expression and all its parts, in source order. It is soft in the parts of a conditional
// expression.
func walk(e expr, soft bool, f func(e expr, soft bool)) {
	if e == nil {
		return
	}
	f(e, soft)
	all := func(es ...expr) {
		for _, x := range es {
			walk(x, soft, f)
		}
	}
	args := func(a arguments) {
		all(a.pos...)
		all(a.named...)
		all(a.star, a.kwstar)
	}
	switch e := e.(type) {
	case *attrExpr:
		all(e.obj)
	case *itemExpr:
		all(e.obj, e.key)
	case *sliceExpr:
		all(e.obj, e.start, e.stop, e.step)
	case *callExpr:
		all(e.fn)
		args(e.args)
	case *applyExpr:
		all(e.obj)
		args(e.args)
	case *binaryExpr:
		all(e.a, e.b)
	case *unaryExpr:
		all(e.x)
	case *notExpr:
		all(e.x)
	case *logicExpr:
		all(e.a, e.b)
	case *compareExpr:
		all(e.first)
		for _, o := range e.rest {
			all(o.x)
		}
	case *concatExpr:
		all(e.parts...)
	case *condExpr:
		soft = true
		all(e.cond, e.yes, e.no)
	case *listExpr:
		all(e.items...)
	case *dictExpr:
		for i := range e.keys {
			all(e.keys[i], e.vals[i])
		}
	}
}
