package jinja

import (
	"fmt"
	"slices"
)

// control says how a statement ended.
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
	checkNamespaces(r, s.target)
	v := s.x.eval(r)
	r.line = s.line
	s.target.assign(r, v)
	return ctlNext
}

func (s *setBlockStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	r.load(&s.frame)
	var ctl control
	t := r.capture(func() { ctl = r.run(s.body) })
	if ctl != ctlNext {
		return ctl
	}
	r.line = s.line
	v := Value(text(t))
	if s.filter != nil {
		v = r.filterText(s.filter.(*filterExpr), t)
	}
	s.target.assign(r, v)
	return ctlNext
}

// filterText applies the filters of a block to its text.
func (r *render) filterText(f *filterExpr, t Text) Value {
	var v Value = text(t)
	if inner, ok := f.obj.(*filterExpr); ok {
		v = r.filterText(inner, t)
	}
	return f.apply(r, v)
}

func (s *filterStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	r.load(&s.frame)
	var ctl control
	t := r.capture(func() { ctl = r.run(s.body) })
	if ctl != ctlNext {
		return ctl
	}
	r.line = s.line
	r.writeStr(r.filterText(s.filter.(*filterExpr), t))
	return ctlNext
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

func (s *scopeStmt) exec(r *render) control {
	r.load(&s.frame)
	return r.run(s.body)
}

func (s *blockStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	if s.required {
		r.typeError("Required block '%s' not found", s.name)
	}
	r.inFunction(s.fn, nil, func() {
		r.load(&s.frame)
		r.run(s.body)
	})
	return ctlNext
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

func (s *breakStmt) exec(r *render) control {
	r.step()
	return ctlBreak
}

func (s *continueStmt) exec(r *render) control {
	r.step()
	return ctlContinue
}

func (t *nameTarget) assign(r *render, v Value) {
	*r.slot(t.ref) = v
	if t.export && r.exports != nil {
		r.exports[t.name] = v
	}
}

func (t *attrTarget) assign(r *render, v Value) {
	ns, ok := (*r.slot(t.ns.ref)).(*namespace)
	if !ok {
		r.typeError("cannot assign attribute on non-namespace object")
	}
	ns.d.set(t.attr, v)
}

// checkNamespaces fails when a target assigns to an attribute of something else than a namespace.
func checkNamespaces(r *render, t target) {
	switch t := t.(type) {
	case *attrTarget:
		v := *r.slot(t.ns.ref)
		if _, ok := v.(*namespace); !ok {
			r.line = t.line
			r.typeError("cannot assign attribute on non-namespace object")
		}
	case *tupleTarget:
		for _, it := range t.items {
			checkNamespaces(r, it)
		}
	}
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

// loopContext is the loop variable, and drives the loop.
type loopContext struct {
	stmt *forStmt
	// src is what is looped over, for its length.
	src Value
	it  iterator
	// index0 is -1 before the first item.
	index0, length int
	// after is the next item if it was looked at; ended says that there is none.
	after           Value
	ended           bool
	current, before Value
	changed         []Value
	depth0          int
	// act is where a recursive loop was started.
	act *activation
}

// advance moves to the next item.
func (l *loopContext) advance(r *render) (Value, bool) {
	v := l.peek(r)
	if v == nil {
		return nil, false
	}
	l.after = nil
	l.index0++
	l.before, l.current = l.current, v
	return v, true
}

// peek returns the next item without moving on, or nil.
func (l *loopContext) peek(r *render) Value {
	if l.after == nil && !l.ended {
		v, ok := l.it.next(r)
		if !ok {
			l.ended = true
			return nil
		}
		l.after = v
	}
	return l.after
}

// len returns the number of items; it reads all of them if what is looped over does not tell.
func (l *loopContext) len(r *render) int {
	if l.length >= 0 {
		return l.length
	}
	if l.stmt.test == nil {
		if n := r.tryLen(l.src); n >= 0 {
			l.length = n
			return n
		}
	}
	rest := r.items(&generator{it: l.it})
	l.it = &sliceIter{items: rest}
	l.length = len(rest) + l.index0 + 1
	if l.after != nil {
		l.length++
	}
	return l.length
}

func (s *forStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	src := s.iter.eval(r)
	r.line = s.line
	if !s.recursive {
		s.loopOver(r, src, 0, r.act)
		return ctlNext
	}
	r.write(s.recurse(r, src, 0, r.act))
	return ctlNext
}

// recurse runs a recursive loop at a depth; act is where the loop stands.
func (s *forStmt) recurse(r *render, src Value, depth int, act *activation) Text {
	line, outer := r.line, r.act
	var t Text
	r.inFunction(s.fn, act, func() {
		t = r.capture(func() { s.loopOver(r, src, depth, act) })
	})
	r.act, r.line = outer, line
	return t
}

func (s *forStmt) loopOver(r *render, src Value, depth int, act *activation) {
	it := r.iter(src)
	if s.test != nil {
		it = s.filtered(r, it)
	}
	var lc *loopContext
	if s.loop >= 0 {
		lc = &loopContext{stmt: s, src: src, it: it, index0: -1, length: -1, depth0: depth, act: act}
	}
	some := false
	for {
		r.line = s.line
		var v Value
		var ok bool
		if lc != nil {
			v, ok = lc.advance(r)
		} else {
			v, ok = it.next(r)
		}
		if !ok {
			break
		}
		r.step()
		// A loop that is left by break has run, as jinja2 has it, only if it came to the end of its body once.
		s.target.assign(r, v)
		if lc != nil {
			r.act.slots[s.loop] = lc
		}
		r.load(&s.frame)
		c := r.run(s.body)
		if c == ctlBreak {
			break
		}
		if c == ctlContinue {
			continue
		}
		some = true
	}
	if len(s.elseBody) > 0 && !some {
		r.load(&s.otherFrame)
		r.run(s.elseBody)
	}
}

// filtered yields the items for which the loop's test holds.
func (s *forStmt) filtered(r *render, it iterator) iterator {
	act := r.act
	first := true
	return iterFunc(func(r *render) (Value, bool) {
		outer := r.act
		r.act = act
		defer func() { r.act = outer }()
		if first {
			first = false
			r.load(&s.testFrame)
		}
		for {
			v, ok := it.next(r)
			if !ok {
				return nil, false
			}
			r.step()
			s.testVar.assign(r, v)
			if truth(s.test.eval(r)) {
				return v, true
			}
		}
	})
}

// macro is a macro, or the body of a call block, with the variables around it.
type macro struct {
	def *macroDef
	act *activation
}

func (s *macroStmt) exec(r *render) control {
	r.step()
	s.target.assign(r, &macro{def: &s.macroDef, act: r.act})
	return ctlNext
}

func (s *callStmt) exec(r *render) control {
	r.step()
	r.line = s.line
	v := s.call.evalWith(r, &macro{def: &s.macroDef, act: r.act})
	r.line = s.line
	r.writeStr(v)
	return ctlNext
}

// writeStr writes what a filter or call block gave, which is not turned into a string.
func (r *render) writeStr(v Value) {
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("expected str instance, %s found", v.typeName())
	}
	r.write(s.Text)
}

// call runs a macro and returns its text.
func (m *macro) call(r *render, c *callArgs) Value {
	d := m.def
	line, outer := r.line, r.act
	r.enter()
	r.madeItems(d.fn.slots)
	r.act = &activation{slots: make([]Value, d.fn.slots), parent: m.act}
	slots := r.act.slots
	kw := c.kw
	take := func(name string) Value {
		for i, k := range kw {
			if k.name == name {
				kw = append(append([]kwArg(nil), kw[:i]...), kw[i+1:]...)
				return k.v
			}
		}
		return nil
	}
	hasCaller := false
	for i, p := range d.params {
		var v Value
		if i < len(c.pos) {
			v = c.pos[i]
		} else {
			v = take(p.name)
		}
		hasCaller = hasCaller || p.name == "caller"
		slots[p.ref.slot] = v
	}
	if d.caller >= 0 && !hasCaller {
		v := take("caller")
		if v == nil || isNone(v) {
			v = &undefined{hint: "No caller defined", name: str("caller", Trusted)}
		}
		slots[d.caller] = v
	}
	m.bindRest(r, c, kw)
	t := r.capture(func() {
		r.load(&d.frame)
		m.setDefaults(r)
		r.run(d.body)
	})
	r.leave()
	r.act, r.line = outer, line
	return text(t)
}

// bindRest gives the arguments without a parameter to kwargs and varargs.
func (m *macro) bindRest(r *render, c *callArgs, kw []kwArg) {
	d, slots := m.def, r.act.slots
	if d.kwargs >= 0 {
		rest := newDict(len(kw))
		for _, k := range kw {
			rest.set(str(k.name, k.origin), k.v)
		}
		slots[d.kwargs] = rest
	} else if len(kw) > 0 {
		if slices.ContainsFunc(kw, func(k kwArg) bool { return k.name == "caller" }) {
			r.typeError("macro '%s' was invoked with two values for the special caller argument. This is most likely a bug.", d.name)
		}
		r.typeError("macro '%s' takes no keyword argument %s", d.name, r.quote(str(kw[0].name, kw[0].origin)))
	}
	var extra []Value
	if len(c.pos) > len(d.params) {
		extra = c.pos[len(d.params):]
	}
	if d.varargs >= 0 {
		slots[d.varargs] = &tupleValue{items: extra}
	} else if len(extra) > 0 {
		r.typeError("macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
}

func (m *macro) setDefaults(r *render) {
	d := m.def
	slots := r.act.slots
	for i, p := range d.params {
		if slots[p.ref.slot] != nil {
			continue
		}
		if k := i - (len(d.params) - len(d.defaults)); k >= 0 {
			r.line = d.line
			slots[p.ref.slot] = d.defaults[k].eval(r)
			continue
		}
		slots[p.ref.slot] = &undefined{
			hint: fmt.Sprintf("parameter '%s' was not provided", p.name), name: str(p.name, Trusted),
		}
	}
}
