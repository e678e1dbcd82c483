package jinja

// control says how a statement ended: normally, by break or by continue.
type control uint8

const (
	ctlNext control = iota
	ctlBreak
	ctlContinue
)

func (r *render) run(body []stmt) control {
	for _, s := range body {
		if c := s.exec(r); c != ctlNext {
			return c
		}
	}
	return ctlNext
}

func (s *dataStmt) exec(r *render) control {
	r.step()
	r.write(s.text)
	return ctlNext
}

func (s *outputStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	v := s.x.eval(r)
	r.line = s.line
	r.write(r.str(v))
	return ctlNext
}

func (s *ifStmt) exec(r *render) control {
	r.step()
	for i, c := range s.conds {
		r.line = s.lines[i]
		if truth(c.eval(r)) {
			return r.run(s.bodies[i])
		}
	}
	if len(s.bodies) > len(s.conds) {
		return r.run(s.bodies[len(s.conds)])
	}
	return ctlNext
}

func (s *setStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	v := s.x.eval(r)
	r.line = s.line
	s.target.assign(r, v)
	return ctlNext
}

func (s *setBlockStmt) exec(r *render) control {
	v, ctl := r.block(s.line, &s.frame, s.body, s.filter)
	if ctl == ctlNext {
		s.target.assign(r, v)
	}
	return ctl
}

// block runs the body of a statement and returns the text it wrote, filtered.
func (r *render) block(line int, f *frame, body []stmt, filter expr) (v Value, ctl control) {
	r.step()
	r.line = line
	r.load(f)
	t := r.capture(func() { ctl = r.run(body) })
	r.line = line
	if ctl == ctlNext {
		r.text = t
		v = filter.eval(r)
	}
	return v, ctl
}

func (s *filterStmt) exec(r *render) control {
	v, ctl := r.block(s.line, &s.frame, s.body, s.filter)
	if ctl == ctlNext {
		r.writeStr(v)
	}
	return ctl
}

func (s *withStmt) exec(r *render) control {
	r.step()
	r.load(&s.frame)
	for i, t := range s.targets {
		r.line = s.line
		t.assign(r, s.values[i].eval(r))
	}
	return r.run(s.body)
}

func (s *generationStmt) exec(r *render) control {
	r.step()
	r.inFunction(s.fn, r.act, func() {
		r.load(&s.frame)
		r.run(s.body)
	})
	return ctlNext
}

// inFunction runs f in a new activation of fn.
func (r *render) inFunction(fn *function, parent *activation, f func()) {
	outer := r.act
	r.madeItems(fn.slots)
	r.act = &activation{slots: make([]Value, fn.slots), parent: parent}
	r.enter()
	f()
	r.leave()
	r.act = outer
}

func (s jumpStmt) exec(r *render) control {
	r.step()
	return control(s)
}

func (t *nameTarget) assign(r *render, v Value) {
	*r.slot(t.ref) = v
}

func (t *attrTarget) assign(r *render, v Value) {
	ns, ok := (*r.slot(t.ns.ref)).(*namespace)
	if !ok {
		r.typeError("cannot assign attribute on non-namespace object")
	}
	ns.d.set(t.attr, v)
}

func (t *tupleTarget) assign(r *render, v Value) {
	it := tryIter(v)
	if it == nil {
		r.typeError("cannot unpack non-iterable %s object", v.typeName())
	}
	var few [4]Value
	items := few[:0]
	for {
		e, ok := it.next(r)
		if !ok {
			break
		}
		r.step()
		if len(items) == len(t.items) {
			r.typeError("too many values to unpack (expected %d)", len(t.items))
		}
		items = append(items, e)
	}
	if len(items) < len(t.items) {
		r.typeError("not enough values to unpack (expected %d, got %d)", len(t.items), len(items))
	}
	for i, e := range items {
		t.items[i].assign(r, e)
	}
}

// writeStr writes the result of a filter block or call block, without turning it into a string.
func (r *render) writeStr(v Value) {
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("expected str instance, %s found", v.typeName())
	}
	r.write(s.Text)
}
