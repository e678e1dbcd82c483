package jinja

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// iterator yields the items of a value one by one.
type iterator interface {
	next(r *render) (Value, bool)
}

type sliceIter struct {
	items []Value
	i     int
}

func (s *sliceIter) next(*render) (Value, bool) {
	if s.i >= len(s.items) {
		return nil, false
	}
	s.i++
	return s.items[s.i-1], true
}

// iterFunc adapts a function to an iterator.
type iterFunc func(r *render) (Value, bool)

func (f iterFunc) next(r *render) (Value, bool) { return f(r) }

// charAt returns the character at byte i as a string, and its length in bytes.
func charAt(t Text, i int) (Value, int) {
	if b := t.String()[i]; b < utf8.RuneSelf {
		return asciiStr[t.OriginAt(i)][b], 1
	}
	_, n := utf8.DecodeRuneInString(t.String()[i:])
	return text(t.Slice(i, i+n)), n
}

func (v *rangeValue) iter() iterator {
	i := int64(0)
	return iterFunc(func(*render) (Value, bool) {
		if i >= v.n {
			return nil, false
		}
		i++
		return intValue(v.start + (i-1)*v.step), true
	})
}

func (v *dictView) iter() iterator {
	i := 0
	return iterFunc(func(*render) (Value, bool) {
		if i >= len(v.d.keys) {
			return nil, false
		}
		i++
		return v.at(i - 1), true
	})
}

func (v *dictView) at(i int) Value {
	switch v.kind {
	case viewKeys:
		return v.d.keys[i]
	case viewValues:
		return v.d.vals[i]
	}
	return tuple(v.d.keys[i], v.d.vals[i])
}

// tryIter returns an iterator over v, or nil if v is not iterable.
func tryIter(v Value) iterator {
	switch v := v.(type) {
	case *listValue:
		return &sliceIter{items: v.items}
	case *strValue:
		i := 0
		return iterFunc(func(*render) (Value, bool) {
			if i >= v.Len() {
				return nil, false
			}
			c, n := charAt(v.Text, i)
			i += n
			return c, true
		})
	case *dictValue:
		return &sliceIter{items: v.keys}
	case *undefined:
		return &sliceIter{}
	case *generator:
		return v.it
	case *rangeValue:
		return v.iter()
	case *dictView:
		return v.iter()
	}
	return nil
}

func (r *render) iter(v Value) iterator {
	it := tryIter(v)
	if it == nil {
		r.typeError("'%s' object is not iterable", v.typeName())
	}
	return it
}

// items returns all items of v. The slice may belong to v, so the caller must not change it.
func (r *render) items(v Value) []Value {
	switch v := v.(type) {
	case *listValue:
		return v.items
	case *dictValue:
		return v.keys
	}
	it := r.iter(v)
	var out []Value
	for {
		e, ok := it.next(r)
		if !ok {
			return out
		}
		r.step()
		r.made(itemBytes)
		out = append(out, e)
	}
}

// list makes a list of n new items.
func (r *render) list(items []Value) *listValue {
	r.madeItems(len(items))
	return &listValue{items: items}
}

func truth(v Value) bool {
	switch v := v.(type) {
	case boolValue:
		return bool(v)
	case *strValue:
		return v.String() != ""
	case noneValue, *undefined:
		return false
	case intValue:
		return v != 0
	case floatValue:
		return v != 0
	case *listValue:
		return len(v.items) > 0
	case *dictValue:
		return len(v.keys) > 0
	case *dictView:
		return len(v.d.keys) > 0
	case *rangeValue:
		return v.n > 0
	}
	return true
}

// tryLen returns len(v), or -1 if v has no length.
func (r *render) tryLen(v Value) int {
	switch v := v.(type) {
	case *strValue:
		r.work(v.Len())
		return origin.RuneCount(v.String())
	case *listValue:
		return len(v.items)
	case *dictValue:
		return len(v.keys)
	case *dictView:
		return len(v.d.keys)
	case *rangeValue:
		return int(v.n)
	case *undefined:
		return 0
	}
	return -1
}

func (r *render) len(v Value) int {
	n := r.tryLen(v)
	if n < 0 {
		r.typeError("object of type '%s' has no len()", v.typeName())
	}
	return n
}

// equal is Python's ==.
func (r *render) equal(a, b Value) bool { return r.equalAt(a, b, 0) }

