package jinja

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// Options are the settings of a template. The zero value is right for chat templates.
type Options struct{ Limits Limits }

// Template is a parsed template. Any number of goroutines may render it at a time.
type Template struct {
	body  []stmt
	fn    *function
	frame frame
	vars  []string
	lim   Limits
}

// Parse reads a template. The error is an *Error.
func Parse(source string, opts Options) (t *Template, err error) {
	lim := opts.Limits.withDefaults()
	if len(source) > lim.Source {
		return nil, &Error{Kind: KindLimit, Line: 1, Message: fmt.Sprintf("the template is longer than %d bytes", lim.Source)}
	}
	if !utf8.ValidString(source) {
		return nil, &Error{Kind: KindSyntax, Line: 1, Message: "the template is not valid UTF-8"}
	}
	line := 1
	defer func() {
		if e := recovered(recover(), line); e != nil {
			t, err = nil, e
		}
	}()
	p := &parser{tokens: lex(source), lim: lim, read: map[string]int{}}
	t = &Template{body: p.statements(), lim: lim}
	rs := &resolver{vars: map[string]bool{}}
	t.fn, t.frame = rs.template(t.body)
	for _, name := range slices.Sorted(maps.Keys(rs.vars)) {
		if globals[name] == nil {
			t.vars = append(t.vars, name)
		}
	}
	return t, nil
}

// Variables returns the sorted names of the variables that the template may read from the render. Names that the
// template always sets itself, and globals of the language, are left out. It is jinja2's
// meta.find_undeclared_variables.
func (t *Template) Variables() []string { return slices.Clone(t.vars) }

// RenderOptions are the inputs of a render besides its variables.
type RenderOptions struct {
	// Now is the time that strftime_now returns, in its own location. If it is zero, strftime_now is undefined, and
	// templates that need it use a date of their own or fail.
	Now time.Time
}

// Render runs the template and returns its output. Variables hide globals of the same name, so the caller must check
// names that a client chose. A nil value is None. The error is an *Error.
func (t *Template) Render(ctx context.Context, vars map[string]Value, opts RenderOptions) (out Text, err error) {
	r := &render{ctx: ctx, t: t, vars: vars, lim: &t.lim, now: opts.Now}
	defer func() {
		if e := recovered(recover(), r.line); e != nil {
			out, err = Text{}, e
		}
	}()
	r.line = 1
	r.checkSteps()
	r.act = &activation{slots: make([]Value, t.fn.slots)}
	r.out = &origin.Builder{}
	r.load(&t.frame)
	r.run(t.body)
	return r.out.Text(), nil
}

// recovered turns a panic into an error. A panic with anything but an *Error is a fault of this package. It must not
// end the process, because templates come from outside.
func recovered(p any, line int) *Error {
	switch p := p.(type) {
	case nil:
		return nil
	case *Error:
		return p
	}
	return &Error{Kind: KindInternal, Line: line, Message: fmt.Sprintf("the template engine failed: %T", p)}
}

// render is the state of one run of a template.
type render struct {
	ctx  context.Context
	t    *Template
	vars map[string]Value
	lim  *Limits
	now  time.Time

	act  *activation
	out  *origin.Builder
	line int
	// text is the text of the block whose filters run.
	text Text
	// free are builders for reuse.
	free []*origin.Builder

	steps, memory int64
	depth         int
}

// activation holds the variables of one call of a function; a nil slot has no value.
type activation struct {
	slots  []Value
	parent *activation
}

// slot returns the place of a variable.
func (r *render) slot(v varRef) *Value {
	a := r.act
	for h := v.hops; h > 0; h-- {
		a = a.parent
	}
	return &a.slots[v.slot]
}

// load enters a scope.
func (r *render) load(f *frame) {
	for i := range f.loads {
		l := &f.loads[i]
		var v Value
		switch l.kind {
		case loadVar:
			v = r.lookup(l.name)
		case loadAlias:
			v = *r.slot(l.from)
		}
		r.act.slots[l.slot] = v
	}
}

// lookup finds a variable of the render or a global. It returns nil if there is none.
func (r *render) lookup(name string) Value {
	if v, ok := r.vars[name]; ok {
		if v == nil {
			return noneValue{}
		}
		return v
	}
	g := globals[name]
	if g == nil || name == clockName && r.now.IsZero() {
		return nil
	}
	return &native{signature: g}
}

// capture runs f and returns the output of f as a text.
func (r *render) capture(f func()) Text {
	outer := r.out
	if n := len(r.free); n > 0 {
		r.out = r.free[n-1]
		r.free = r.free[:n-1]
		r.out.Reset()
	} else {
		r.out = &origin.Builder{}
	}
	f()
	r.made(r.out.Len())
	t := r.out.Text()
	if r.out.Cap() <= 1<<16 {
		r.free = append(r.free, r.out)
	}
	r.out = outer
	return t
}

// write appends to the output.
func (r *render) write(t Text) {
	r.made(t.Len())
	r.out.AddText(t)
	r.fits(r.out.Len())
}
