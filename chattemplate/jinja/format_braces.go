package jinja

import (
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// formatMethod is str.format: replacement fields in braces.
func (r *render) formatMethod(s *strValue, c *callArgs) Value {
	f := &braceFormat{r: r, args: c, markup: s.markup}
	t := f.expand(s.Text, 0)
	return &strValue{Text: t, markup: s.markup}
}

type braceFormat struct {
	r      *render
	args   *callArgs
	markup bool
	// next is the number of the next automatic field. manual is set once a field had a number of its own.
	next   int
	manual bool
}

// expand replaces the fields of a format. Fields inside a specification are one level deeper.
func (f *braceFormat) expand(t Text, level int) Text {
	r, s := f.r, t.String()
	if level > 1 {
		r.typeError("Max string recursion exceeded")
	}
	var b origin.Builder
	for i := 0; i < len(s); {
		k := strings.IndexAny(s[i:], "{}")
		if k < 0 {
			b.AddText(t.Slice(i, len(s)))
			break
		}
		b.AddText(t.Slice(i, i+k))
		i += k
		if i+1 < len(s) && s[i+1] == s[i] {
			b.AddText(t.Slice(i, i+1))
			i += 2
			continue
		}
		if s[i] == '}' {
			r.typeError("Single '}' encountered in format string")
		}
		end := i + 1
		for depth := 1; depth > 0; end++ {
			if end >= len(s) {
				if i+1 == len(s) {
					r.typeError("Single '{' encountered in format string")
				}
				r.typeError("expected '}' before end of string")
			}
			switch s[end] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		b.AddText(f.field(t.Slice(i+1, end-1), level))
		i = end
		r.fits(b.Len())
	}
	r.made(b.Len())
	return b.Text()
}

// field formats one field: name!conversion:specification.
func (f *braceFormat) field(t Text, level int) Text {
	r := f.r
	r.step()
	name, conv, specText := t, byte(0), Text{}
	depth := 0
scan:
	for i := 0; i < t.Len(); i++ {
		switch c := t.String()[i]; {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth <= 0 && c == ':':
			name, specText = t.Slice(0, i), t.Slice(i+1, t.Len())
			break scan
		case depth <= 0 && c == '!':
			name = t.Slice(0, i)
			rest := t.String()[i+1:]
			if rest == "" || len(rest) > 1 && rest[1] != ':' {
				r.typeError("expected ':' after conversion specifier")
			}
			conv = rest[0]
			if len(rest) > 2 {
				specText = t.Slice(i+3, t.Len())
			}
			break scan
		}
	}
	v := f.lookup(name)
	switch conv {
	case 0:
	case 's':
		v = text(r.str(v))
	case 'r':
		v = text(r.repr(v))
	case 'a':
		v = text(r.asciiRepr(v))
	default:
		r.typeError("Unknown conversion specifier")
	}
	if strings.ContainsAny(specText.String(), "{}") {
		specText = f.expand(specText, level+1)
	}
	out := r.format(v, specText)
	if f.markup {
		if m, ok := v.(*strValue); !ok || !m.markup {
			out = r.escaped(text(out)).Text
		}
	}
	return out
}

// lookup finds the value of a field name: a number or name, then .attributes and [items].
func (f *braceFormat) lookup(t Text) Value {
	r, s := f.r, t.String()
	end := strings.IndexAny(s, ".[")
	if end < 0 {
		end = len(s)
	}
	v := f.first(t.Slice(0, end))
	for i := end; i < len(s); {
		switch s[i] {
		case '.':
			k := strings.IndexAny(s[i+1:], ".[")
			if k < 0 {
				k = len(s) - i - 1
			}
			if k == 0 {
				r.typeError("Empty attribute in format string")
			}
			v = r.attr(v, text(t.Slice(i+1, i+1+k)))
			i += 1 + k
		case '[':
			k := strings.IndexByte(s[i:], ']')
			if k < 0 {
				r.typeError("Missing ']' in format string")
			}
			if k == 1 {
				r.typeError("Empty attribute in format string")
			}
			v = r.item(v, fieldKey(t.Slice(i+1, i+k)))
			i += k + 1
		default:
			r.typeError("Only '.' or '[' may follow ']' in format field specifier")
		}
	}
	return v
}

// fieldKey returns an index if the text is all digits, else a string.
func fieldKey(t Text) Value {
	if t.Len() < 10 && strings.Trim(t.String(), "0123456789") == "" {
		i, _ := parseInt(t.String(), 10)
		return bigInt(i)
	}
	return text(t)
}

func (f *braceFormat) first(t Text) Value {
	r := f.r
	if strings.Trim(t.String(), "0123456789") != "" {
		for _, k := range f.args.kw {
			if k.name == t.String() {
				return k.v
			}
		}
		r.typeError("the format has no argument named %s", r.quote(text(t)))
	}
	n := 0
	switch {
	case t.String() == "":
		if f.manual {
			r.typeError("cannot switch from manual field specification to automatic field numbering")
		}
		n = f.next
		f.next++
	case f.next > 0:
		r.typeError("cannot switch from manual field specification to automatic field numbering")
	case t.Len() > 9:
		r.typeError("Too many decimal digits in format string")
	default:
		f.manual = true
		for _, c := range t.String() {
			n = n*10 + int(c-'0')
		}
	}
	if n >= len(f.args.pos) {
		r.typeError("Replacement index %d out of range for positional args tuple", n)
	}
	return f.args.pos[n]
}

// format is format(v, spec).
func (r *render) format(v Value, t Text) Text {
	if t.String() == "" {
		return r.str(v)
	}
	f := r.parseSpec(t)
	switch v := v.(type) {
	case *strValue:
		if f.verb != 0 && f.verb != 's' {
			r.typeError("Unknown format code for object of type 'str'")
		}
		if f.zero {
			f.align = '<'
		}
		if f.sign != 0 || f.alt || f.align == '=' || f.group != 0 {
			r.typeError("sign, '#', '=' and grouping are not allowed in string format specifier")
		}
		if f.align == 0 {
			f.align = '<'
		}
		return r.formatStr(v.Text, f)
	case intValue, boolValue, *bigValue:
		return r.formatInt(v, f)
	case floatValue:
		if strings.IndexByte("\x00eEfFgGn%", f.verb) < 0 {
			r.typeError("Unknown format code for object of type 'float'")
		}
		if f.align == 0 {
			f.align = '>'
		}
		return r.formatFloat(float64(v), f)
	}
	r.typeError("unsupported format string passed to %s.__format__", v.typeName())
	return Text{}
}

func (r *render) formatInt(v Value, f spec) Text {
	if f.align == 0 {
		f.align = '>'
	}
	if strings.IndexByte("eEfFgG%", f.verb) >= 0 && f.verb != 0 {
		return r.formatFloat(toFloat(v), f)
	}
	if f.prec >= 0 {
		r.typeError("Precision not allowed in integer format specifier")
	}
	switch f.verb {
	case 0, 'b', 'd', 'o', 'x', 'X', 'n':
	case 'c':
		k, n, _, _ := numberOf(v)
		if k != 1 || n != int64(rune(n)) || !utf8.ValidRune(rune(n)) {
			r.typeError("%%c arg not in range(0x110000)")
		}
		return r.pad(NewText(string(rune(n)), Outside), f)
	default:
		r.typeError("Unknown format code for object of type 'int'")
	}
	i := toBig(v)
	return r.number(i.Sign() < 0, intDigits(i, f), f)
}
