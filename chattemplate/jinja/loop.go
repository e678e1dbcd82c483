package jinja

// loopContext is the loop variable. It also drives the loop.
type loopContext struct {
	stmt *forStmt
	// src is the value looped over. It is kept for its length.
	src Value
	it  iterator
	// index0 is -1 before the first item.
	index0, length int
	// after is the next item, if peek read it. ended is set if there is none.
	after           Value
	ended           bool
	current, before Value
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

// peek returns the next item without advancing, or nil.
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

// len returns the number of items. It reads them all if the value has no length.
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
	it := r.iter(src)
	if s.test != nil {
		it = s.filtered(r, it)
	}
	var lc *loopContext
	if s.loop >= 0 {
		lc = &loopContext{stmt: s, src: src, it: it, index0: -1, length: -1}
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
		// As in jinja2, a loop left by break counts as run only if its body ended once before.
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
	return ctlNext
}

// filtered yields the items that pass the loop's test.
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
