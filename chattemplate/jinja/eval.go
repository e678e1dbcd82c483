package jinja

import (
	"math"
	"math/big"
)

func (e *constExpr) eval(r *render) Value { return e.v }

func (e *nameExpr) eval(r *render) Value {
	r.step()
	if v := *r.slot(e.ref); v != nil {
		return v
	}
	return e.undef
}

func (e *attrExpr) eval(r *render) Value {
	r.step()
	obj := e.obj.eval(r)
	r.line = e.line
	return r.attr(obj, e.name)
}

func (e *itemExpr) eval(r *render) Value {
	r.step()
	obj := e.obj.eval(r)
	key := e.key.eval(r)
	r.line = e.line
	return r.item(obj, key)
}

func (e *sliceExpr) eval(r *render) Value {
	r.step()
	obj := e.obj.eval(r)
	part := func(x expr) Value {
		if x == nil {
			return nil
		}
		return x.eval(r)
	}
	start, stop, step := part(e.start), part(e.stop), part(e.step)
	r.line = e.line
	return r.slice(obj, start, stop, step)
}

// slice is obj[start:stop:step]; nil stands for a part left out.
func (r *render) slice(obj, start, stop, step Value) Value {
	r.defined(obj)
	switch v := obj.(type) {
	case *strValue:
		n := runeCount(v.s)
		lo, k, st := r.sliceBounds(start, stop, step, n)
		return &strValue{Text: r.sliceText(v.Text, n, lo, k, st), markup: v.markup}
	case *listValue:
		return r.list(r.sliceItems(v.items, start, stop, step))
	case *tupleValue:
		return &tupleValue{items: r.sliceItems(v.items, start, stop, step)}
	case *rangeValue:
		lo, k, st := r.sliceBounds(start, stop, step, int(v.n))
		return &rangeValue{start: v.start + int64(lo)*v.step, stop: v.start + int64(lo+k*st)*v.step, step: v.step * int64(st), n: int64(k)}
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

// sliceText takes k characters of a text of n, every st-th from character lo.
func (r *render) sliceText(t Text, n, lo, k, st int) Text {
	r.made(len(t.s))
	if st == 1 {
		i := runeOffset(t.s, lo)
		return t.slice(i, i+runeOffset(t.s[i:], k))
	}
	offsets := make([]int, 0, n+1)
	for i := range t.s {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(t.s))
	r.madeItems(n / 4)
	var b builder
	for i := 0; i < k; i++ {
		c := lo + i*st
		b.addText(t.slice(offsets[c], offsets[c+1]))
	}
	return b.text()
}

// sliceBounds returns where a slice of a sequence of n starts, how many items it has, and its step.
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

// sliceIndex returns a part of a slice, kept within what a sequence can have.
func (r *render) sliceIndex(v Value, def int) int {
	const bound = math.MaxInt32
	if v == nil || isNone(v) {
		return def
	}
	kind, i, b, _ := numberOf(v)
	switch kind {
	case 1:
		return int(max(-bound, min(i, bound)))
	case 2:
		return b.Sign() * bound
	}
	r.typeError("slice indices must be integers or None or have an __index__ method")
	return 0
}

func (e *binaryExpr) eval(r *render) Value {
	r.step()
	a := e.a.eval(r)
	b := e.b.eval(r)
	r.line = e.line
	return r.binary(e.op, a, b)
}

func (e *unaryExpr) eval(r *render) Value {
	r.step()
	x := e.x.eval(r)
	r.line = e.line
	return r.unary(e.op, x)
}

func (e *notExpr) eval(r *render) Value {
	r.step()
	return boolValue(!truth(e.x.eval(r)))
}

func (e *andExpr) eval(r *render) Value {
	r.step()
	if v := e.a.eval(r); !truth(v) {
		return v
	}
	return e.b.eval(r)
}

func (e *orExpr) eval(r *render) Value {
	r.step()
	if v := e.a.eval(r); truth(v) {
		return v
	}
	return e.b.eval(r)
}

func (e *compareExpr) eval(r *render) Value {
	left := e.first.eval(r)
	for _, o := range e.rest {
		r.step()
		right := o.x.eval(r)
		r.line = e.line
		if !r.compare(o.op, left, right) {
			return boolValue(false)
		}
		left = right
	}
	return boolValue(true)
}

func (r *render) compare(op string, a, b Value) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	return r.order(op, a, b)
}

func (e *concatExpr) eval(r *render) Value {
	r.step()
	var b builder
	for _, p := range e.parts {
		t := r.str(p.eval(r))
		r.line = e.line
		r.made(len(b.buf) + len(t.s))
		b.addText(t)
	}
	return text(b.text())
}

func (e *condExpr) eval(r *render) Value {
	r.step()
	if truth(e.cond.eval(r)) {
		return e.yes.eval(r)
	}
	if e.no != nil {
		return e.no.eval(r)
	}
	return &undefined{hint: "the inline if-expression evaluated to false and no else section was defined."}
}

func (r *render) evalAll(exprs []expr) []Value {
	if len(exprs) == 0 {
		return nil
	}
	r.madeItems(len(exprs))
	items := make([]Value, len(exprs))
	for i, x := range exprs {
		items[i] = x.eval(r)
	}
	return items
}

func (e *listExpr) eval(r *render) Value {
	r.step()
	return &listValue{items: r.evalAll(e.items)}
}

func (e *tupleExpr) eval(r *render) Value {
	r.step()
	return &tupleValue{items: r.evalAll(e.items)}
}

func (e *dictExpr) eval(r *render) Value {
	r.step()
	r.madeItems(2 * len(e.keys))
	d := newDict(len(e.keys))
	for i, k := range e.keys {
		key := k.eval(r)
		val := e.vals[i].eval(r)
		r.line = e.line
		r.setKey(d, key, val)
	}
	return d
}

// setKey stores into a dict being made.
func (r *render) setKey(d *dictValue, key, val Value) {
	if !d.set(key, val) {
		r.typeError("unhashable type: '%s'", key.typeName())
	}
}

// callArgs are the values of the arguments of a call.
type callArgs struct {
	pos []Value
	kw  []kwArg
}

type kwArg struct {
	name string
	// origin is that of the name.
	origin Origin
	v      Value
}

func (a *arguments) eval(r *render) callArgs {
	c := callArgs{pos: r.evalAll(a.pos)}
	for i, x := range a.named {
		c.kw = append(c.kw, kwArg{a.names[i], Trusted, x.eval(r)})
	}
	if a.star != nil {
		v := a.star.eval(r)
		if tryIter(v) == nil {
			r.typeError("Value after * must be an iterable, not %s", v.typeName())
		}
		c.pos = joinItems(c.pos, r.items(v))
		r.madeItems(len(c.pos))
	}
	if a.kwstar != nil {
		v := a.kwstar.eval(r)
		d, ok := v.(*dictValue)
		if !ok {
			r.typeError("argument after ** must be a mapping, not %s", v.typeName())
		}
		r.madeItems(len(d.keys))
		for i, k := range d.keys {
			s, ok := k.(*strValue)
			if !ok {
				r.typeError("keywords must be strings")
			}
			for _, have := range c.kw {
				if have.name == s.s {
					r.typeError("got multiple values for keyword argument %s", r.quote(s))
				}
			}
			o := Outside
			if s.allTrusted() {
				o = Trusted
			}
			c.kw = append(c.kw, kwArg{s.s, o, d.vals[i]})
		}
	}
	return c
}

func (e *callExpr) eval(r *render) Value { return e.evalWith(r, nil) }

// evalWith calls with the caller of a call block, or none.
func (e *callExpr) evalWith(r *render, caller *macro) Value {
	r.step()
	var fn Value
	if a, ok := e.fn.(*attrExpr); ok {
		// A method is called without making a value of it first.
		obj := a.obj.eval(r)
		r.line = a.line
		if sig := methodOf(obj, a.name.s); sig != nil {
			args := e.args.eval(r)
			if caller != nil {
				args.kw = append(args.kw, kwArg{"caller", Trusted, caller})
			}
			r.line = e.line
			return r.callNative(sig, obj, &args)
		}
		fn = r.attr(obj, a.name)
	} else {
		fn = e.fn.eval(r)
	}
	args := e.args.eval(r)
	if caller != nil {
		args.kw = append(args.kw, kwArg{"caller", Trusted, caller})
	}
	r.line = e.line
	return r.call(fn, &args)
}

func (r *render) call(fn Value, c *callArgs) Value {
	switch f := fn.(type) {
	case *macro:
		return f.call(r, c)
	case *native:
		return r.callNative(f.signature, f.recv, c)
	case *undefined:
		r.failUndefined(f)
	case *joiner:
		if !f.used {
			f.used = true
			return emptyStr
		}
		return f.sep
	case *loopContext:
		if !f.stmt.recursive {
			r.typeError("The loop must have the 'recursive' marker to be called recursively.")
		}
		if len(c.pos) != 1 || len(c.kw) > 0 {
			r.typeError("LoopContext.__call__() takes 1 argument")
		}
		return text(f.stmt.recurse(r, c.pos[0], f.depth0+1, f.act))
	}
	r.typeError("'%s' object is not callable", fn.typeName())
	return nil
}

func (e *filterExpr) eval(r *render) Value {
	r.step()
	return e.apply(r, e.obj.eval(r))
}

func (e *filterExpr) apply(r *render, v Value) Value {
	args := e.args.eval(r)
	r.line = e.line
	if e.sig == nil {
		r.typeError("No filter named '%s' found.", e.name)
	}
	return r.callNative(e.sig, v, &args)
}

func (e *testExpr) eval(r *render) Value {
	r.step()
	v := e.obj.eval(r)
	args := e.args.eval(r)
	r.line = e.line
	if e.sig == nil {
		r.typeError("No test named '%s' found.", e.name)
	}
	return r.callNative(e.sig, v, &args)
}

// signature is a function of the engine: a global, a filter, a test or a method. recv is the value filtered or tested, or
// the object of the method; nil for a global.
type signature struct {
	name string
	// params are the names of the parameters; one that starts with * can only be given by position.
	params []string
	// required is how many parameters must be given.
	required int
	// rest: further arguments are allowed, and fn finds them in c.
	rest bool
	fn   func(r *render, recv Value, a []Value, c *callArgs) Value
}

func (r *render) callNative(s *signature, recv Value, c *callArgs) Value {
	r.step()
	if len(c.kw) == 0 && len(c.pos) == len(s.params) {
		return s.fn(r, recv, c.pos, c)
	}
	if len(c.pos) > len(s.params) && !s.rest {
		r.typeError("%s() takes at most %d arguments (%d given)", s.name, len(s.params), len(c.pos))
	}
	a := make([]Value, len(s.params))
	copy(a, c.pos)
	for _, k := range c.kw {
		found := false
		for i, p := range s.params {
			if p == k.name {
				if a[i] != nil {
					r.typeError("%s() got multiple values for argument '%s'", s.name, p)
				}
				a[i] = k.v
				found = true
			}
		}
		if !found && !s.rest {
			r.typeError("%s() got an unexpected keyword argument %s", s.name, r.quote(str(k.name, k.origin)))
		}
	}
	for i := 0; i < s.required; i++ {
		if a[i] == nil {
			r.typeError("%s() missing required argument '%s'", s.name, trimStar(s.params[i]))
		}
	}
	return s.fn(r, recv, a, c)
}

func trimStar(s string) string {
	if s[0] == '*' {
		return s[1:]
	}
	return s
}

// attr is obj.name: an attribute of the object, else its item.
func (r *render) attr(obj Value, name *strValue) Value {
	if v := r.attribute(obj, name); v != nil {
		return v
	}
	if d, ok := obj.(*dictValue); ok {
		if v := d.getStr(name.s); v != nil {
			return v
		}
	}
	return &undefined{obj: obj, name: name}
}

// item is obj[key]: an item, else an attribute of that name.
func (r *render) item(obj, key Value) Value {
	r.defined(obj)
	switch v := obj.(type) {
	case *dictValue:
		if it, _ := v.get(key); it != nil {
			return it
		}
	case *listValue:
		if i, ok := r.index(key, len(v.items)); ok {
			return v.items[i]
		}
	case *tupleValue:
		if i, ok := r.index(key, len(v.items)); ok {
			return v.items[i]
		}
	case *rangeValue:
		if i, ok := r.index(key, int(v.n)); ok {
			return intValue(v.start + int64(i)*v.step)
		}
	case *strValue:
		r.work(len(v.s))
		if i, ok := r.index(key, runeCount(v.s)); ok {
			c, _ := charAt(v.Text, runeOffset(v.s, i))
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

// index returns the place that key means in a sequence of n items; false when it is out of range or no integer.
func (r *render) index(key Value, n int) (int, bool) {
	kind, i, _, _ := numberOf(key)
	if kind != 1 {
		return 0, false
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// attribute returns what Python's getattr finds, seen through the sandbox; nil when there is nothing.
func (r *render) attribute(obj Value, name *strValue) Value {
	if u, ok := obj.(*undefined); ok {
		r.failUndefined(u)
	}
	if v := r.field(obj, name.s); v != nil {
		return v
	}
	if sig := methodOf(obj, name.s); sig != nil {
		return &native{signature: sig, recv: obj}
	}
	if isUnsafe(obj, name.s) {
		return &undefined{
			hint: "access to attribute '" + name.s + "' of '" + obj.typeName() + "' object is unsafe.",
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
	case *tupleValue:
		for i, n := range v.names {
			if n == name {
				return v.items[i]
			}
		}
	case *cycler:
		if name == "current" {
			return v.items[v.pos]
		}
	case *macro:
		switch name {
		case "name":
			return str(v.def.name, Trusted)
		case "arguments":
			t := &tupleValue{}
			for _, p := range v.def.params {
				t.items = append(t.items, str(p.name, Trusted))
			}
			return t
		case "caller":
			return boolValue(v.def.caller >= 0)
		case "catch_kwargs":
			return boolValue(v.def.kwargs >= 0)
		case "catch_varargs":
			return boolValue(v.def.varargs >= 0)
		}
	case *rangeValue:
		switch name {
		case "start":
			return intValue(v.start)
		case "stop":
			return intValue(v.stop)
		case "step":
			return intValue(v.step)
		}
	case boolValue, intValue, *bigValue:
		switch name {
		case "real", "numerator":
			return bigInt(toBig(obj))
		case "imag":
			return intValue(0)
		case "denominator":
			return bigInt(big.NewInt(1))
		}
	case floatValue:
		switch name {
		case "real":
			return v
		case "imag":
			return floatValue(0)
		}
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
	case "depth":
		return intValue(l.depth0 + 1)
	case "depth0":
		return intValue(l.depth0)
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
