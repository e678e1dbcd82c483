package jinja

import (
	"fmt"
	"slices"
)

// macro is a macro or the body of a call block, with the variables around it.
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

// call runs a macro and returns its text.
func (m *macro) call(r *render, c *callArgs) Value {
	line := r.line
	var t Text
	r.inFunction(m.def.fn, m.act, func() {
		m.bind(r, c)
		t = r.capture(func() {
			r.load(&m.def.frame)
			m.setDefaults(r)
			r.run(m.def.body)
		})
	})
	r.line = line
	return text(t)
}

// bind gives the parameters their values.
func (m *macro) bind(r *render, c *callArgs) {
	d, slots, kw := m.def, r.act.slots, c.kw
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
	if len(kw) > 0 {
		if slices.ContainsFunc(kw, func(k kwArg) bool { return k.name == "caller" }) {
			r.typeError("macro '%s' was invoked with two values for the special caller argument. This is most likely a bug.",
				d.name)
		}
		r.typeError("macro '%s' takes no keyword argument %s", d.name, r.quote(str(kw[0].name, kw[0].origin)))
	}
	if len(c.pos) > len(d.params) {
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
