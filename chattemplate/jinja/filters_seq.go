package jinja

import (
	"slices"
	"sort"
	"strings"

	"runner/chattemplate/jinja/origin"
)

func addSequenceFilters() {
	addFilter("length", nil, 0, func(r *render, v Value, _ []Value) Value { return intValue(r.len(v)) })
	addFilter("list", nil, 0, func(r *render, v Value, _ []Value) Value {
		return r.list(r.items(v))
	})
	addFilter("first", nil, 0, func(r *render, v Value, _ []Value) Value {
		if it, ok := r.iter(v).next(r); ok {
			return it
		}
		return &undefined{hint: "No first item, sequence was empty."}
	})
	addFilter("last", nil, 0, func(r *render, v Value, _ []Value) Value {
		items := r.reversible(v)
		if len(items) == 0 {
			return &undefined{hint: "No last item, sequence was empty."}
		}
		return items[len(items)-1]
	})
	addFilter("reverse", nil, 0, func(r *render, v Value, _ []Value) Value {
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
	addFilter("batch", []string{"linecount", "fill_with"}, 1, func(r *render, v Value, a []Value) Value {
		src := r.iter(v)
		return lazy("do_batch", func(r *render) (Value, bool) { return r.batch(src, a[0], a[1]) })
	})
	addFilter("slice", []string{"slices", "fill_with"}, 1, func(r *render, v Value, a []Value) Value {
		return r.slices(v, r.argInt(a[0], 0), a[1])
	})
	filters["map"] = &signature{name: "map", rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
		return r.mapFilter(v, c)
	}}
	for _, name := range []string{"select", "reject", "selectattr", "rejectattr"} {
		filters[name] = &signature{name: name, rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
			return r.selectFilter(v, c, strings.HasPrefix(name, "select"), strings.HasSuffix(name, "attr"))
		}}
	}
}

