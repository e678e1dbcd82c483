// Package jsonschema turns a JSON Schema into an expression of its valid instances, so that a model's answer can be
// made to match it.
//
// The language is draft 2020-12 (https://json-schema.org/draft/2020-12/json-schema-core and -validation). If $schema
// names an older draft, from 4 on, that draft applies. A document without $schema is read as 2020-12 plus the older
// spellings: definitions, lists under items with additionalItems, dependencies, and exclusiveMinimum as a boolean.
// Unknown keywords and those without constraints on instances are ignored. format is enforced if package jsontext knows
// the format, which is stricter than the draft requires.
//
// # Guarantees
//
// A text that the expression matches is valid. [Compile] refuses a keyword that it cannot enforce exactly, with its
// name and place, and also a schema without instances. It never ignores such a keyword. In the other direction, a valid
// instance is matched if it is written as jsontext describes and its keys are in the schema's order: first those of
// properties in the order of the text, then the other required ones, then all others.
//
// # Method
//
// All "and", "or" and "not" is done on schemas, never on expressions. A [state] is a conjunction of schemas and negated
// schemas that a value must satisfy. Its normal form is a list of alternatives, each for one type and without "or".
// Their children are states again. There are finitely many conjunctions, so the set of states is finite, also for
// recursive schemas. A least fixpoint finds the states that have instances. The others are left out, so no text reaches
// a dead end.
//
// References are resolved only inside the document. Nothing is loaded from elsewhere.
//
// # A new keyword
//
//  1. keywords.go reads it into a node. The node's fields are in node.go. The table since there has the draft that
//     introduced the keyword. If the keyword contains schemas, it is in the table holders in refs.go.
//  2. expand.go puts it into the alternatives of a state, and negate.go negates it. alt.go joins alternatives.
//  3. array.go, object.go or text.go (strings and numbers) makes the expression.
//  4. validate.go checks it on values in the schema itself (enum and const).
package jsonschema

import (
	"context"
	"errors"
	"fmt"

	"runner/grammar/expr"
)

// Options limit the work of [Compile]. A zero field means the default.
type Options struct {
	// MaxBytes is the maximum size of the schema's text. The default is 512 KiB.
	MaxBytes int
	// MaxDepth is the maximum nesting of the text. The default is 200.
	MaxDepth int
	// MaxSubschemas is the maximum number of schemas that may be reached. The default is 100,000.
	MaxSubschemas int
	// MaxAlternatives is the maximum number of alternatives of a value at one place. The default is 2,000.
	MaxAlternatives int
	// MaxWork is the maximum number of elementary steps. The default is 2,000,000, about a second.
	MaxWork int
	// Plain gives integers no fraction and no exponent, which JSON Schema allows (1.0) but many readers reject. It gives
	// numbers no more digits than 64 bits hold unless the schema asks for more, see [jsontext.NumberConstraint]. It gives
	// an object at most [jsontext.PlainMembers] members of names that the schema does not give.
	Plain bool
}

func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&o.MaxBytes, 512<<10)
	set(&o.MaxDepth, 200)
	set(&o.MaxSubschemas, 100_000)
	set(&o.MaxAlternatives, 2_000)
	set(&o.MaxWork, 2_000_000)
	return o
}

// Schema is a compiled schema. It is immutable. Several goroutines may use it at once, each with its own set.
type Schema struct {
	root *state
}

// Expr returns the expression of the valid instances.
func (s *Schema) Expr(set *expr.Set) expr.ID { return s.root.expr(set) }

// Compile reads a schema. It fails with an [*Error], or with the context's error if the context ends first.
func Compile(ctx context.Context, schema []byte, opt Options) (s *Schema, err error) {
	opt = opt.withDefaults()
	if len(schema) > opt.MaxBytes {
		return nil, &Error{Class: ErrLimit, Reason: fmt.Sprintf("the text has %d bytes, and %d are allowed", len(schema),
			opt.MaxBytes)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err = compile(ctx, schema, opt, nil)
	if e := (*Error)(nil); errors.As(err, &e) && e.Class == ErrUnsatisfiable {
		blame(ctx, schema, opt, e)
	}
	return s, err
}

// compile compiles a schema that change, if not nil, has changed.
func compile(ctx context.Context, schema []byte, opt Options, change func(root *value)) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(bailout)
			if !ok {
				panic(r)
			}
			s, err = nil, b.err
		}
	}()
	root, p := parseValue(schema, opt.MaxDepth)
	if change != nil {
		change(root)
	}
	c := newCompiler(ctx, root, opt)
	c.marks = p.marks
	return &Schema{root: c.compile()}, nil
}

