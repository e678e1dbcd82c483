package jinja

import (
	"slices"
	"sort"
	"strings"

	"runner/chattemplate/jinja/origin"
)

func addSequenceFilters() {
	filters.add("length", func(r *render, v Value, _ []Value) Value { return intValue(r.len(v)) })
	filters.add("list", func(r *render, v Value, _ []Value) Value {
		return r.list(r.items(v))
	})
	filters.add("first", func(r *render, v Value, _ []Value) Value {
		if it, ok := r.iter(v).next(r); ok {
			return it
		}
		return &undefined{hint: "No first item, sequence was empty."}
	})
	filters.add("last", func(r *render, v Value, _ []Value) Value {
		items := r.reversible(v)
		if len(items) == 0 {
			return &undefined{hint: "No last item, sequence was empty."}
		}
		return items[len(items)-1]
	})
	filters.add("reverse", func(r *render, v Value, _ []Value) Value {
		if s, ok := v.(*strValue); ok {
			r.made(s.Len())
			return &strValue{Text: origin.Reverse(s.Text), markup: s.markup}
		}
		if tryIter(v) == nil {
			r.typeError("argument must be iterable")
		}
		items := slices.Clone(r.items(v))
		r.madeItems(len(items))
		slices.Reverse(items)
		it := &sliceIter{items: items}
		if _, ok := v.(*generator); ok {
			return &listValue{items: it.items}
		}
		return &generator{it: it, label: "reversed"}
	})
	filters.add("join(d?, attribute?)", func(r *render, v Value, a []Value) Value {
		var sep Text
		if a[0] != nil {
			sep = r.str(a[0])
		}
		key := r.getter(a[1], nil, false)
		return r.join(sep, r.iter(v), func(_ int, v Value) Text { return r.str(key(v)) })
	})
	filters.addAny("map", (*render).mapFilter)
	for _, name := range []string{"select", "reject", "selectattr", "rejectattr"} {
		filters.addAny(name, func(r *render, v Value, c *callArgs) Value {
			return r.selectFilter(v, c, strings.HasPrefix(name, "select"), strings.HasSuffix(name, "attr"))
		})
	}
}

// addOrderFilters adds the filters that compare items.
func addOrderFilters() {
	filters.add("sort(reverse?, case_sensitive?, attribute?)", func(r *render, v Value, a []Value) Value {
		items := r.items(v)
		if s, ok := a[2].(*strValue); ok && strings.Contains(s.String(), ",") {
			r.typeError("sort by several attributes is not supported")
		}
		get := r.getter(a[2], nil, !given(a[1]))
		// As in jinja2 the keys are lists. Equal items of lists are never compared for order, so undefined and none can
		// be sorted.
		key := func(v Value) Value { return &listValue{items: []Value{get(v)}} }
		out := make([]Value, len(items))
		for i, k := range r.sorted(keysOf(items, key), given(a[0])) {
			out[i] = items[k]
		}
		return r.list(out)
	})
	filters.add("unique(case_sensitive?, attribute?)", func(r *render, v Value, a []Value) Value {
		key := r.getter(a[1], nil, !given(a[0]))
		seen := map[any]bool{}
		src := r.iter(v)
		return lazy("unique", func(r *render) (Value, bool) {
			for {
				it, ok := src.next(r)
				if !ok {
					return nil, false
				}
				r.step()
				k := key(it)
				h, ok := hash(k)
				if !ok {
					r.typeError("unhashable type: '%s'", k.typeName())
				}
				if !seen[h] {
					r.madeItems(1)
					seen[h] = true
					return it, true
				}
			}
		})
	})
}

// lazy returns a generator. Generators can be nested without limit, so each running one counts as a level of nesting.
func lazy(label string, next iterFunc) Value { return &generator{it: nested(next), label: label} }

func nested(next iterFunc) iterFunc {
	return func(r *render) (Value, bool) {
		r.enter()
		v, ok := next(r)
		r.leave()
		return v, ok
	}
}

