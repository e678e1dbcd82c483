package jinja

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filters are the filters by name, in this file those on any value, in filters_str.go those on text.
var filters map[string]*signature

// filterFunc is a filter: v is the value filtered, a its arguments, nil where not given.
type filterFunc func(r *render, v Value, a []Value) Value

func addFilter(name string, params []string, required int, fn filterFunc) {
	filters[name] = &signature{name: name, params: params, required: required,
		fn: func(r *render, recv Value, a []Value, _ *callArgs) Value { return fn(r, recv, a) }}
}

func init() {
	filters = map[string]*signature{}
	addStringFilters()
	addSequenceFilters()
	addMappingFilters()
	addNumberFilters()
	addFilter("default", []string{"default_value", "boolean"}, 0, func(r *render, v Value, a []Value) Value {
		if isUndefined(v) || a[1] != nil && truth(a[1]) && !truth(v) {
			if a[0] == nil {
				return emptyStr
			}
			return a[0]
		}
		return v
	})
	addFilter("attr", []string{"name"}, 1, func(r *render, v Value, a []Value) Value {
		name := str(r.argStr("attr()", a[0]).s, a[0].(*strValue).originAt(0))
		if it := r.attribute(v, name); it != nil {
			return it
		}
		return &undefined{obj: v, name: a[0]}
	})
	addFilter("tojson", []string{"ensure_ascii", "indent", "separators", "sort_keys"}, 0, func(r *render, v Value, a []Value) Value {
		return r.tojson(v, a[0], a[1], a[2], a[3])
	})
	addFilter("random", nil, 0, func(r *render, _ Value, _ []Value) Value {
		r.typeError("the random filter is refused: prompts must not be random")
		return nil
	})
	filters["d"] = filters["default"]
	filters["e"] = filters["escape"]
	filters["count"] = filters["length"]
}

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
			r.made(len(s.s))
			return &strValue{Text: reverseText(s.Text), markup: s.markup}
		}
		if tryIter(v) == nil {
			r.typeError("argument must be iterable")
		}
		items := slices.Clone(r.items(v))
		r.madeItems(len(items))
		it := &sliceIter{items: reversed(items)}
		if _, ok := v.(*generator); ok {
			return &listValue{items: it.items}
		}
		return &generator{it: it, label: "reversed"}
	})
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
				h, ok := hash(k, 0)
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
	addFilter("batch", []string{"linecount", "fill_with"}, 1, func(r *render, v Value, a []Value) Value {
		src := r.iter(v)
		return lazy("do_batch", func(r *render) (Value, bool) { return r.batch(src, a[0], a[1]) })
	})
	addFilter("slice", []string{"slices", "fill_with"}, 1, func(r *render, v Value, a []Value) Value {
		return r.slices(v, r.argInt(a[0], 0), a[1])
	})
	addFilter("groupby", []string{"attribute", "default", "case_sensitive"}, 1, func(r *render, v Value, a []Value) Value {
		return r.groupby(v, a[0], a[1], given(a[2]))
	})
	addFilter("join", []string{"d", "attribute"}, 0, func(r *render, v Value, a []Value) Value {
		var sep Text
		if a[0] != nil {
			sep = r.str(a[0])
		}
		key := r.getter(a[1], nil, false)
		src := r.iter(v)
		var b builder
		for i := 0; ; i++ {
			it, ok := src.next(r)
			if !ok {
				break
			}
			r.step()
			if i > 0 {
				b.addText(sep)
			}
			t := r.str(key(it))
			r.made(len(t.s) + len(sep.s))
			b.addText(t)
			if len(b.buf) > r.lim.Output {
				r.made(len(b.buf))
			}
		}
		return text(b.text())
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
	filters["map"] = &signature{name: "map", rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
		return r.mapFilter(v, c)
	}}
	for _, name := range []string{"select", "reject", "selectattr", "rejectattr"} {
		filters[name] = &signature{name: name, rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
			return r.selectFilter(v, c, strings.HasPrefix(name, "select"), strings.HasSuffix(name, "attr"))
		}}
	}
}

// given reports whether an optional argument is there and true.
func given(v Value) bool { return v != nil && truth(v) }

// lazy returns a generator. Generators can be stacked without end, so each counts as a level of nesting while it runs.
func lazy(label string, next iterFunc) Value { return &generator{it: nested(next), label: label} }

func nested(next iterFunc) iterFunc {
	return func(r *render) (Value, bool) {
		r.enter()
		v, ok := next(r)
		r.leave()
		return v, ok
	}
}

// reversible returns the items of what Python's reversed takes.
func (r *render) reversible(v Value) []Value {
	switch v.(type) {
	case *generator:
		r.typeError("'generator' object is not reversible")
	case noneValue, boolValue, intValue, *bigValue, floatValue, *namespace, *macro, *native, *loopContext, *cycler, *joiner:
		r.typeError("'%s' object is not reversible", v.typeName())
	}
	return r.items(v)
}

