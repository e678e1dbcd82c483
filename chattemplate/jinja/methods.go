package jinja

import (
	"slices"
	"strings"
)

// methodOf returns the method of a value, or nil.
func methodOf(v Value, name string) *signature {
	switch v.(type) {
	case *strValue:
		return strMethods[name]
	case *dictValue:
		return dictMethods[name]
	case *listValue, *rangeValue:
		return listMethods[name]
	case *loopContext:
		return loopMethods[name]
	}
	return nil
}

// unsafeMethods are the methods that change their object. The immutable sandbox refuses them.
var unsafeMethods = map[string][]string{
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// isUnsafe reports whether Python has an attribute that the sandbox refuses.
func isUnsafe(v Value, name string) bool {
	return strings.HasPrefix(name, "__") || slices.Contains(unsafeMethods[v.typeName()], name)
}

var dictMethods, listMethods, loopMethods = natives{}, natives{}, natives{}

func init() {
	for kind, name := range viewNames {
		dictMethods.add(name, func(_ *render, v Value, _ []Value) Value {
			return &dictView{d: v.(*dictValue), kind: viewKind(kind)}
		})
	}
	dictMethods.add("get(key, default?)", func(r *render, v Value, a []Value) Value {
		switch it := r.value(v.(*dictValue), a[0]); {
		case it != nil:
			return it
		case a[1] != nil:
			return a[1]
		}
		return noneValue{}
	})
	for _, table := range []natives{dictMethods, listMethods} {
		table.add("copy", func(_ *render, v Value, _ []Value) Value { return v })
	}
	listMethods.add("count(value)", func(r *render, v Value, a []Value) Value {
		n := 0
		for _, it := range r.items(v) {
			r.step()
			if r.equal(it, a[0]) {
				n++
			}
		}
		return intValue(n)
	})
	listMethods.add("index(value, start?, stop?)", func(r *render, v Value, a []Value) Value {
		items := r.items(v)
		lo, k, _ := r.sliceBounds(a[1], a[2], nil, len(items))
		for i := lo; i < lo+k; i++ {
			r.step()
			if r.equal(items[i], a[0]) {
				return intValue(i)
			}
		}
		r.typeError("the value is not in the %s", v.typeName())
		return nil
	})
	loopMethods.addAny("cycle", func(r *render, v Value, c *callArgs) Value {
		if len(c.pos) == 0 {
			r.typeError("no items for cycling given")
		}
		return c.pos[v.(*loopContext).index0%len(c.pos)]
	})
}
