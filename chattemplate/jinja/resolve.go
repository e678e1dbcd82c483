package jinja

// scope is a place in the template, used while names are bound.
type scope struct {
	syms *symbols
	// soft: unknown filters and tests are errors only when they run. inLoop: the place is inside a loop, where no name
	// may be loop.
	soft, inLoop bool
}

func (sc scope) inner(fn *function) scope {
	return scope{syms: newSymbols(sc.syms, fn), inLoop: sc.inLoop}
}

// resolver binds the names of a template.
type resolver struct {
	// vars are the render variables that the template reads.
	vars map[string]bool
}

func (sc scope) ref(v *variable) varRef {
	return varRef{hops: sc.syms.fn.depth - v.fn.depth, slot: v.slot}
}

// frame returns what a scope loads when it is entered.
func (rs *resolver) frame(sc scope) frame {
	var f frame
	for _, v := range sc.syms.order {
		out := load{kind: v.load, slot: v.slot, name: v.name}
		switch v.load {
		case loadParam:
			continue
		case loadVar:
			rs.vars[v.name] = true
		case loadAlias:
			out.from = sc.ref(v.from)
		}
		f.loads = append(f.loads, out)
	}
	return f
}

// template binds a whole template. It returns the template's function and its frame.
func (rs *resolver) template(body []stmt) (*function, frame) {
	fn := &function{}
	sc := scope{syms: newSymbols(nil, fn)}
	sc.syms.collect(body, false)
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
		rs.written(sc, st.target)
	case *setBlockStmt:
		st.frame = rs.scoped(sc.inner(sc.syms.fn), st.body, st.filter)
		rs.written(sc, st.target)
	case *macroStmt:
		rs.macro(sc, &st.macroDef)
		rs.target(sc, st.target)
	case *callStmt:
		rs.macro(sc, &st.macroDef)
		rs.expr(sc, st.call)
	case *filterStmt:
		st.frame = rs.scoped(sc.inner(sc.syms.fn), st.body, st.filter)
	case *withStmt:
		in := sc.inner(sc.syms.fn)
		for _, t := range st.targets {
			in.syms.collectTarget(t, true, false)
		}
		in.syms.collect(st.body, false)
		for i, t := range st.targets {
			rs.target(in, t)
			rs.expr(sc, st.values[i])
		}
		rs.stmts(in, st.body)
		st.frame = rs.frame(in)
	case *generationStmt:
		st.fn = &function{depth: sc.syms.fn.depth + 1}
		st.frame = rs.scoped(sc.inner(st.fn), st.body, nil)
	}
}

// scoped binds a body, and a filter of its text, that have a scope of their own. It returns the scope's frame.
func (rs *resolver) scoped(in scope, body []stmt, filter expr) frame {
	in.syms.collect(body, false)
	in.syms.collectExpr(filter)
	rs.stmts(in, body)
	rs.expr(in, filter)
	return rs.frame(in)
}

func (rs *resolver) forStmt(sc scope, st *forStmt) {
	rs.expr(sc, st.iter)
	sc.inLoop = true
	in, test, other := sc.inner(sc.syms.fn), sc.inner(sc.syms.fn), sc.inner(sc.syms.fn)
	if st.usesLoop {
		st.loop = in.syms.param("loop").slot
	}
	in.syms.collectTarget(st.target, true, false)
	in.syms.collect(st.body, false)
	if st.test != nil {
		test.syms.collectTarget(st.testVar, true, false)
		test.syms.collectExpr(st.test)
		rs.target(test, st.testVar)
		rs.expr(test, st.test)
		st.testFrame = rs.frame(test)
	}
	rs.written(in, st.target)
	rs.stmts(in, st.body)
	st.frame = rs.frame(in)
	st.otherFrame = rs.scoped(other, st.elseBody, nil)
}

// macro binds a macro's parameters, defaults and body.
func (rs *resolver) macro(sc scope, d *macroDef) {
	d.fn = &function{depth: sc.syms.fn.depth + 1}
	in := sc.inner(d.fn)
	d.caller = -1
	explicit := false
	for i, p := range d.params {
		in.syms.param(p.name)
		explicit = explicit || p.name == "caller"
		if p.name == "caller" && d.usesCaller && i < len(d.params)-len(d.defaults) {
			syntaxError(d.line,
				`When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`)
		}
	}
	if d.usesCaller && !explicit {
		d.caller = in.syms.param("caller").slot
	}
	for _, e := range d.defaults {
		in.syms.collectExpr(e)
	}
	in.syms.collect(d.body, false)
	for _, p := range d.params {
		rs.target(in, p)
	}
	for _, e := range d.defaults {
		rs.expr(in, e)
	}
	rs.stmts(in, d.body)
	d.frame = rs.frame(in)
}

// written binds the target of a set tag or a loop.
func (rs *resolver) written(sc scope, t target) {
	forbidLoop(sc, t)
	rs.target(sc, t)
}

func forbidLoop(sc scope, t target) {
	switch t := t.(type) {
	case *nameTarget:
		if t.name == "loop" && sc.inLoop {
			syntaxError(t.line, "Can't assign to special loop variable in for-loop target")
		}
	case *tupleTarget:
		for _, it := range t.items {
			forbidLoop(sc, it)
		}
	}
}

func (rs *resolver) target(sc scope, t target) {
	switch t := t.(type) {
	case *nameTarget:
		t.ref = sc.ref(sc.syms.find(t.name))
	case *attrTarget:
		t.ns.ref = sc.ref(sc.syms.find(t.ns.name))
	case *tupleTarget:
		for _, it := range t.items {
			rs.target(sc, it)
		}
	}
}

// expr binds the names of an expression, and its filters and tests.
func (rs *resolver) expr(sc scope, e expr) {
	walk(e, sc.soft, func(e expr, soft bool) {
		switch e := e.(type) {
		case *nameExpr:
			e.ref = sc.ref(sc.syms.find(e.name))
		case *applyExpr:
			e.sig = builtins[e.what][e.name]
			if e.sig == nil && !soft {
				syntaxError(e.line, "No %s named '%s'.", e.what, e.name)
			}
		}
	})
}