// addOrderFilters adds the filters that compare items.
func addOrderFilters() {
	addFilter("sort", []string{"reverse", "case_sensitive", "attribute"}, 0, func(r *render, v Value, a []Value) Value {
		items := r.items(v)
		key := r.multiGetter(a[2], !given(a[1]))
		keys := make([]Value, len(items))
		r.madeItems(2 * len(items))
		order := make([]int, len(items))
		for i, it := range items {
			keys[i], order[i] = key(it), i
		}
		r.sortOrder(order, func(i int) Value { return keys[i] }, given(a[0]))
		out := make([]Value, len(items))
		for i, k := range order {
			out[i] = items[k]
		}
		return r.list(out)
	})
	addFilter("unique", []string{"case_sensitive", "attribute"}, 0, func(r *render, v Value, a []Value) Value {
		key := r.getter(a[1], nil, !given(a[0]))
		seen := map[hashKey]bool{}
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
	for name, sign := range map[string]int{"min": -1, "max": 1} {
		addFilter(name, []string{"case_sensitive", "attribute"}, 0, func(r *render, v Value, a []Value) Value {
			key := r.getter(a[1], nil, !given(a[0]))
			var best, bestKey Value
			src := r.iter(v)
			for {
				it, ok := src.next(r)
				if !ok {
					break
				}
				r.step()
				k := key(it)
				if best == nil || sign < 0 && r.order("<", k, bestKey) || sign > 0 && r.order(">", k, bestKey) {
					best, bestKey = it, k
				}
			}
			if best == nil {
				return &undefined{hint: "No aggregated item, sequence was empty."}
			}
			return best
		})
	}
	addFilter("groupby", []string{"attribute", "default", "case_sensitive"}, 1, func(r *render, v Value, a []Value) Value {
		return r.groupby(v, a[0], a[1], given(a[2]))
	})
}

// addFoldFilters adds the filters that reduce all items to one value.
func addFoldFilters() {
	addFilter("join", []string{"d", "attribute"}, 0, func(r *render, v Value, a []Value) Value {
		var sep Text
		if a[0] != nil {
			sep = r.str(a[0])
		}
		key := r.getter(a[1], nil, false)
		src := r.iter(v)
		var b origin.Builder
		for i := 0; ; i++ {
			it, ok := src.next(r)
			if !ok {
				break
			}
			r.step()
			if i > 0 {
				b.AddText(sep)
			}
			t := r.str(key(it))
			r.made(t.Len() + sep.Len())
			b.AddText(t)
			r.fits(b.Len())
		}
		return text(b.Text())
	})
	addFilter("sum", []string{"attribute", "start"}, 0, func(r *render, v Value, a []Value) Value {
		key := r.getter(a[0], nil, false)
		total := Value(intValue(0))
		if a[1] != nil {
			total = a[1]
		}
		if _, ok := total.(*strValue); ok {
			r.typeError("sum() can't sum strings [use ''.join(seq) instead]")
		}
		src := r.iter(v)
		for {
			it, ok := src.next(r)
			if !ok {
				return total
			}
			r.step()
			total = r.binary("+", total, key(it))
		}
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
	switch v.(type) {
	case *generator:
		r.typeError("'generator' object is not reversible")
	case noneValue, boolValue, intValue, *bigValue, floatValue, *namespace, *macro, *native, *loopContext,
		*cycler, *joiner:
		r.typeError("'%s' object is not reversible", v.typeName())
	}
	return r.items(v)
}

// sortOrder sorts positions by their keys. The sort is stable.
func (r *render) sortOrder(order []int, key func(int) Value, reverse bool) {
	r.work(len(order) * bytesPerStep)
	sort.SliceStable(order, func(i, j int) bool {
		r.step()
		if reverse {
			i, j = j, i
		}
		return r.less(key(order[i]), key(order[j]))
	})
}

func (r *render) sortBy(order []int, key func(int) Value) { r.sortOrder(order, key, false) }

func (r *render) batch(src iterator, count, fill Value) (Value, bool) {
	n := r.argInt(count, 0)
	var out []Value
	for len(out) < max(n, 1) {
		it, ok := src.next(r)
		if !ok {
			break
		}
		r.step()
		r.madeItems(1)
		out = append(out, it)
	}
	if len(out) == 0 {
		return nil, false
	}
	if fill != nil && !isNone(fill) && len(out) < n {
		r.madeItems(n - len(out))
		for len(out) < n {
			out = append(out, fill)
		}
	}
	return &listValue{items: out}, true
}

func (r *render) slices(v Value, n int, fill Value) Value {
	items := r.items(v)
	if n == 0 {
		r.typeError("integer division or modulo by zero")
	}
	k, off := 0, 0
	return lazy("sync_do_slice", func(r *render) (Value, bool) {
		if k >= n {
			return nil, false
		}
		r.step()
		each, extra := len(items)/n, len(items)%n
		start := off + k*each
		if k < extra {
			off++
		}
		part := slices.Clone(items[start : off+(k+1)*each])
		if fill != nil && !isNone(fill) && k >= extra {
			part = append(part, fill)
		}
		k++
		return r.list(part), true
	})
}

func (r *render) groupby(v, attr, def Value, caseSensitive bool) Value {
	items := r.items(v)
	key := r.getter(attr, def, !caseSensitive)
	plain := r.getter(attr, def, false)
	r.madeItems(2 * len(items))
	keys := make([]Value, len(items))
	order := make([]int, len(items))
	for i, it := range items {
		keys[i], order[i] = key(it), i
	}
	r.sortBy(order, func(i int) Value { return keys[i] })
	var out []Value
	for i := 0; i < len(order); {
		var group []Value
		k := keys[order[i]]
		for i < len(order) && r.equal(k, keys[order[i]]) {
			group = append(group, items[order[i]])
			i++
		}
		out = append(out, &tupleValue{items: []Value{plain(group[0]), r.list(group)}, names: []string{"grouper", "list"}})
	}
	return r.list(out)
}

// mapFilter is the map filter: with a filter and its arguments, or with an attribute and a default.
func (r *render) mapFilter(v Value, c *callArgs) Value {
	if !truth(v) {
		return lazy("sync_do_map", func(*render) (Value, bool) { return nil, false })
	}
	var f func(r *render, v Value) Value
	var src iterator
	return lazy("sync_do_map", func(r *render) (Value, bool) {
		if f == nil {
			f = r.mapFunc(c)
			src = r.iter(v)
		}
		it, ok := src.next(r)
		if !ok {
			return nil, false
		}
		r.step()
		return f(r, it), true
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
	sig := r.named(filters, "filter", c.pos[0])
	rest := &callArgs{pos: c.pos[1:], kw: c.kw}
	return func(r *render, v Value) Value { return r.callNative(sig, v, rest) }
}

// selectFilter implements select, reject, selectattr and rejectattr.
func (r *render) selectFilter(v Value, c *callArgs, want, byAttr bool) Value {
	if !truth(v) {
		return lazy("select_or_reject", func(*render) (Value, bool) { return nil, false })
	}
	var test func(r *render, v Value) bool
	var src iterator
	return lazy("select_or_reject", func(r *render) (Value, bool) {
		if test == nil {
			test = r.selectFunc(c, byAttr)
			src = r.iter(v)
		}
		for {
			it, ok := src.next(r)
			if !ok {
				return nil, false
			}
			r.step()
			if test(r, it) == want {
				return it, true
			}
		}
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
	sig := r.named(tests, "test", args[0])
	rest := &callArgs{pos: args[1:], kw: c.kw}
	return func(r *render, v Value) bool { return truth(r.callNative(sig, get(v), rest)) }
}
