package jinja

import (
	"math"
	"slices"
	"strings"
)

// methodOf returns the method of a value, or nil.
func methodOf(v Value, name string) *signature {
	switch v := v.(type) {
	case *strValue:
		return strMethods[name]
	case *dictValue:
		return dictMethods[name]
	case *listValue:
		return listMethods[name]
	case *tupleValue, *rangeValue:
		if name != "copy" {
			return listMethods[name]
		}
	case *loopContext:
		return loopMethods[name]
	case *cycler:
		return cyclerMethods[name]
	case intValue, boolValue, *bigValue:
		if name == "bit_length" {
			return bitLength
		}
	case floatValue:
		if name == "is_integer" {
			return isInteger
		}
	case *dictView:
		if name == "isdisjoint" && v.kind != viewValues {
			return isDisjoint
		}
	}
	return nil
}

// unsafeMethods are the methods that change their object. The immutable sandbox refuses them.
var unsafeMethods = map[string][]string{
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// dunders are the internal attributes that all Python objects have.
var dunders = []string{
	"__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__", "__getattribute__", "__gt__",
	"__hash__", "__init__", "__init_subclass__", "__le__", "__lt__", "__module__", "__ne__", "__new__", "__reduce__",
	"__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__",
}

// isUnsafe reports whether Python has an attribute that the sandbox refuses.
func isUnsafe(v Value, name string) bool {
	if strings.HasPrefix(name, "__") {
		return slices.Contains(dunders, name)
	}
	return slices.Contains(unsafeMethods[v.typeName()], name)
}

func method(name string, params []string, required int, fn func(r *render, recv Value, a []Value) Value) *signature {
	return &signature{name: name, params: params, required: required,
		fn: func(r *render, recv Value, a []Value, _ *callArgs) Value { return fn(r, recv, a) }}
}

var dictMethods, listMethods, loopMethods, cyclerMethods map[string]*signature

var (
	bitLength = method("bit_length", nil, 0, func(r *render, v Value, _ []Value) Value {
		return intValue(toBig(v).BitLen())
	})
	isInteger = method("is_integer", nil, 0, func(r *render, v Value, _ []Value) Value {
		f := float64(v.(floatValue))
		return boolValue(f == math.Trunc(f) && !math.IsInf(f, 0))
	})
	isDisjoint = method("isdisjoint", []string{"*other"}, 1, func(r *render, v Value, a []Value) Value {
		for _, it := range r.items(a[0]) {
			if r.contains(v, it) {
				return boolValue(false)
			}
		}
		return boolValue(true)
	})
)

func init() {
	view := func(name string, kind viewKind) *signature {
		return method(name, nil, 0, func(r *render, v Value, _ []Value) Value {
			return &dictView{d: v.(*dictValue), kind: kind}
		})
	}
	dictMethods = map[string]*signature{
		"keys":   view("keys", viewKeys),
		"values": view("values", viewValues),
		"items":  view("items", viewItems),
		"get": method("get", []string{"*key", "*default"}, 1, func(r *render, v Value, a []Value) Value {
			r.keyWork(a[0])
			it, ok := v.(*dictValue).get(a[0])
			if !ok {
				r.typeError("unhashable type: '%s'", a[0].typeName())
			}
			switch {
			case it != nil:
				return it
			case a[1] != nil:
				return a[1]
			}
			return noneValue{}
		}),
		"copy": method("copy", nil, 0, func(r *render, v Value, _ []Value) Value { return v }),
		"fromkeys": method("fromkeys", []string{"*iterable", "*value"}, 1, func(r *render, _ Value, a []Value) Value {
			val := a[1]
			if val == nil {
				val = noneValue{}
			}
			keys := r.items(a[0])
			r.madeItems(2 * len(keys))
			d := newDict(len(keys))
			for _, k := range keys {
				r.setKey(d, k, val)
			}
			return d
		}),
	}
}

func init() {
	listMethods = map[string]*signature{
		"count": method("count", []string{"*value"}, 1, func(r *render, v Value, a []Value) Value {
			n := 0
			for _, it := range r.items(v) {
				r.step()
				if r.equal(it, a[0]) {
					n++
				}
			}
			return intValue(n)
		}),
		"index": method("index", []string{"*value", "*start", "*stop"}, 1, func(r *render, v Value, a []Value) Value {
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
		}),
		"copy": method("copy", nil, 0, func(r *render, v Value, _ []Value) Value { return v }),
	}
}

func init() {
	loopMethods = map[string]*signature{
		"cycle": {name: "cycle", rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
			if len(c.pos) == 0 {
				r.typeError("no items for cycling given")
			}
			return c.pos[v.(*loopContext).index0%len(c.pos)]
		}},
		"changed": {name: "changed", rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
			l := v.(*loopContext)
			if l.changed != nil && r.equalItems(l.changed, c.pos, 0) {
				return boolValue(false)
			}
			l.changed = append([]Value{}, c.pos...)
			return boolValue(true)
		}},
	}
	cyclerMethods = map[string]*signature{
		"next": method("next", nil, 0, func(r *render, v Value, _ []Value) Value {
			c := v.(*cycler)
			it := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return it
		}),
		"reset": method("reset", nil, 0, func(r *render, v Value, _ []Value) Value {
			v.(*cycler).pos = 0
			return noneValue{}
		}),
	}
}
