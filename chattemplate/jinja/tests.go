package jinja

// tests are the tests of "is", by name.
var tests = natives{}

func init() {
	add := func(declaration string, fn func(r *render, v Value, a []Value) bool) {
		tests.add(declaration, func(r *render, v Value, a []Value) Value { return boolValue(fn(r, v, a)) })
	}
	is := func(name string, fn func(v Value) bool) {
		add(name, func(_ *render, v Value, _ []Value) bool { return fn(v) })
	}
	remainder := func(r *render, v, n Value) Value { return r.binary("%", v, n) }
	add("odd", func(r *render, v Value, _ []Value) bool { return r.equal(remainder(r, v, intValue(2)), intValue(1)) })
	add("even", func(r *render, v Value, _ []Value) bool { return r.equal(remainder(r, v, intValue(2)), intValue(0)) })
	add("divisibleby(other)", func(r *render, v Value, a []Value) bool {
		return r.equal(remainder(r, v, a[0]), intValue(0))
	})
	is("defined", func(v Value) bool { return !isUndefined(v) })
	is("undefined", isUndefined)
	is("none", isNone)
	is("boolean", func(v Value) bool { _, ok := v.(boolValue); return ok })
	is("true", func(v Value) bool { b, ok := v.(boolValue); return ok && bool(b) })
	is("false", func(v Value) bool { b, ok := v.(boolValue); return ok && !bool(b) })
	is("integer", func(v Value) bool { return v.typeName() == "int" })
	is("float", isFloat)
	is("number", isNumber)
	is("string", func(v Value) bool { _, ok := v.(*strValue); return ok })
	is("mapping", func(v Value) bool { _, ok := v.(*dictValue); return ok })
	is("sequence", func(v Value) bool {
		switch v.(type) {
		case *strValue, *listValue, *dictValue, *rangeValue, *undefined:
			return true
		}
		return false
	})
	is("iterable", func(v Value) bool { return tryIter(v) != nil })
	is("callable", func(v Value) bool {
		switch v.(type) {
		case *macro, *native, *undefined:
			return true
		}
		return false
	})
	add("lower", func(r *render, v Value, _ []Value) bool { return isLower(r.str(v).String()) })
	add("upper", func(r *render, v Value, _ []Value) bool { return isUpper(r.str(v).String()) })
	add("sameas(other)", func(_ *render, v Value, a []Value) bool { return same(v, a[0]) })
	add("in(other)", func(r *render, v Value, a []Value) bool { return r.contains(a[0], v) })
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
	} {
		for _, name := range names {
			add(name+"(other)", func(r *render, v Value, a []Value) bool { return r.compare(op, v, a[0]) })
		}
	}
}

// same is Python's "is" for values with an identity. Equal strings are the same.
func same(a, b Value) bool {
	x, okX := a.(*strValue)
	y, okY := b.(*strValue)
	return a == b || okX && okY && x.String() == y.String()
}