// compiler is the state of one compilation.
type compiler struct {
	ctx     context.Context
	opt     Options
	root    *value
	home    *resource
	dialect dialect
	marks   bool
	places

	nodes   []*node
	exact   map[*value]*node
	eithers map[string]*node
	never   *node

	states       map[string]*state
	any, nothing *state
	key          []byte // scratch of intern

	work                    int
	scopes                  int  // number of enclosing schemas that need to know what is evaluated
	inPlace                 int  // number of enclosing schemas for the same value
	generation, generations int  // of the state being opened
	given                   *alt // the constraints of every alternative of that state and kind
	depth                   int  // how far plainlyEmpty looks ahead

	texts lexicon
}

func newCompiler(ctx context.Context, root *value, opt Options) *compiler {
	c := &compiler{
		ctx: ctx, opt: opt, root: root, home: &resource{root: root}, dialect: open,
		places: places{resources: map[string]place{}, anchors: map[string]place{}, dynamic: map[string]int{},
			loose: map[string]place{}},
		exact: map[*value]*node{}, eithers: map[string]*node{}, states: map[string]*state{},
		texts: newLexicon(),
	}
	c.never = c.synthetic(&node{always: -1})
	c.nothing = &state{phase: reached}
	c.any = &state{phase: reached, live: true, forms: []form{scalar(c.values().Any)}}
	return c
}

// step counts n steps of work.
func (c *compiler) step(n int) {
	before := c.work
	if c.work += n; c.work > c.opt.MaxWork {
		fail(&Error{Class: ErrLimit, Reason: "it takes too many steps to distinguish its alternatives"})
	}
	if c.work>>8 != before>>8 {
		if err := c.ctx.Err(); err != nil {
			fail(err)
		}
	}
}

// bound refuses a number of alternatives that is too large.
func (c *compiler) bound(alternatives int) {
	if alternatives > c.opt.MaxAlternatives {
		fail(&Error{Class: ErrLimit, Reason: fmt.Sprintf("more than %d alternatives for one value", c.opt.MaxAlternatives)})
	}
}

func (c *compiler) compile() *state {
	if v := c.root.get("$schema"); v != nil && v.kind == stringValue {
		if d, ok := dialects[trimFragment(v.text)]; ok {
			c.dialect = d
		}
	}
	if c.marks {
		c.index(c.root, c.home)
	}
	root := c.stateOf(holds(c.nodeOf(c.root, c.home)))
	all := c.reach(root)
	settleLive(all)
	if !root.live {
		fail(c.unsatisfiable(root))
	}
	for _, st := range all {
		for _, f := range st.forms {
			if f.hasInstance() {
				f.settle(c)
			}
		}
	}
	return root
}

// reach finishes root and all states reachable from it, and returns them.
func (c *compiler) reach(root *state) []*state {
	all := []*state{root}
	seen := map[*state]bool{root: true, c.any: true, c.nothing: true}
	visit := func(st *state) {
		if !seen[st] {
			seen[st] = true
			all = append(all, st)
		}
	}
	for i := 0; i < len(all); i++ {
		c.step(16)
		if all[i].phase != reached {
			c.finish(all[i])
		}
		for _, f := range all[i].forms {
			f.reach(visit)
		}
	}
	return all
}

// settleLive finds the states that have instances: a least fixpoint. Most states come before those they refer to, so
// the loop runs backwards.
func settleLive(all []*state) {
	for changed := true; changed; {
		changed = false
		for i := len(all) - 1; i >= 0; i-- {
			st := all[i]
			if st.live {
				continue
			}
			for _, f := range st.forms {
				if f.hasInstance() {
					st.live, changed = true, true
					break
				}
			}
		}
	}
}

// unsatisfiable returns the error for a schema without instances. It names the cause as closely as it can.
func (c *compiler) unsatisfiable(st *state) *Error {
	e := &Error{Class: ErrUnsatisfiable, Reason: "no value can be valid"}
	for seen := map[*state]bool{}; st != nil && !seen[st]; {
		seen[st] = true
		if len(st.lits) > 0 {
			e.Pointer = c.pointer(c.of(st.lits[0]).raw)
		}
		var next *state
		if len(st.forms) == 1 {
			if f, ok := st.forms[0].(*objectForm); ok {
				for _, p := range f.props {
					if p.required && !p.state.live {
						next = p.state
						break
					}
				}
			}
		}
		st = next
	}
	return e
}
