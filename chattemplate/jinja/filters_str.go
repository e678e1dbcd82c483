package jinja

import (
	"strings"

	"runner/chattemplate/jinja/origin"
)

func addStringFilters() {
	mapped := func(name string, f func(Text) Text) {
		filters.add(name, func(r *render, v Value, _ []Value) Value {
			s := r.soft(v)
			r.made(s.Len())
			return &strValue{Text: f(s.Text), markup: s.markup}
		})
	}
	mapped("upper", origin.Upper)
	mapped("lower", origin.Lower)
	mapped("capitalize", origin.Capitalize)
	mapped("title", titleWords)
	filters.add("string", func(r *render, v Value, _ []Value) Value { return r.soft(v) })
	filters.add("safe", func(r *render, v Value, _ []Value) Value {
		return &strValue{Text: r.str(v), markup: true}
	})
	filters.add("escape", func(r *render, v Value, _ []Value) Value { return r.escaped(r.soft(v)) })
	filters.add("trim(chars?)", func(r *render, v Value, a []Value) Value {
		s := r.soft(v)
		r.work(s.Len())
		return &strValue{Text: origin.Strip(s.Text, r.stripChars("strip", a[0]), true, true), markup: s.markup}
	})
	filters.add("replace(old, new, count?)", func(r *render, v Value, a []Value) Value {
		n := -1
		if a[2] != nil && !isNone(a[2]) {
			n = r.argInt(a[2], -1)
		}
		return text(r.replace(r.str(v), r.str(a[0]), r.str(a[1]), n))
	})
	filters.add("indent(width?, first?, blank?)", func(r *render, v Value, a []Value) Value {
		return r.indent(v, a[0], given(a[1]), given(a[2]))
	})
}

// soft returns v if it is a string, with or without markup, else str(v).
func (r *render) soft(v Value) *strValue {
	if s, ok := v.(*strValue); ok {
		return s
	}
	return text(r.str(v))
}

// titleWords is the title filter. A word begins after white space and after - ( { [ and <.
func titleWords(t Text) Text {
	start := true
	return origin.MapRunes(t, func(c rune, i int) string {
		was := start
		start = origin.IsSpace(c) || strings.ContainsRune("-({[<", c)
		if was && !start {
			return origin.UpperRune(c)
		}
		return origin.LowerRune(t.String(), c, i)
	})
}

func (r *render) indent(v, width Value, first, blank bool) Value {
	r.defined(v)
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.typeName())
	}
	made := Outside
	if s.AllTrusted() {
		made = Trusted
	}
	var pad Text
	if w, isStr := width.(*strValue); isStr {
		pad = w.Text
	} else {
		n := max(0, r.argInt(width, 4))
		r.made(n)
		pad = NewText(strings.Repeat(" ", n), made)
	}
	newline := NewText("\n", made)
	lines := origin.SplitLines(origin.Concat(s.Text, newline), false)
	var b origin.Builder
	for i, line := range lines {
		if i > 0 {
			b.AddText(newline)
		}
		if i > 0 && (blank || line.String() != "") || i == 0 && first {
			r.made(pad.Len())
			b.AddText(pad)
		}
		b.AddText(line)
		r.made(line.Len() + 1)
		r.fits(b.Len())
	}
	return &strValue{Text: b.Text(), markup: s.markup}
}

// escaped returns a string as markup.
func (r *render) escaped(s *strValue) *strValue {
	if s.markup {
		return s
	}
	r.made(s.Len())
	return &strValue{Text: origin.EscapeHTML(s.Text), markup: true}
}
