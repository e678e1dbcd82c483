package jinja

// specialNames are the names that a loop or macro defines only if its body reads them.
var specialNames = [...]string{"loop", "caller", "kwargs", "varargs"}

// uses says how each special name is first used; 0 means not at all.
type uses [len(specialNames)]byte

const (
	useRead  = 'r'
	useWrite = 'w'
)

// then adds the uses of later source.
func (u *uses) then(v uses) {
	for i := range u {
		if u[i] == 0 {
			u[i] = v[i]
		}
	}
}

func (u *uses) name(name string, use byte) {
	for i, n := range specialNames {
		if n == name && u[i] == 0 {
			u[i] = use
		}
	}
}

func (u *uses) exprs(es ...expr) {
	for _, e := range es {
		walk(e, func(e expr) {
			if n, ok := e.(*nameExpr); ok {
				u.name(n.name, useRead)
			}
		})
	}
}

func (u *uses) target(t target) {
	switch t := t.(type) {
	case *nameTarget:
		u.name(t.name, useWrite)
	case *attrTarget:
		u.name(t.ns.name, useRead)
	case *tupleTarget:
		for _, it := range t.items {
			u.target(it)
		}
	}
}

// reads reports whether statements, at any depth, read a special name before they write it.
func (rs *resolver) reads(body []stmt, name string) bool {
	u := rs.bodyUses(body)
	for i, n := range specialNames {
		if n == name {
			return u[i] == useRead
		}
	}
	return false
}

func (rs *resolver) bodyUses(body []stmt) uses {
	var u uses
	for _, st := range body {
		v, ok := rs.uses[st]
		if !ok {
			v = rs.stmtUses(st)
			rs.uses[st] = v
		}
		u.then(v)
	}
	return u
}

// stmtUses looks at a statement and everything inside it.
func (rs *resolver) stmtUses(st stmt) uses {
	var u uses
	in := func(body []stmt) { u.then(rs.bodyUses(body)) }
	switch st := st.(type) {
	case *outputStmt:
		u.exprs(st.x)
	case *ifStmt:
		for i, b := range st.bodies {
			if i < len(st.conds) {
				u.exprs(st.conds[i])
			}
			in(b)
		}
	case *forStmt:
		u.target(st.target)
		u.exprs(st.iter)
		in(st.body)
		in(st.elseBody)
		u.exprs(st.test)
	case *setStmt:
		u.target(st.target)
		u.exprs(st.x)
	case *setBlockStmt:
		u.target(st.target)
		u.exprs(st.filter)
		in(st.body)
	case *macroStmt:
		u.exprs(st.defaults...)
		in(st.body)
	case *callStmt:
		u.exprs(st.call)
		u.exprs(st.defaults...)
		in(st.body)
	case *filterStmt:
		in(st.body)
		u.exprs(st.filter)
	case *withStmt:
		u.exprs(st.values...)
		in(st.body)
	case *generationStmt:
		in(st.body)
	}
	return u
}
