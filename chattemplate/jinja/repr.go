package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// str returns str(v), the form in which values are printed. A string is returned as it is.
func (r *render) str(v Value) Text {
	switch v := v.(type) {
	case *strValue:
		return v.Text
	case noneValue:
		return NewText("None", Outside)
	case boolValue:
		if v {
			return NewText("True", Outside)
		}
		return NewText("False", Outside)
	case intValue:
		return NewText(strconv.FormatInt(int64(v), 10), Outside)
	case floatValue:
		return NewText(floatRepr(float64(v)), Outside)
	case *undefined:
		return Text{}
	}
	return r.repr(v)
}

// repr returns repr(v). The quotes and brackets it adds are outside. The text of strings keeps its origins.
func (r *render) repr(v Value) Text {
	var b origin.Builder
	r.writeRepr(&b, v, 0)
	r.made(b.Len())
	return b.Text()
}

func (r *render) writeRepr(b *origin.Builder, v Value, depth int) {
	r.tooDeep(depth)
	r.step()
	r.fits(b.Len())
	add := func(s string) { b.Add(s, Outside) }
	switch v := v.(type) {
	case *strValue:
		if v.markup {
			add("Markup(")
		}
		writeStrRepr(b, v.Text)
		if v.markup {
			add(")")
		}
	case *undefined:
		add("Undefined")
	case *bigValue:
		add(v.i.String())
	case *listValue:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.items) == 1 {
				end = ",)"
			}
		}
		add(open)
		r.writeReprs(b, v.items, depth)
		add(end)
	case *dictValue:
		r.writeDictRepr(b, v, depth)
	case *dictView:
		add(v.typeName() + "([")
		r.writeReprs(b, r.items(v), depth)
		add("])")
	case *namespace:
		add("<Namespace ")
		r.writeDictRepr(b, v.d, depth)
		add(">")
	case *rangeValue:
		add(v.String())
	case *generator:
		add("<generator object " + v.label + ">")
	case *macro:
		add("<Macro '" + v.def.name + "'>")
	case *loopContext:
		add(fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, v.len(r)))
	case *native:
		if v.recv == nil {
			add("<function " + v.name + ">")
		} else {
			add("<built-in method " + v.name + " of " + v.recv.typeName() + " object>")
		}
	default:
		b.AddText(r.str(v))
	}
}

func (r *render) writeReprs(b *origin.Builder, items []Value, depth int) {
	for i, it := range items {
		if i > 0 {
			b.Add(", ", Outside)
		}
		r.writeRepr(b, it, depth+1)
	}
}

func (r *render) writeDictRepr(b *origin.Builder, d *dictValue, depth int) {
	b.Add("{", Outside)
	for i, k := range d.keys {
		if i > 0 {
			b.Add(", ", Outside)
		}
		r.writeRepr(b, k, depth+1)
		b.Add(": ", Outside)
		r.writeRepr(b, d.vals[i], depth+1)
	}
	b.Add("}", Outside)
}

// writeStrRepr writes a string as Python's repr does. It uses double quotes only if the string has single quotes and no
// double quotes.
func writeStrRepr(b *origin.Builder, t Text) {
	quote := '\''
	if strings.Contains(t.String(), "'") && !strings.Contains(t.String(), `"`) {
		quote = '"'
	}
	b.Add(string(quote), Outside)
	for s, o := range t.Runs() {
		for i := 0; i < len(s); {
			c, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case c == quote || c == '\\':
				b.Add(`\`, o)
				b.Add(s[i:i+n], o)
			case c == '\n':
				b.Add(`\n`, o)
			case c == '\r':
				b.Add(`\r`, o)
			case c == '\t':
				b.Add(`\t`, o)
			case c == utf8.RuneError && n == 1:
				b.Add(fmt.Sprintf(`\x%02x`, s[i]), o)
			case isPrintable(c):
				b.Add(s[i:i+n], o)
			case c < 0x100:
				b.Add(fmt.Sprintf(`\x%02x`, c), o)
			case c < 0x10000:
				b.Add(fmt.Sprintf(`\u%04x`, c), o)
			default:
				b.Add(fmt.Sprintf(`\U%08x`, c), o)
			}
			i += n
		}
	}
	b.Add(string(quote), Outside)
}

// isPrintable is str.isprintable: false for control, format, surrogate, private-use, unassigned and separator
// characters, except the space.
func isPrintable(c rune) bool {
	return c == ' ' || c < 0x7f && c > 0x20 || c > 0x7f && unicode.IsPrint(c)
}

// floatRepr returns repr of a float: the shortest digits that read back as the same number.
func floatRepr(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+"))
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (v *rangeValue) String() string {
	if v.step != 1 {
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	}
	return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
}

// quote returns repr(v) for an error message. It shows only text of the template.
func (r *render) quote(v Value) string {
	switch v := v.(type) {
	case *strValue:
		if !v.AllTrusted() {
			return "'…'"
		}
	case noneValue, boolValue, intValue:
	default:
		return "a " + v.typeName()
	}
	var b origin.Builder
	r.writeRepr(&b, v, 0)
	return b.Text().String()
}
