package jinja

func (r *render) pprint(v Value) Text { return r.repr(v) }
