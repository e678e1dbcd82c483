package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"runner/grammar/expr"
	"runner/grammar/jsontext"
	"runner/grammar/regex"
)

func formatIsEnforced(name string) bool { return jsontext.SupportedFormat(name) }

// lexicon caches the results for patterns and constraints on texts, because schemas repeat themselves.
type lexicon struct {
	finds map[string]finder
	forms map[string]lexeme
	set   *expr.Set // in which texts are matched
}

// finder is the expression of the UTF-8 texts in which a pattern is found.
type finder struct {
	id  expr.ID
	err error
}

// lexeme is the form of a constraint. It is nil if nothing satisfies the constraint.
type lexeme struct {
	form jsontext.Form
	err  error
}

func newLexicon() lexicon {
	return lexicon{finds: map[string]finder{}, forms: map[string]lexeme{}}
}

func (x *lexicon) scratch() *expr.Set {
	if x.set == nil {
		x.set = expr.NewSet()
	}
	return x.set
}

// finds reports whether a pattern of n is found in text.
func (c *compiler) finds(n *node, pattern, text string) bool {
	c.step(1 + len(text)/16)
	f, ok := c.texts.finds[pattern]
	if !ok {
		r, err := regex.Parse(pattern)
		if f.err = err; err == nil {
			f.id = r.Search(c.texts.scratch(), regex.UTF8)
		}
		c.texts.finds[pattern] = f
	}
	if f.err != nil {
		keyword := "pattern"
		if n.raw.get("pattern") == nil {
			keyword = "patternProperties"
		}
		fail(c.errorAt(ErrUnsupported, n, keyword, f.err.Error()))
	}
	return c.texts.scratch().Match(f.id, text)
}

// hasFormat reports whether text has a format of n.
func (c *compiler) hasFormat(n *node, format, text string) bool {
	l := c.lexeme("format "+format, func() (jsontext.Form, error) {
		return jsontext.String(c.ctx, jsontext.StringConstraint{MaxLength: -1, Formats: []string{format}})
	})
	if l.err != nil {
		fail(c.errorAt(ErrUnsupported, n, "format", l.err.Error()))
	}
	s := c.texts.scratch()
	return l.form != nil && s.Match(l.form(s), quote(text))
}

// lexeme returns the result of make for a constraint. key identifies the constraint.
func (c *compiler) lexeme(key string, make func() (jsontext.Form, error)) lexeme {
	l, ok := c.texts.forms[key]
	if !ok {
		c.step(64)
		l.form, l.err = make()
		if errors.Is(l.err, jsontext.ErrUnsatisfiable) {
			l = lexeme{}
		}
		if err := c.ctx.Err(); err != nil {
			fail(err)
		}
		c.texts.forms[key] = l
	}
	return l
}

// values are the forms of values without constraints.
func (c *compiler) values() jsontext.Values {
	if c.opt.Plain {
		return jsontext.Plain
	}
	return jsontext.Free
}

func (c *compiler) finishNumber(st *state, a *alt) {
	k := jsontext.NumberConstraint{Plain: c.opt.Plain}
	if p := a.num; p != nil {
		k = jsontext.NumberConstraint{
			Integer: p.integer, NotInteger: p.fractional, Plain: c.opt.Plain,
			Minimum: p.min, Maximum: p.max, ExclusiveMinimum: p.exclMin, ExclusiveMaximum: p.exclMax,
			MultipleOf: p.multiple, NotMultipleOf: p.notMultiple,
		}
	}
	for _, v := range a.except {
		k.NotIn = append(k.NotIn, v.num)
	}
	key := fmt.Sprint("number ", k.Integer, k.NotInteger, k.Minimum, k.Maximum, k.ExclusiveMinimum, k.ExclusiveMaximum,
		k.MultipleOf, k.NotMultipleOf, k.NotIn)
	l := c.lexeme(key, func() (jsontext.Form, error) { return jsontext.Number(c.ctx, k) })
	if l.err != nil {
		c.refuse(st, l.err, "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum",
			"const", "type")
	}
	if l.form != nil {
		st.forms = append(st.forms, scalar(l.form))
	}
}

func (c *compiler) finishString(st *state, a *alt) {
	part := stringPart{max: -1}
	if a.str != nil {
		part = *a.str
	}
	var except []string
	for _, v := range a.except {
		except = append(except, v.text)
	}
	if form, ok := c.stringForm(st, part, except); ok {
		st.forms = append(st.forms, scalar(form))
	}
}

