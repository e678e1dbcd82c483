package jinja

import (
	"strings"
	"unicode/utf8"
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
	// next is the number of the next field without one; manual says that fields have had numbers.
	next   int
	manual bool
}

// expand replaces the fields of a format; those in a specification are one level down.
func (f *braceFormat) expand(t Text, level int) Text {
	r, s := f.r, t.s
	if level > 1 {
		r.typeError("Max string recursion exceeded")
	}
	var b builder
	for i := 0; i < len(s); {
		k := strings.IndexAny(s[i:], "{}")
		if k < 0 {
			b.addText(t.slice(i, len(s)))
			break
		}
		b.addText(t.slice(i, i+k))
		i += k
		if i+1 < len(s) && s[i+1] == s[i] {
			b.addText(t.slice(i, i+1))
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
		b.addText(f.field(t.slice(i+1, end-1), level))
		i = end
		r.fits(len(b.buf))
	}
	r.made(len(b.buf))
	return b.text()
}

// field formats one field: name!conversion:specification.
func (f *braceFormat) field(t Text, level int) Text {
	r := f.r
	r.step()
	name, conv, specText := t, byte(0), Text{}
	depth := 0
scan:
	for i := 0; i < len(t.s); i++ {
		switch c := t.s[i]; {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth <= 0 && c == ':':
			name, specText = t.slice(0, i), t.slice(i+1, len(t.s))
			break scan
		case depth <= 0 && c == '!':
			name = t.slice(0, i)
			rest := t.s[i+1:]
			if rest == "" || len(rest) > 1 && rest[1] != ':' {
				r.typeError("expected ':' after conversion specifier")
			}
			conv = rest[0]
			if len(rest) > 2 {
				specText = t.slice(i+3, len(t.s))
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
	if strings.ContainsAny(specText.s, "{}") {
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
	r, s := f.r, t.s
	end := strings.IndexAny(s, ".[")
	if end < 0 {
		end = len(s)
	}
	v := f.first(t.slice(0, end))
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
			v = r.attr(v, text(t.slice(i+1, i+1+k)))
			i += 1 + k
		case '[':
			k := strings.IndexByte(s[i:], ']')
			if k < 0 {
				r.typeError("Missing ']' in format string")
			}
			if k == 1 {
				r.typeError("Empty attribute in format string")
			}
			v = r.item(v, fieldKey(t.slice(i+1, i+k)))
			i += k + 1
		default:
			r.typeError("Only '.' or '[' may follow ']' in format field specifier")
		}
	}
	return v
}

// fieldKey is an index if it is all digits, else a string.
func fieldKey(t Text) Value {
	if len(t.s) < 10 && strings.Trim(t.s, "0123456789") == "" {
		i, _ := parseInt(t.s, 10)
		return bigInt(i)
	}
	return text(t)
}

func (f *braceFormat) first(t Text) Value {
	r := f.r
	if strings.Trim(t.s, "0123456789") != "" {
		for _, k := range f.args.kw {
			if k.name == t.s {
				return k.v
			}
		}
		r.typeError("the format has no argument named %s", r.quote(text(t)))
	}
	n := 0
	switch {
	case t.s == "":
		if f.manual {
			r.typeError("cannot switch from manual field specification to automatic field numbering")
		}
		n = f.next
		f.next++
	case f.next > 0:
		r.typeError("cannot switch from manual field specification to automatic field numbering")
	case len(t.s) > 9:
		r.typeError("Too many decimal digits in format string")
	default:
		f.manual = true
		for _, c := range t.s {
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
	if t.s == "" {
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

// parseSpec reads [[fill]align][sign][z][#][0][width][grouping][.precision][type].
func (r *render) parseSpec(t Text) spec {
	f := spec{prec: -1, fill: NewText(" ", Outside)}
	s := t.s
	isAlign := func(i int) bool { return i < len(s) && strings.IndexByte("<>^=", s[i]) >= 0 }
	i := 0
	if _, w := utf8.DecodeRuneInString(s); isAlign(w) {
		f.fill, f.align = t.slice(0, w), s[w]
		i = w + 1
	} else if isAlign(0) {
		f.align = s[0]
		i = 1
	}
	has := func(set string) bool { return i < len(s) && strings.IndexByte(set, s[i]) >= 0 }
	number := func() int {
		n := 0
		for ; has("0123456789"); i++ {
			n = min(n*10+int(s[i]-'0'), 1<<40)
		}
		return n
	}
	if has("+- ") {
		f.sign = s[i]
		i++
	}
	if has("z") {
		i++
	}
	if has("#") {
		f.alt = true
		i++
	}
	if has("0") {
		if f.align == 0 {
			f.align, f.fill, f.zero = '=', NewText("0", Outside), true
		}
		i++
	}
	f.width = number()
	if has(",_") {
		f.group = s[i]
		i++
	}
	if has(".") {
		i++
		if !has("0123456789") {
			r.typeError("Format specifier missing precision")
		}
		f.prec = number()
	}
	if i < len(s) {
		f.verb = s[i]
		i++
	}
	if i < len(s) {
		r.typeError("Invalid format specifier")
	}
	return f
}
