package jinja

import (
	"math"

	"runner/chattemplate/jinja/origin"
)

// attr is obj.name: an attribute of the object or, if it has none, its item of that name.
func (r *render) attr(obj Value, name *strValue) Value {
	if v := r.attribute(obj, name); v != nil {
		return v
	}
	if d, ok := obj.(*dictValue); ok {
		if v := d.getStr(name.String()); v != nil {
			return v
		}
	}
	return &undefined{obj: obj, name: name}
}

// item is obj[key]: an item of the object or, if it has none, its attribute of that name.
func (r *render) item(obj, key Value) Value {
	r.defined(obj)
	switch v := obj.(type) {
	case *dictValue:
		r.keyWork(key)
		if it, _ := v.get(key); it != nil {
			return it
		}
	case *listValue:
		if i, ok := r.index(key, len(v.items)); ok {
			return v.items[i]
		}
	case *rangeValue:
		if i, ok := r.index(key, int(v.n)); ok {
			return intValue(v.start + int64(i)*v.step)
		}
	case *strValue:
		r.work(v.Len())
		if i, ok := r.index(key, origin.RuneCount(v.String())); ok {
			c, _ := charAt(v.Text, origin.RuneOffset(v.String(), i))
			if v.markup {
				return asMarkup(c)
			}
			return c
		}
	}
	if s, ok := key.(*strValue); ok {
		if v := r.attribute(obj, s); v != nil {
			return v
		}
	}
	return &undefined{obj: obj, name: key}
}

// index returns the position that key means in a sequence of n items. It returns false if key is not an integer or is
// out of range.
func (r *render) index(key Value, n int) (int, bool) {
	i, ok := smallInt(key)
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

// attribute returns what Python's getattr finds through the sandbox, or nil.
func (r *render) attribute(obj Value, name *strValue) Value {
	if u, ok := obj.(*undefined); ok {
		r.failUndefined(u)
	}
	if v := r.field(obj, name.String()); v != nil {
		return v
	}
	if sig := methodOf(obj, name.String()); sig != nil {
		return &native{signature: sig, recv: obj}
	}
	if isUnsafe(obj, name.String()) {
		return &undefined{
			hint: "access to attribute '" + name.String() + "' of '" + obj.typeName() + "' object is unsafe.",
			kind: KindSecurity, name: name,
		}
	}
	return nil
}

// field returns a field of an object, or nil.
func (r *render) field(obj Value, name string) Value {
	switch v := obj.(type) {
	case *namespace:
		return v.d.getStr(name)
	case *loopContext:
		return v.field(r, name)
	}
	return nil
}

func (l *loopContext) field(r *render, name string) Value {
	switch name {
	case "index":
		return intValue(l.index0 + 1)
	case "index0":
		return intValue(l.index0)
	case "first":
		return boolValue(l.index0 == 0)
	case "last":
		return boolValue(l.peek(r) == nil)
	case "length":
		return intValue(l.len(r))
	case "revindex":
		return intValue(l.len(r) - l.index0)
	case "revindex0":
		return intValue(l.len(r) - l.index0 - 1)
	case "previtem":
		if l.index0 == 0 {
			return &undefined{hint: "there is no previous item"}
		}
		return l.before
	case "nextitem":
		if v := l.peek(r); v != nil {
			return v
		}
		return &undefined{hint: "there is no next item"}
	}
	return nil
}

// slice is obj[start:stop:step]. A part that was left out is nil.
func (r *render) slice(obj, start, stop, step Value) Value {
	r.defined(obj)
	switch v := obj.(type) {
	case *strValue:
		n := origin.RuneCount(v.String())
		lo, k, st := r.sliceBounds(start, stop, step, n)
		return &strValue{Text: r.sliceText(v.Text, n, lo, k, st), markup: v.markup}
	case *listValue:
		return &listValue{items: r.sliceItems(v.items, start, stop, step), tuple: v.tuple}
	case *rangeValue:
		lo, k, st := r.sliceBounds(start, stop, step, int(v.n))
		return &rangeValue{start: v.start + int64(lo)*v.step, stop: v.start + int64(lo+k*st)*v.step, step: v.step * int64(st),
			n: int64(k)}
	case *dictValue:
		r.typeError("unhashable type: 'slice'")
	}
	r.typeError("'%s' object is not subscriptable", obj.typeName())
	return nil
}

func (r *render) sliceItems(items []Value, start, stop, step Value) []Value {
	lo, k, st := r.sliceBounds(start, stop, step, len(items))
	if st == 1 {
		return items[lo : lo+k : lo+k]
	}
	r.madeItems(k)
	out := make([]Value, k)
	for i := range out {
		out[i] = items[lo+i*st]
	}
	return out
}

// sliceText takes k characters from a text of n characters: every st-th one, starting at character lo.
func (r *render) sliceText(t Text, n, lo, k, st int) Text {
	r.work(t.Len())
	if st == 1 {
		i := origin.RuneOffset(t.String(), lo)
		return t.Slice(i, i+origin.RuneOffset(t.String()[i:], k))
	}
	r.made(t.Len())
	r.madeItems(n / 4)
	offsets := make([]int, 0, n+1)
	for i := range t.String() {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, t.Len())
	var b origin.Builder
	for i := 0; i < k; i++ {
		c := lo + i*st
		b.AddText(t.Slice(offsets[c], offsets[c+1]))
	}
	return b.Text()
}

// sliceBounds returns the start of a slice of n items, its number of items and its step.
func (r *render) sliceBounds(start, stop, step Value, n int) (lo, k, st int) {
	st = r.sliceIndex(step, 1)
	if st == 0 {
		r.typeError("slice step cannot be zero")
	}
	clamp := func(v Value, def, low, high int) int {
		i := r.sliceIndex(v, def)
		if v != nil && !isNone(v) && i < 0 {
			i += n
		}
		return max(low, min(i, high))
	}
	if st > 0 {
		lo = clamp(start, 0, 0, n)
		hi := clamp(stop, n, 0, n)
		if hi > lo {
			k = (hi-lo-1)/st + 1
		}
		return lo, k, st
	}
	lo = clamp(start, n-1, -1, n-1)
	hi := clamp(stop, -1, -1, n-1)
	if hi < lo {
		k = (lo-hi-1)/-st + 1
	}
	return lo, k, st
}

// sliceIndex returns a bound of a slice, clipped to the sequence.
func (r *render) sliceIndex(v Value, def int) int {
	if v == nil || isNone(v) {
		return def
	}
	if i, ok := clipped(v, math.MaxInt32); ok {
		return i
	}
	r.typeError("slice indices must be integers or None or have an __index__ method")
	return 0
}
