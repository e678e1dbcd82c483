package jinja

import "runner/chattemplate/jinja/origin"

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

func (e *logicExpr) eval(r *render) Value {
	r.step()
	if v := e.a.eval(r); truth(v) == e.or {
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
	var b origin.Builder
	for _, p := range e.parts {
		t := r.str(p.eval(r))
		r.line = e.line
		r.made(t.Len())
		b.AddText(t)
		r.fits(b.Len())
	}
	return text(b.Text())
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
	return &listValue{items: r.evalAll(e.items), tuple: e.tuple}
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

// setKey stores an entry in a dict under construction.
func (r *render) setKey(d *dictValue, key, val Value) {
	r.keyWork(key)
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
	// origin is the origin of the name.
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
		if len(d.keys) > maxNames {
			r.fail(KindLimit, "more than %d keyword arguments", maxNames)
		}
		for i, k := range d.keys {
			s, ok := k.(*strValue)
			if !ok {
				r.typeError("keywords must be strings")
			}
			for _, have := range c.kw {
				if have.name == s.String() {
					r.typeError("got multiple values for keyword argument %s", r.quote(s))
				}
			}
			o := Outside
			if s.AllTrusted() {
				o = Trusted
			}
			c.kw = append(c.kw, kwArg{s.String(), o, d.vals[i]})
		}
	}
	return c
}

func (e *callExpr) eval(r *render) Value { return e.evalWith(r, nil) }

// evalWith evaluates the call. caller is the body of a call block, or nil.
func (e *callExpr) evalWith(r *render, caller *macro) Value {
	r.step()
	var obj, fn Value
	var method *signature
	if a, ok := e.fn.(*attrExpr); ok {
		// A method is called directly, without a value for the bound method.
		obj = a.obj.eval(r)
		r.line = a.line
		if method = methodOf(obj, a.name.String()); method == nil {
			fn = r.attr(obj, a.name)
		}
	} else {
		fn = e.fn.eval(r)
	}
	args := e.args.eval(r)
	if caller != nil {
		args.kw = append(args.kw, kwArg{"caller", Trusted, caller})
	}
	r.line = e.line
	if method != nil {
		return r.callNative(method, obj, &args)
	}
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
	}
	r.typeError("'%s' object is not callable", fn.typeName())
	return nil
}

func (e *applyExpr) eval(r *render) Value {
	r.step()
	v := e.obj.eval(r)
	args := e.args.eval(r)
	r.line = e.line
	if e.sig == nil {
		r.typeError("No %s named '%s' found.", e.what, e.name)
	}
	return r.callNative(e.sig, v, &args)
}

func (textExpr) eval(r *render) Value { return text(r.text) }
