package jinja

import (
	"math"
)

// dictValue is a dict that keeps its keys in order of insertion. Only the dict inside a namespace changes after it was
// made.
type dictValue struct {
	keys, vals []Value
	// index finds hashed keys. It is nil while the dict is small enough for a search.
	index map[any]int
}

const smallDict = 8

func newDict(n int) *dictValue {
	d := &dictValue{keys: make([]Value, 0, n), vals: make([]Value, 0, n)}
	if n > smallDict {
		d.index = make(map[any]int, n)
	}
	return d
}

// bigKey is the key of a big integer.
type bigKey string

// hash returns a comparable that is equal for keys that are equal in Python: 1, 1.0 and True, and strings of any
// origin. It returns false if v cannot be a key. Unlike in Python, a tuple cannot.
func hash(v Value) (any, bool) {
	if i, ok := smallInt(v); ok {
		return i, true
	}
	switch v := v.(type) {
	case *strValue:
		return v.String(), true
	case *bigValue:
		return bigKey(v.i.String()), true
	case floatValue:
		if f := float64(v); f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return int64(f), true
		}
		return v, true
	case *undefined:
		return undefined{}, true
	case *listValue, *dictValue, *dictView:
		return nil, false
	}
	return v, true
}

func (d *dictValue) len() int { return len(d.keys) }

// find returns the position of a hashed key, or -1.
func (d *dictValue) find(k any) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	name, isName := k.(string)
	for i, key := range d.keys {
		if s, ok := key.(*strValue); ok {
			if isName && s.String() == name {
				return i
			}
			continue
		}
		if h, _ := hash(key); h == k {
			return i
		}
	}
	return -1
}

// getStr returns the value at a string key, or nil.
func (d *dictValue) getStr(key string) Value {
	if i := d.find(key); i >= 0 {
		return d.vals[i]
	}
	return nil
}

// get returns the value at key, or nil. ok is false if the key is not hashable.
func (d *dictValue) get(key Value) (v Value, ok bool) {
	h, ok := hash(key)
	if !ok {
		return nil, false
	}
	if i := d.find(h); i >= 0 {
		return d.vals[i], true
	}
	return nil, true
}

// set stores a value. It returns false if the key is not hashable.
func (d *dictValue) set(key, val Value) bool {
	h, ok := hash(key)
	if !ok {
		return false
	}
	if i := d.find(h); i >= 0 {
		d.vals[i] = val
		return true
	}
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, val)
	if d.index != nil {
		d.index[h] = len(d.keys) - 1
	} else if len(d.keys) > smallDict {
		d.index = make(map[any]int, 2*len(d.keys))
		for i, k := range d.keys {
			kh, _ := hash(k)
			d.index[kh] = i
		}
	}
	return true
}

func (d *dictValue) copy() *dictValue {
	c := newDict(len(d.keys))
	for i, k := range d.keys {
		c.set(k, d.vals[i])
	}
	return c
}