// pathOf splits the attribute argument of a filter into its parts; all-digit parts are indices.
func (r *render) pathOf(attr Value) []Value {
	s, ok := attr.(*strValue)
	if !ok {
		if attr == nil || isNone(attr) {
			return nil
		}
		return []Value{attr}
	}
	var path []Value
	for _, p := range splitOn(s.Text, ".", -1, false) {
		if p.s != "" && len(p.s) < 10 && strings.Trim(p.s, "0123456789") == "" {
			n, _ := strconv.Atoi(p.s)
			path = append(path, intValue(n))
		} else {
			path = append(path, text(p))
		}
	}
	return path
}

// getter returns a function that looks up an attribute, which may have dots, in an item. fold lowers strings.
func (r *render) getter(attr, def Value, fold bool) func(Value) Value {
	path := r.pathOf(attr)
	if def != nil && isNone(def) {
		def = nil
	}
	return func(v Value) Value {
		for _, p := range path {
			v = r.item(v, p)
			if def != nil && isUndefined(v) {
				v = def
			}
		}
		if s, ok := v.(*strValue); ok && fold {
			r.made(len(s.s))
			return text(lower(s.Text))
		}
		return v
	}
}

// multiGetter is getter for attributes divided by commas; the key is the list of them, also of one, since equal items of a
// list are not compared for order: a list of undefined or none can be sorted.
func (r *render) multiGetter(attr Value, fold bool) func(Value) Value {
	gets := []func(Value) Value{}
	if s, ok := attr.(*strValue); ok {
		for _, p := range splitOn(s.Text, ",", -1, false) {
			gets = append(gets, r.getter(text(p), nil, fold))
		}
	} else {
		gets = append(gets, r.getter(attr, nil, fold))
	}
	return func(v Value) Value {
		items := make([]Value, len(gets))
		for i, g := range gets {
			items[i] = g(v)
		}
		return &listValue{items: items}
	}
}

// sortOrder sorts places by their keys, keeping the order of equal ones.
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

// mapFilter is map: with a filter and its arguments, or with attribute and default.
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

// named finds a filter or test whose name is a value.
func (r *render) named(table map[string]*signature, what string, name Value) *signature {
	s, ok := name.(*strValue)
	if ok && table[s.s] != nil {
		return table[s.s]
	}
	if u, isUndef := name.(*undefined); isUndef {
		r.typeError("No %s named Undefined. (%s; did you forget to quote the callable name?)", what, r.undefinedMessage(u))
	}
	r.typeError("No %s named %s.", what, r.quote(name))
	return nil
}

// selectFilter is select, reject, selectattr and rejectattr.
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

func addMappingFilters() {
	addFilter("items", nil, 0, func(r *render, v Value, _ []Value) Value {
		d, ok := v.(*dictValue)
		if !ok && !isUndefined(v) {
			return lazy("do_items", func(r *render) (Value, bool) {
				r.typeError("Can only get item pairs from a mapping.")
				return nil, false
			})
		}
		if !ok {
			d = newDict(0)
		}
		return &generator{it: (&dictView{d: d, kind: viewItems}).iter(), label: "do_items"}
	})
	addFilter("dictsort", []string{"case_sensitive", "by", "reverse"}, 0, func(r *render, v Value, a []Value) Value {
		byValue := false
		if a[1] != nil {
			switch r.argStr("dictsort()", a[1]).s {
			case "key":
			case "value":
				byValue = true
			default:
				r.typeError(`You can only sort by either "key" or "value"`)
			}
		}
		r.defined(v)
		d, ok := v.(*dictValue)
		if !ok {
			r.typeError("'%s' object has no attribute 'items'", v.typeName())
		}
		fold := r.getter(nil, nil, !given(a[0]))
		order := make([]int, d.len())
		r.madeItems(2 * d.len())
		keys := make([]Value, d.len())
		for i := range order {
			order[i] = i
			if byValue {
				keys[i] = fold(d.vals[i])
			} else {
				keys[i] = fold(d.keys[i])
			}
		}
		r.sortOrder(order, func(i int) Value { return keys[i] }, given(a[2]))
		out := make([]Value, len(order))
		for i, k := range order {
			out[i] = &tupleValue{items: []Value{d.keys[k], d.vals[k]}}
		}
		return r.list(out)
	})
}

func addNumberFilters() {
	addFilter("int", []string{"default", "base"}, 0, func(r *render, v Value, a []Value) Value {
		def := Value(intValue(0))
		if a[0] != nil {
			def = a[0]
		}
		return r.toInt(v, def, r.argInt(a[1], 10))
	})
	addFilter("float", []string{"default"}, 0, func(r *render, v Value, a []Value) Value {
		r.defined(v)
		if f, ok := parseFloatValue(v); ok {
			return floatValue(f)
		}
		if a[0] != nil {
			return a[0]
		}
		return floatValue(0)
	})
	addFilter("abs", nil, 0, func(r *render, v Value, _ []Value) Value {
		switch v.(type) {
		case floatValue:
			return floatValue(math.Abs(toFloat(v)))
		case intValue, boolValue, *bigValue:
			return bigInt(new(big.Int).Abs(toBig(v)))
		}
		r.typeError("bad operand type for abs(): '%s'", v.typeName())
		return nil
	})
	addFilter("round", []string{"precision", "method"}, 0, func(r *render, v Value, a []Value) Value {
		method := "common"
		if a[1] != nil {
			method = r.argStr("round()", a[1]).s
		}
		return r.round(v, r.argInt(a[0], 0), method)
	})
}