func (r *render) equalAt(a, b Value, depth int) bool {
	r.tooDeep(depth)
	switch x := a.(type) {
	case *strValue:
		y, ok := b.(*strValue)
		if !ok || x.Len() != y.Len() {
			return false
		}
		r.work(x.Len())
		return x.String() == y.String()
	case boolValue, intValue, *bigValue, floatValue:
		if !isNumber(b) {
			return false
		}
		c, un := compareNumbers(a, b)
		return c == 0 && !un
	case noneValue:
		return isNone(b)
	case *undefined:
		return isUndefined(b)
	case *listValue:
		y, ok := b.(*listValue)
		return ok && x.tuple == y.tuple && r.equalItems(x.items, y.items, depth)
	case *dictValue:
		y, ok := b.(*dictValue)
		return ok && r.equalDicts(x, y, depth)
	}
	return a == b
}

func (r *render) equalItems(a, b []Value, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		r.step()
		if !r.equalAt(a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

func (r *render) equalDicts(a, b *dictValue, depth int) bool {
	if a.len() != b.len() {
		return false
	}
	for i, k := range a.keys {
		r.step()
		v, _ := b.get(k)
		if v == nil || !r.equalAt(a.vals[i], v, depth+1) {
			return false
		}
	}
	return true
}

// order compares by an ordering operator of Python: "<", "<=", ">" or ">=".
func (r *render) order(op string, a, b Value) bool {
	c, un := r.compareFor(op, a, b, 0)
	if un {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (r *render) less(a, b Value) bool { return r.order("<", a, b) }

func (r *render) compareFor(op string, a, b Value, depth int) (c int, unordered bool) {
	r.tooDeep(depth)
	r.defined(a)
	r.defined(b)
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	switch x := a.(type) {
	case *strValue:
		if y, ok := b.(*strValue); ok {
			r.work(min(x.Len(), y.Len()))
			return strings.Compare(x.String(), y.String()), false
		}
	case *listValue:
		if y, ok := b.(*listValue); ok && x.tuple == y.tuple {
			return r.compareItems(op, x.items, y.items, depth)
		}
	}
	r.typeError("'%s' not supported between instances of '%s' and '%s'", op, a.typeName(), b.typeName())
	return 0, false
}

func (r *render) compareItems(op string, a, b []Value, depth int) (c int, unordered bool) {
	for i := 0; i < len(a) && i < len(b); i++ {
		r.step()
		if !r.equalAt(a[i], b[i], depth+1) {
			return r.compareFor(op, a[i], b[i], depth+1)
		}
	}
	return cmp.Compare(len(a), len(b)), false
}

// contains is Python's "v in c".
func (r *render) contains(c, v Value) bool {
	switch c := c.(type) {
	case *strValue:
		s, ok := v.(*strValue)
		if !ok {
			r.typeError("'in <string>' requires string as left operand, not %s", v.typeName())
		}
		r.work(c.Len())
		return strings.Contains(c.String(), s.String())
	case *dictValue:
		return r.value(c, v) != nil
	case *dictView:
		if c.kind == viewKeys {
			return r.value(c.d, v) != nil
		}
	case *undefined:
		return false
	}
	it := tryIter(c)
	if it == nil {
		r.typeError("argument of type '%s' is not iterable", c.typeName())
	}
	for {
		e, ok := it.next(r)
		if !ok {
			return false
		}
		r.step()
		if r.equal(e, v) {
			return true
		}
	}
}

// keyWork counts the cost of a search for a key.
func (r *render) keyWork(key Value) {
	if s, ok := key.(*strValue); ok {
		r.work(s.Len())
	}
}

// value returns the value at a key, or nil.
func (r *render) value(d *dictValue, key Value) Value {
	r.keyWork(key)
	v, ok := d.get(key)
	if !ok {
		r.typeError("unhashable type: '%s'", key.typeName())
	}
	return v
}

// defined fails if v is undefined.
func (r *render) defined(v Value) {
	if u, ok := v.(*undefined); ok {
		r.failUndefined(u)
	}
}

func (r *render) failUndefined(u *undefined) {
	kind := u.kind
	if kind == 0 {
		kind = KindUndefined
	}
	r.fail(kind, "%s", r.undefinedMessage(u))
}

func (r *render) undefinedMessage(u *undefined) string {
	if u.hint != "" {
		return u.hint
	}
	if u.obj == nil {
		return r.quote(u.name) + " is undefined"
	}
	owner := u.obj.typeName() + " object"
	switch u.obj.(type) {
	case noneValue:
		owner = "None"
	case *namespace:
		owner = "jinja2.utils." + owner
	case *macro, *loopContext:
		owner = "jinja2.runtime." + owner
	}
	if _, ok := u.name.(*strValue); ok {
		return "'" + owner + "' has no attribute " + r.quote(u.name)
	}
	return owner + " has no element " + r.quote(u.name)
}
