package jinja

// clockName is the global that returns the time. Only renders with a time have it.
const clockName = "strftime_now"

// globals are the functions that every template has.
var globals = natives{}

func init() {
	globals.add(clockName+"(format)", func(r *render, _ Value, a []Value) Value {
		return text(r.strftime(r.argStr("strftime_now()", a[0])))
	})
	globals.add("range(start, stop?, step?)", (*render).rangeOf)
	globals.addAny("dict", func(r *render, _ Value, c *callArgs) Value { return r.dictOf("dict", c) })
	globals.addAny("namespace", func(r *render, _ Value, c *callArgs) Value {
		return &namespace{r.dictOf("namespace", c)}
	})
	globals.add("joiner(sep?)", func(_ *render, _ Value, a []Value) Value {
		next, sep := Value(emptyStr), a[0]
		if sep == nil {
			sep = str(", ", Trusted)
		}
		return &native{signature: &signature{name: "joiner", fn: func(*render, Value, []Value, *callArgs) Value {
			out := next
			next = sep
			return out
		}}}
	})
	globals.add("raise_exception(message)", func(r *render, _ Value, a []Value) Value {
		msg := r.str(a[0])
		panic(&Error{Kind: KindRaised, Line: r.line, Message: msg.Redacted(), Raised: msg})
	})
}

func (r *render) rangeOf(_ Value, a []Value) Value {
	start, stop, step := int64(0), int64(r.argInt(a[0], 0)), int64(1)
	if a[1] != nil {
		start, stop = stop, int64(r.argInt(a[1], 0))
	}
	if a[2] != nil {
		step = int64(r.argInt(a[2], 0))
	}
	n := int64(0)
	switch {
	case step == 0:
		r.typeError("range() arg 3 must not be zero")
	case step > 0 && stop > start:
		n = (stop-start-1)/step + 1
	case step < 0 && stop < start:
		n = (start-stop-1)/-step + 1
	}
	if n > int64(r.lim.Range) {
		r.fail(KindLimit, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", r.lim.Range)
	}
	return &rangeValue{start, stop, step, n}
}

// dictOf is dict(mapping or pairs, name=value, ...).
func (r *render) dictOf(fn string, c *callArgs) *dictValue {
	if len(c.pos) > 1 {
		r.typeError("%s expected at most 1 argument, got %d", fn, len(c.pos))
	}
	d := newDict(len(c.kw))
	if len(c.pos) == 1 {
		switch v := c.pos[0].(type) {
		case *dictValue:
			r.madeItems(2 * v.len())
			d = v.copy()
		default:
			r.addPairs(d, v)
		}
	}
	r.madeItems(2 * len(c.kw))
	for _, k := range c.kw {
		d.set(str(k.name, k.origin), k.v)
	}
	return d
}

func (r *render) addPairs(d *dictValue, v Value) {
	for i, p := range r.items(v) {
		if tryIter(p) == nil {
			r.typeError("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		kv := r.items(p)
		if len(kv) != 2 {
			r.typeError("dictionary update sequence element #%d has length %d; 2 is required", i, len(kv))
		}
		r.madeItems(2)
		r.setKey(d, kv[0], kv[1])
	}
}
