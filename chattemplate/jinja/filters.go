package jinja

import (
	"strconv"
	"strings"

	"runner/chattemplate/jinja/origin"
)

// filters are the filters by name. This file has those for any value, the other files those for numbers, sequences and
// text.
var filters = natives{}

func init() {
	addStringFilters()
	addSequenceFilters()
	addOrderFilters()
	addMappingFilters()
	addNumberFilters()
	filters.add("default(default_value?, boolean?)", func(r *render, v Value, a []Value) Value {
		if isUndefined(v) || a[1] != nil && truth(a[1]) && !truth(v) {
			if a[0] == nil {
				return emptyStr
			}
			return a[0]
		}
		return v
	})
	filters.add("tojson(ensure_ascii?, indent?, separators?, sort_keys?)", (*render).tojson)
	filters["d"] = filters["default"]
	filters["e"] = filters["escape"]
	filters["count"] = filters["length"]
}

// given reports whether an optional argument was given and is true.
func given(v Value) bool { return v != nil && truth(v) }

// pathOf splits the attribute argument of a filter at its dots. Parts of only digits are indices.
func (r *render) pathOf(attr Value) []Value {
	s, ok := attr.(*strValue)
	if !ok {
		if attr == nil || isNone(attr) {
			return nil
		}
		return []Value{attr}
	}
	var path []Value
	for _, p := range origin.Split(s.Text, ".", -1, false) {
		if p.String() != "" && p.Len() < 10 && strings.Trim(p.String(), "0123456789") == "" {
			n, _ := strconv.Atoi(p.String())
			path = append(path, intValue(n))
		} else {
			path = append(path, text(p))
		}
	}
	return path
}

// getter returns a function that looks up an attribute of an item. The attribute may have dots. With fold, strings
// become lower case.
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
			r.made(s.Len())
			return text(origin.Lower(s.Text))
		}
		return v
	}
}

// builtins are the filters and the tests, by what they are called in errors.
var builtins = map[string]natives{"filter": filters, "test": tests}

// named finds a filter or test by a name that is a value.
func (r *render) named(what string, name Value) *signature {
	if s, ok := name.(*strValue); ok && builtins[what][s.String()] != nil {
		return builtins[what][s.String()]
	}
	if u, isUndef := name.(*undefined); isUndef {
		r.typeError("No %s named Undefined. (%s; did you forget to quote the callable name?)", what, r.undefinedMessage(u))
	}
	r.typeError("No %s named %s.", what, r.quote(name))
	return nil
}

func addMappingFilters() {
	filters.add("items", func(r *render, v Value, _ []Value) Value {
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
	filters.add("dictsort(case_sensitive?, by?, reverse?)", func(r *render, v Value, a []Value) Value {
		byValue := false
		if a[1] != nil {
			switch r.argStr("dictsort()", a[1]).String() {
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
		keys := d.keys
		if byValue {
			keys = d.vals
		}
		order := r.sorted(keysOf(keys, fold), given(a[2]))
		out := make([]Value, len(order))
		for i, k := range order {
			out[i] = tuple(d.keys[k], d.vals[k])
		}
		return r.list(out)
	})
}