// toInt is the int filter: what does not read as an integer, or as a float cut off, is def.
func (r *render) toInt(v, def Value, base int) Value {
	r.defined(v)
	switch x := v.(type) {
	case boolValue, intValue, *bigValue:
		return bigInt(toBig(v))
	case *strValue:
		r.work(len(x.s))
		if len(x.s) <= maxNumberLen {
			if i, ok := parseInt(x.s, base); ok {
				return bigInt(i)
			}
		}
	}
	f, ok := parseFloatValue(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		if _, isFloat := v.(floatValue); isFloat && math.IsInf(f, 0) {
			r.typeError("cannot convert float infinity to integer")
		}
		return def
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return bigInt(i)
}

// asciiDigits replaces decimal digits of all scripts by those of ASCII.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf || !unicode.Is(unicode.Nd, c) {
			return c
		}
		// The digits of a script stand together, from zero on, in ranges of a multiple of ten.
		for _, x := range unicode.Nd.R16 {
			if rune(x.Lo) <= c && c <= rune(x.Hi) {
				return '0' + (c-rune(x.Lo))%10
			}
		}
		for _, x := range unicode.Nd.R32 {
			if rune(x.Lo) <= c && c <= rune(x.Hi) {
				return '0' + (c-rune(x.Lo))%10
			}
		}
		return c
	}, s)
}

// parseInt reads an integer as Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.ToLower(asciiDigits(strings.TrimFunc(s, isSpace)))
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	if p := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; p != "" {
		if strings.HasPrefix(s, p) {
			s = strings.TrimPrefix(s[2:], "_")
		}
	} else if base == 0 {
		base = 10
		for b, p := range map[int]string{2: "0b", 8: "0o", 16: "0x"} {
			if strings.HasPrefix(s, p) {
				base, s = b, strings.TrimPrefix(s[2:], "_")
			}
		}
	}
	if base < 2 || base > 36 || s == "" || s[0] == '_' || s[0] == '+' || s[0] == '-' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return nil, false
	}
	return new(big.Int).SetString(sign+strings.ReplaceAll(s, "_", ""), base)
}

// parseFloatValue is Python's float(v).
func parseFloatValue(v Value) (float64, bool) {
	if isNumber(v) {
		return toFloat(v), true
	}
	s, ok := v.(*strValue)
	if !ok || len(s.s) > maxNumberLen {
		return 0, false
	}
	t := strings.ToLower(asciiDigits(strings.TrimFunc(s.s, isSpace)))
	digits := strings.TrimLeft(t, "+-")
	switch {
	case len(t)-len(digits) > 1, digits == "", strings.HasPrefix(digits, "0x"):
		return 0, false
	case digits == "inf", digits == "infinity", digits == "nan":
	case strings.Trim(digits, "0123456789.e+-_") != "", strings.HasPrefix(digits, "_"), strings.HasSuffix(digits, "_"),
		strings.Contains(digits, "__"), strings.Contains(digits, "_."), strings.Contains(digits, "._"):
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(t, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// round is the round filter: common rounds half to even as Python's round does.
func (r *render) round(v Value, precision int, method string) Value {
	if method != "common" && method != "ceil" && method != "floor" {
		r.typeError("method must be common, ceil or floor")
	}
	if !isNumber(v) {
		if method != "common" {
			r.defined(v)
		}
		r.typeError("type %s doesn't define __round__ method", v.typeName())
	}
	if method != "common" {
		p := r.binary("**", intValue(10), intValue(precision))
		f := toFloat(r.binary("*", v, p))
		if method == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		if math.IsInf(f, 0) || math.IsNaN(f) {
			r.typeError("cannot convert float infinity to integer")
		}
		i, _ := big.NewFloat(f).Int(nil)
		return r.binary("/", bigInt(i), p)
	}
	f, ok := v.(floatValue)
	if !ok {
		return r.roundInt(toBig(v), precision)
	}
	return floatValue(roundFloat(float64(f), precision))
}

func roundFloat(f float64, precision int) float64 {
	switch {
	case f == 0 || math.IsInf(f, 0) || math.IsNaN(f) || precision > 323:
		return f
	case precision < -308:
		return math.Copysign(0, f)
	case precision >= 0:
		out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return out
	}
	p := math.Pow(10, float64(-precision))
	return math.RoundToEven(f/p) * p
}

func (r *render) roundInt(i *big.Int, precision int) Value {
	if precision >= 0 {
		return bigInt(i)
	}
	if -precision > maxNumberLen {
		return intValue(0)
	}
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q, m := new(big.Int).DivMod(i, p, new(big.Int))
	c := new(big.Int).Lsh(m, 1).Cmp(p)
	if c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return bigInt(q.Mul(q, p))
}