// reversible returns the items of a value that Python's reversed accepts.
func (r *render) reversible(v Value) []Value {
	if _, ok := v.(*generator); ok {
		r.typeError("'%s' object is not reversible", v.typeName())
	}
	return r.items(v)
}

func keysOf(items []Value, key func(Value) Value) []Value {
	keys := make([]Value, len(items))
	for i, it := range items {
		keys[i] = key(it)
	}
	return keys
}

// sorted returns the positions of keys in the order of the keys. The sort is stable.
func (r *render) sorted(keys []Value, reverse bool) []int {
	r.madeItems(2 * len(keys))
	r.work(len(keys) * bytesPerStep)
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		r.step()
		if reverse {
			i, j = j, i
		}
		return r.less(keys[order[i]], keys[order[j]])
	})
	return order
}

// lazyOver returns a generator of what step makes of the items of v. It leaves out those for which step returns false.
// As in jinja2, faults show when the first item is read: start, which returns step, runs then, and never for a false v.
func lazyOver(label string, v Value, start func(r *render) func(r *render, v Value) (Value, bool)) Value {
	if !truth(v) {
		v = tuple()
	}
	var step func(r *render, v Value) (Value, bool)
	var src iterator
	return lazy(label, func(r *render) (Value, bool) {
		if step == nil && truth(v) {
			step = start(r)
		}
		if src == nil {
			src = r.iter(v)
		}
		for {
			it, ok := src.next(r)
			if !ok {
				return nil, false
			}
			r.step()
			if out, keep := step(r, it); keep {
				return out, true
			}
		}
	})
}

// mapFilter is the map filter: with a filter and its arguments, or with an attribute and a default.
func (r *render) mapFilter(v Value, c *callArgs) Value {
	return lazyOver("sync_do_map", v, func(r *render) func(r *render, v Value) (Value, bool) {
		f := r.mapFunc(c)
		return func(r *render, v Value) (Value, bool) { return f(r, v), true }
	})
}

func (r *render) mapFunc(c *callArgs) func(r *render, v Value) Value {
	if len(c.pos) == 0 {
		var attr, def, odd Value
		for _, k := range c.kw {
			switch k.name {
			case "attribute":
				attr = k.v
			case "default":
				def = k.v
			default:
				odd = str(k.name, k.origin)
			}
		}
		switch {
		case attr == nil:
			r.typeError("map requires a filter argument")
		case odd != nil:
			r.typeError("Unexpected keyword argument %s", r.quote(odd))
		}
		get := r.getter(attr, def, false)
		return func(_ *render, v Value) Value { return get(v) }
	}
	sig := r.named("filter", c.pos[0])
	rest := &callArgs{pos: c.pos[1:], kw: c.kw}
	return func(r *render, v Value) Value { return r.callNative(sig, v, rest) }
}

// selectFilter implements select, reject, selectattr and rejectattr.
func (r *render) selectFilter(v Value, c *callArgs, want, byAttr bool) Value {
	return lazyOver("select_or_reject", v, func(r *render) func(r *render, v Value) (Value, bool) {
		test := r.selectFunc(c, byAttr)
		return func(r *render, v Value) (Value, bool) { return v, test(r, v) == want }
	})
}

func (r *render) selectFunc(c *callArgs, byAttr bool) func(r *render, v Value) bool {
	args := c.pos
	get := func(v Value) Value { return v }
	if byAttr {
		if len(args) == 0 {
			r.typeError("Missing parameter for attribute name")
		}
		get = r.getter(args[0], nil, false)
		args = args[1:]
	}
	if len(args) == 0 {
		return func(_ *render, v Value) bool { return truth(get(v)) }
	}
	sig := r.named("test", args[0])
	rest := &callArgs{pos: args[1:], kw: c.kw}
	return func(r *render, v Value) bool { return truth(r.callNative(sig, get(v), rest)) }
}
