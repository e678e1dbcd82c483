package jsonschema

import (
	"slices"
	"strings"
	"testing"

	"runner/grammar/expr"
)

// instance reads a JSON value for a test.
func instance(t testing.TB, text []byte) *value {
	t.Helper()
	v, err := tryValue(text, 1000)
	if err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

// write returns v as JSON, with a space after colons and commas if spaced.
func (v *value) write(spaced bool) string {
	var b strings.Builder
	comma, colon := ",", ":"
	if spaced {
		comma, colon = ", ", ": "
	}
	var write func(v *value)
	write = func(v *value) {
		switch v.kind {
		case stringValue:
			b.WriteString(quote(v.text))
		case arrayValue:
			for i, item := range v.items {
				b.WriteString([]string{"[", comma}[min(i, 1)])
				write(item)
			}
			b.WriteString([]string{"[]", "]"}[min(len(v.items), 1)])
		case objectValue:
			for i, m := range v.members {
				b.WriteString([]string{"{", comma}[min(i, 1)] + quote(m.key) + colon)
				write(m.value)
			}
			b.WriteString([]string{"{}", "}"}[min(len(v.members), 1)])
		case numberValue:
			b.WriteString(v.number())
		default:
			b.WriteString(v.spellings(false)[0])
		}
	}
	write(v)
	return b.String()
}

// number writes integers without an exponent.
func (v *value) number() string {
	if v.num.IsInt() && strings.ContainsAny(v.text, "eE") {
		return v.num.Num().String()
	}
	return v.text
}

// judge matches instances against a compiled schema.
type judge struct {
	schema *Schema
	set    *expr.Set
	known  map[string]bool
	work   int
}

func newJudge(s *Schema) *judge {
	return &judge{schema: s, set: expr.NewSet(), known: map[string]bool{}}
}

func (j *judge) accepts(v *value) bool {
	id := j.schema.Expr(j.set)
	return j.set.Match(id, v.write(false)) && j.set.Match(id, v.write(true))
}

// arrange returns v with the keys of its objects in an order that the schema accepts. It reports false if there is
// none.
func (j *judge) arrange(v *value) (*value, bool) { return j.arrangeIn(j.schema.root, v) }

func (j *judge) arrangeIn(st *state, v *value) (*value, bool) {
	if j.work++; j.work > 20000 {
		return v, false
	}
	ok := func(w *value) bool { return st.live && j.set.Match(st.expr(j.set), w.write(false)) }
	if ok(v) || v.kind != arrayValue && v.kind != objectValue {
		return v, ok(v)
	}
	for _, f := range st.forms {
		if !f.hasInstance() {
			continue
		}
		var list []*value
		switch f := f.(type) {
		case *objectForm:
			if v.kind == objectValue {
				list = append(list, j.arrangeObject(f, v))
			}
		case *arrayForm:
			if v.kind == arrayValue {
				list = append(list, j.arrangeArray(v, func(i int) []*state {
					if i < len(f.prefix) {
						return []*state{f.prefix[i]}
					}
					return []*state{f.rest}
				}))
			}
		case *countedForm:
			if v.kind == arrayValue { // an item's order may depend on whether it is counted
				var states []*state
				f.reach(func(st *state) { states = append(states, st) })
				list = append(list, j.arrangeArray(v, func(int) []*state { return states }))
				slices.Reverse(states)
				list = append(list, j.arrangeArray(v, func(int) []*state { return states }))
			}
		}
		for _, w := range list {
			if ok(w) {
				return w, true
			}
		}
	}
	return v, false
}

func (j *judge) arrangeObject(f *objectForm, v *value) *value {
	w := &value{kind: objectValue}
	used := map[string]bool{}
	for _, p := range f.props {
		if m := v.get(p.key); m != nil {
			a, _ := j.arrangeIn(p.state, m)
			w.members = append(w.members, member{p.key, a})
			used[p.key] = true
		}
	}
	var last []member
	for _, m := range v.members {
		if used[m.key] {
			continue
		}
		if a, ok := j.arrangeFree(f.last, m); ok && f.mustLast && last == nil {
			last = append(last, a)
			continue
		}
		a, _ := j.arrangeFree(f.free, m)
		w.members = append(w.members, a)
	}
	w.members = append(w.members, last...)
	return w
}

func (j *judge) arrangeFree(list []freeMember, m member) (member, bool) {
	for _, free := range list {
		if j.set.Match(free.name(j.set), quote(m.key)) {
			a, ok := j.arrangeIn(free.state, m.value)
			return member{m.key, a}, ok
		}
	}
	return m, false
}

// arrangeArray arranges each item for the first state of its position that accepts the item.
func (j *judge) arrangeArray(v *value, states func(int) []*state) *value {
	w := &value{kind: arrayValue}
	for i, item := range v.items {
		for _, st := range states(i) {
			if a, ok := j.arrangeIn(st, item); ok {
				item = a
				break
			}
		}
		w.items = append(w.items, item)
	}
	return w
}

// tryValue is parseValue with an error.
func tryValue(text []byte, maxDepth int) (v *value, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case bailout:
			err = r.err
		default:
			panic(r)
		}
	}()
	v, _ = parseValue(text, maxDepth)
	return v, nil
}