// stringForm returns the form of the strings that p allows, except those in except. It reports whether there are any.
func (c *compiler) stringForm(st *state, p stringPart, except []string) (jsontext.Form, bool) {
	key := fmt.Sprintf("string %d %d %q %q %q %q %q", p.min, p.max, p.patterns, p.notPatterns, p.formats,
		p.notFormats, except)
	l := c.lexeme(key, func() (jsontext.Form, error) {
		return jsontext.String(c.ctx, jsontext.StringConstraint{
			MinLength: p.min, MaxLength: p.max, Patterns: p.patterns, NotPatterns: p.notPatterns,
			Formats: p.formats, NotFormats: p.notFormats, NotIn: except,
		})
	})
	if l.err != nil {
		c.refuse(st, l.err, "pattern", "patternProperties", "format", "propertyNames", "maxLength", "minLength", "enum",
			"const", "properties")
	}
	return l.form, l.form != nil
}

// refuse aborts the compilation because jsontext cannot enforce a constraint of st. It blames the first of the keywords
// that st has.
func (c *compiler) refuse(st *state, err error, keywords ...string) {
	for _, keyword := range keywords {
		if n := c.holder(st, keyword); n.raw.get(keyword) != nil {
			fail(c.errorAt(ErrUnsupported, n, keyword, err.Error()))
		}
	}
	fail(c.errorAt(ErrUnsupported, c.holder(st, ""), keywords[0], err.Error()))
}

// holder returns a schema with the keyword among those that apply to the values of st, or else the first of them.
func (c *compiler) holder(st *state, keyword string) *node {
	var list []*node
	for _, l := range st.lits {
		list = append(list, c.of(l))
	}
	for i := 0; i < len(list); i++ {
		n := list[i]
		if n.raw.get(keyword) != nil {
			return n
		}
		if l := n.logic; l != nil {
			more := slices.Concat(l.all, l.any, l.one, []*node{l.ref, l.not, l.cond, l.then, l.other})
			for _, m := range more {
				if m != nil && !slices.Contains(list, m) {
					list = append(list, c.load(m))
				}
			}
		}
	}
	if len(list) == 0 {
		return c.nodeOf(c.root, c.home)
	}
	return list[0]
}

// literals returns the form of any value in a list.
func (c *compiler) literals(list []*value) form {
	plain := c.opt.Plain
	var texts []string
	var others []jsontext.Form
	for _, v := range list {
		switch v.kind {
		case arrayValue, objectValue:
			others = append(others, literal1(v, plain))
		case stringValue:
			texts = append(texts, quote(v.text))
		default:
			texts = append(texts, v.spellings(plain)...)
		}
	}
	words := jsontext.Literals(texts)
	return scalar(func(s *expr.Set) expr.ID {
		parts := make([]expr.ID, 0, 1+len(others))
		for _, f := range others {
			parts = append(parts, f(s))
		}
		if len(texts) > 0 {
			parts = append(parts, words(s))
		}
		return s.Union(parts...)
	})
}

// literal1 returns the form of one value, with integers plain or not.
func literal1(v *value, plain bool) jsontext.Form {
	switch v.kind {
	case stringValue:
		return jsontext.LiteralString(v.text)
	case arrayValue:
		return func(s *expr.Set) expr.ID {
			parts := []expr.ID{s.Literal("[")}
			for i, item := range v.items {
				if i > 0 {
					parts = append(parts, comma(s))
				}
				parts = append(parts, literal1(item, plain)(s))
			}
			return s.Concat(append(parts, s.Literal("]"))...)
		}
	case objectValue:
		return func(s *expr.Set) expr.ID {
			parts := []expr.ID{s.Literal("{")}
			for i, m := range v.members {
				if i > 0 {
					parts = append(parts, comma(s))
				}
				parts = append(parts, jsontext.LiteralString(m.key)(s), colon(s), literal1(m.value, plain)(s))
			}
			return s.Concat(append(parts, s.Literal("}"))...)
		}
	}
	return jsontext.Literals(v.spellings(plain))
}

// spellings returns the spellings of a value that is not a string, array or object. A plain integer has only one.
func (v *value) spellings(plain bool) []string {
	switch v.kind {
	case nullValue:
		return []string{"null"}
	case falseValue:
		return []string{"false"}
	case trueValue:
		return []string{"true"}
	}
	list := []string{v.text}
	if v.num.IsInt() {
		if text := v.num.Num().String(); len(text) <= longNumber {
			if plain {
				return []string{text}
			}
			list = append(list, text, text+".0")
		}
	} else if places, exact := v.num.FloatPrec(); exact && places <= longNumber {
		list = append(list, v.num.FloatString(places))
	}
	return list
}

// longNumber is the maximum number of digits that a number is written with, without an exponent.
const longNumber = 40

// quote returns text as a JSON string with as few escapes as possible.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[i])
		} else if r < 0x20 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func trimFragment(uri string) string { return strings.TrimSuffix(uri, "#") }
