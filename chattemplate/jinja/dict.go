package jinja

import (
	"math"
	"strconv"
	"strings"
)

// dictValue is a dict that keeps its keys in order of insertion. Only the dict inside a namespace changes after it was
// made.
type dictValue struct {
	keys, vals []Value
	// index finds keys. It is nil while the dict is small enough for a search.
	index map[hashKey]int
}

// hashKey is equal for keys that are equal in Python: 1, 1.0 and True, and strings of any origin.
type hashKey struct {
	kind uint8
	num  uint64
	str  string
	// obj is set for values that equal only themselves.
	obj Value
}

const smallDict = 8

func newDict(n int) *dictValue {
	d := &dictValue{keys: make([]Value, 0, n), vals: make([]Value, 0, n)}
	if n > smallDict {
		d.index = make(map[hashKey]int, n)
	}
	return d
}

// maxTupleKey limits a tuple used as a key. It counts the items, those of inner tuples included, and one more for every
// 64 bytes of text.
const maxTupleKey = 10_000

// hash returns the key for v. It returns false if v cannot be a key.
func hash(v Value) (hashKey, bool) {
	room := maxTupleKey
	return hashIn(v, &room)
}

// hashIn is hash for a value in a tuple. The tuple may have room more items.
func hashIn(v Value, room *int) (hashKey, bool) {
	switch v := v.(type) {
	case *strValue:
		return hashKey{kind: 's', str: v.String()}, true
	case noneValue:
		return hashKey{kind: 'n'}, true
	case boolValue:
		if v {
			return hashKey{kind: 'i', num: 1}, true
		}
		return hashKey{kind: 'i'}, true
	case intValue:
		return hashKey{kind: 'i', num: uint64(v)}, true
	case *bigValue:
		return hashKey{kind: 'b', str: v.i.Text(62)}, true
	case floatValue:
		f := float64(v)
		if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return hashKey{kind: 'i', num: uint64(int64(f))}, true
		}
		return hashKey{kind: 'f', num: math.Float64bits(f)}, true
	case *undefined:
		return hashKey{kind: 'u'}, true
	case *tupleValue:
		return hashTuple(v, room)
	case *rangeValue:
		return hashKey{kind: 'r', str: v.String()}, true
	case *generator, *native, *macro, *namespace, *loopContext, *cycler, *joiner:
		return hashKey{kind: 'o', obj: v}, true
	}
	return hashKey{}, false
}

func hashTuple(v *tupleValue, room *int) (hashKey, bool) {
	var b strings.Builder
	for _, it := range v.items {
		k, ok := hashIn(it, room)
		*room -= 1 + len(k.str)/64
		if !ok || k.obj != nil || *room < 0 {
			return hashKey{}, false
		}
		b.WriteByte(k.kind)
		b.WriteString(strconv.FormatUint(k.num, 36))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(len(k.str)))
		b.WriteByte(':')
		b.WriteString(k.str)
	}
	return hashKey{kind: 't', str: b.String()}, true
}

func (d *dictValue) len() int { return len(d.keys) }

// find returns the position of a hashed key, or -1.
func (d *dictValue) find(k hashKey) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i, key := range d.keys {
		if s, ok := key.(*strValue); ok {
			if k.kind == 's' && s.String() == k.str {
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
	if i := d.find(hashKey{kind: 's', str: key}); i >= 0 {
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
		d.index = make(map[hashKey]int, 2*len(d.keys))
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
