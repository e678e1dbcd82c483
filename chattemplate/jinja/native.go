package jinja

// signature is a built-in function: a global, a filter, a test or a method. recv is the value that is filtered or
// tested, or the object of the method. It is nil for a global.
type signature struct {
	name string
	// params are the names of the parameters. A name that starts with * can only be passed by position.
	params []string
	// required is the number of parameters that must be given.
	required int
	// rest allows further arguments; fn finds them in c.
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
