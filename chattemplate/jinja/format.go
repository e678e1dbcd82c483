package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"runner/chattemplate/jinja/origin"
)

// conversion matches a conversion of % formatting: its key, flags, width, precision and verb.
var conversion = regexp.MustCompile(`^(?s)%(\([^()]*\))?([-+ 0]*)([0-9]{0,3})(\.[0-9]{0,3})?(.?)`)

// percent is s % args. It knows Python's conversions but %a and %c, and its flags but #. Widths and precisions have
// at most three digits.
func (r *render) percent(s *strValue, args Value) Value {
	unused := []Value{args}
	t, isList := args.(*listValue)
	if isList && t.tuple {
		unused = t.items
	}
	next := func() Value {
		if len(unused) == 0 {
			r.typeError("not enough arguments for format string")
		}
		v := unused[0]
		unused = unused[1:]
		return v
	}
	var b origin.Builder
	for i := 0; i < s.Len(); {
		rest := s.String()[i:]
		k := strings.IndexByte(rest, '%')
		if k < 0 {
			b.AddText(s.Slice(i, s.Len()))
			break
		}
		r.step()
		b.AddText(s.Slice(i, i+k))
		m := conversion.FindStringSubmatch(rest[k:])
		switch key, verb := m[1], m[5]; {
		case verb == "":
			r.typeError("incomplete format")
		case verb == "%":
			b.Add("%", s.OriginAt(i+k))
		case !strings.Contains("srdiuoxXeEfFgG", verb):
			r.typeError("unsupported format character at index %d", origin.RuneCount(s.String()[:i+k+len(m[0])-len(verb)]))
		case key != "":
			b.AddText(r.converted(s, r.formatKey(args, s.Slice(i+k+2, i+k+len(key))), m[2], m[3], m[4], verb))
			unused = nil
		default:
			b.AddText(r.converted(s, next(), m[2], m[3], m[4], verb))
		}
		r.fits(b.Len())
		i += k + len(m[0])
	}
	switch args.(type) {
	case *dictValue, *rangeValue, *undefined:
	default:
		if len(unused) > 0 && (!isList || t.tuple) {
			r.typeError("not all arguments converted during string formatting")
		}
	}
	return &strValue{Text: b.Text(), markup: s.markup}
}

// formatKey returns the value of a key in parentheses.
func (r *render) formatKey(args Value, key Text) Value {
	d, ok := args.(*dictValue)
	if !ok {
		r.typeError("format requires a mapping")
	}
	v := d.getStr(key.String())
	if v == nil {
		r.typeError("key %s is missing", r.quote(text(key)))
	}
	return v
}

// converted formats one value for the format s. Package fmt formats numbers as Python does.
func (r *render) converted(s *strValue, v Value, flags, width, precision, verb string) Text {
	whole := strings.Contains("diuoxX", verb)
	switch {
	case verb == "s" || verb == "r":
		shown := r.soft(v)
		if verb == "r" {
			shown = text(r.repr(v))
		}
		if s.markup {
			shown = r.escaped(shown)
		}
		return padded(shown.Text, flags, width, precision)
	case strings.Contains("oxX", verb) && !isInt(v):
		r.typeError("%%%s format: an integer is required, not %s", verb, v.typeName())
	case !isNumber(v):
		r.defined(v)
		r.typeError("%%%s format: a number is required, not %s", verb, v.typeName())
	case whole && isFloat(v):
		v = r.wholeNumber(toFloat(v))
	}
	if whole {
		if verb == "i" || verb == "u" {
			verb = "d"
		}
		return NewText(fmt.Sprintf("%"+flags+width+precision+verb, toBig(v)), Outside)
	}
	if precision == "" {
		precision = ".6"
	}
	return NewText(fmt.Sprintf("%"+flags+width+precision+verb, toFloat(v)), Outside)
}

// padded cuts a text to the precision, if there is one, and fills it with spaces up to the width.
func padded(t Text, flags, width, precision string) Text {
	if precision != "" {
		n, _ := strconv.Atoi(precision[1:]) // no digits mean 0
		t = t.Slice(0, origin.RuneOffset(t.String(), n))
	}
	n, _ := strconv.Atoi(width)
	spaces := NewText(strings.Repeat(" ", max(0, n-origin.RuneCount(t.String()))), Outside)
	if strings.Contains(flags, "-") {
		return origin.Concat(t, spaces)
	}
	return origin.Concat(spaces, t)
}
