package jinja

import (
	"slices"
	"strings"
)

// signature is a built-in function: a global, a filter, a test or a method. recv is the value that is filtered or
// tested, or the object of the method. It is nil for a global.
type signature struct {
	name   string
	params []string
	// required is the number of parameters that must be given.
	required int
	// rest allows any arguments; fn finds them in c.
	rest bool
	fn   func(r *render, recv Value, a []Value, c *callArgs) Value
}

// natives are built-in functions by name.
type natives map[string]*signature

// add adds a function. Its declaration is its name, followed by the names of its parameters in parentheses. A parameter
// with a question mark may be left out; then its element of a is nil.
func (n natives) add(declaration string, fn func(r *render, recv Value, a []Value) Value) {
	name, params, _ := strings.Cut(strings.TrimSuffix(declaration, ")"), "(")
	s := &signature{name: name, fn: func(r *render, recv Value, a []Value, _ *callArgs) Value { return fn(r, recv, a) }}
	if params != "" {
		s.params = strings.Split(params, ", ")
	}
	for i, p := range s.params {
		if s.params[i] = strings.TrimSuffix(p, "?"); s.params[i] == p {
			s.required++
		}
	}
	n[name] = s
}

// addAny adds a function that takes any arguments.
func (n natives) addAny(name string, fn func(r *render, recv Value, c *callArgs) Value) {
	n[name] = &signature{name: name, rest: true,
		fn: func(r *render, recv Value, _ []Value, c *callArgs) Value { return fn(r, recv, c) }}
}

func (r *render) callNative(s *signature, recv Value, c *callArgs) Value {
	r.step()
	if s.rest || len(c.kw) == 0 && len(c.pos) == len(s.params) {
		return s.fn(r, recv, c.pos, c)
	}
	if len(c.pos) > len(s.params) {
		r.typeError("%s() takes at most %d arguments (%d given)", s.name, len(s.params), len(c.pos))
	}
	a := make([]Value, len(s.params))
	copy(a, c.pos)
	for _, k := range c.kw {
		i := slices.Index(s.params, k.name)
		if i < 0 {
			r.typeError("%s() got an unexpected keyword argument %s", s.name, r.quote(str(k.name, k.origin)))
		}
		if a[i] != nil {
			r.typeError("%s() got multiple values for argument '%s'", s.name, k.name)
		}
		a[i] = k.v
	}
	for i := range s.required {
		if a[i] == nil {
			r.typeError("%s() missing required argument '%s'", s.name, s.params[i])
		}
	}
	return s.fn(r, recv, a, c)
}
