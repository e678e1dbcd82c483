package jinja

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

func addStringFilters() {
	mapped := func(name string, f func(Text) Text) {
		addFilter(name, nil, 0, func(r *render, v Value, _ []Value) Value {
			s := r.soft(v)
			r.made(s.Len())
			return &strValue{Text: f(s.Text), markup: s.markup}
		})
	}
	mapped("upper", origin.Upper)
	mapped("lower", origin.Lower)
	mapped("capitalize", origin.Capitalize)
	addFilter("title", nil, 0, func(r *render, v Value, _ []Value) Value {
		t := r.str(v)
		r.made(t.Len())
		return text(titleWords(t))
	})
	addFilter("string", nil, 0, func(r *render, v Value, _ []Value) Value { return r.soft(v) })
	addFilter("safe", nil, 0, func(r *render, v Value, _ []Value) Value {
		return &strValue{Text: r.str(v), markup: true}
	})
	addFilter("escape", nil, 0, func(r *render, v Value, _ []Value) Value { return r.escaped(r.soft(v)) })
	addFilter("forceescape", nil, 0, func(r *render, v Value, _ []Value) Value { return r.escaped(text(r.str(v))) })
	addFilter("trim", []string{"chars"}, 0, func(r *render, v Value, a []Value) Value {
		s := r.soft(v)
		r.work(s.Len())
		return &strValue{Text: origin.Strip(s.Text, r.stripChars("strip", a[0]), true, true), markup: s.markup}
	})
	addFilter("replace", []string{"old", "new", "count"}, 2, func(r *render, v Value, a []Value) Value {
		n := -1
		if a[2] != nil && !isNone(a[2]) {
			n = r.argInt(a[2], -1)
		}
		return text(r.replace(r.str(v), r.str(a[0]), r.str(a[1]), n))
	})
	filters["format"] = &signature{name: "format", rest: true, fn: func(r *render, v Value, _ []Value, c *callArgs) Value {
		s := r.soft(v)
		if len(c.kw) == 0 {
			return r.percent(s, &tupleValue{items: c.pos})
		}
		if len(c.pos) > 0 {
			r.typeError("can't handle positional and keyword arguments at the same time")
		}
		return r.percent(s, r.dictOf("dict", c))
	}}
	addFilter("center", []string{"width"}, 0, func(r *render, v Value, a []Value) Value {
		s := r.soft(v)
		n := r.argInt(a[0], 80) - origin.RuneCount(s.String())
		if n <= 0 {
			return s
		}
		r.made(s.Len() + n)
		return &strValue{Text: center(s.Text, n, NewText(" ", Outside)), markup: s.markup}
	})
	addFilter("indent", []string{"width", "first", "blank"}, 0, func(r *render, v Value, a []Value) Value {
		return r.indent(v, a[0], given(a[1]), given(a[2]))
	})
	addFilter("truncate", []string{"length", "killwords", "end", "leeway"}, 0, func(r *render, v Value, a []Value) Value {
		return r.truncate(v, a)
	})
}

// addMarkupFilters adds the filters for HTML and URLs, and those that count and measure text.
func addMarkupFilters() {
	addFilter("wordcount", nil, 0, func(r *render, v Value, _ []Value) Value {
		n, in := 0, false
		t := r.str(v)
		r.work(t.Len())
		for _, c := range t.String() {
			word := origin.IsWord(c)
			if word && !in {
				n++
			}
			in = word
		}
		return intValue(n)
	})
	addFilter("wordwrap", []string{"width", "break_long_words", "wrapstring", "break_on_hyphens"}, 0,
		func(r *render, v Value, a []Value) Value { return r.wordwrap(v, a) })
	addFilter("striptags", nil, 0, func(r *render, v Value, _ []Value) Value {
		t := r.str(v)
		r.made(t.Len())
		return text(striptags(t))
	})
	addFilter("urlencode", nil, 0, func(r *render, v Value, _ []Value) Value { return r.urlencode(v) })
	addFilter("urlize", nil, 0, func(r *render, _ Value, _ []Value) Value {
		r.typeError("the urlize filter is refused: prompts are not HTML")
		return nil
	})
	filters["urlize"].rest = true
	addFilter("xmlattr", []string{"autospace"}, 0, func(r *render, v Value, a []Value) Value {
		return r.xmlattr(v, a[0] == nil || truth(a[0]))
	})
	addFilter("pprint", nil, 0, func(r *render, v Value, _ []Value) Value { return text(r.pprint(v)) })
	addFilter("filesizeformat", []string{"binary"}, 0, func(r *render, v Value, a []Value) Value {
		r.defined(v)
		f, ok := parseFloatValue(v)
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			r.typeError("the value is not a size")
		}
		return str(fileSize(f, given(a[0])), Outside)
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

func (r *render) truncate(v Value, a []Value) Value {
	length, leeway := r.argInt(a[0], 255), 5
	end := NewText("...", Trusted)
	if a[2] != nil {
		end = r.argStr("truncate()", a[2])
	}
	if a[3] != nil && !isNone(a[3]) {
		leeway = r.argInt(a[3], 5)
	}
	endLen := origin.RuneCount(end.String())
	if length < endLen {
		r.typeError("expected length >= %d, got %d", endLen, length)
	}
	if leeway < 0 {
		r.typeError("expected leeway >= 0, got %d", leeway)
	}
	n := r.len(v)
	if n <= length+leeway {
		return v
	}
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("unhashable type: 'slice'")
	}
	if !s.AllTrusted() {
		end = NewText(end.String(), Outside)
	}
	cut := s.Slice(0, origin.RuneOffset(s.String(), length-endLen))
	if !given(a[1]) {
		cut = origin.Split(cut, " ", 1, true)[0]
	}
	r.made(cut.Len() + end.Len())
	return &strValue{Text: origin.Concat(cut, end), markup: s.markup}
}

// striptags removes tags and comments, collapses white space and resolves character references.
func striptags(t Text) Text {
	var b origin.Builder
	lastComment, lastTag := strings.LastIndex(t.String(), "-->"), strings.LastIndexByte(t.String(), '>')
	for i := 0; i < t.Len(); {
		rest := t.String()[i:]
		if i < lastComment && strings.HasPrefix(rest, "<!--") {
			i += strings.Index(rest, "-->") + 3
			continue
		}
		if i < lastTag && rest[0] == '<' {
			i += strings.IndexByte(rest, '>') + 1
			continue
		}
		b.AddText(t.Slice(i, i+1))
		i++
	}
	return unescapeHTML(origin.Join(NewText(" ", Outside), origin.SplitSpace(b.Text(), -1, false)))
}

// unescapeHTML resolves the references that escaping makes, and numeric ones.
func unescapeHTML(t Text) Text {
	names := map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "nbsp": "\u00a0"}
	var b origin.Builder
	for i := 0; i < t.Len(); {
		end := -1
		if t.String()[i] == '&' {
			end = strings.IndexByte(t.String()[i:min(t.Len(), i+12)], ';')
		}
		out := ""
		if end > 1 {
			ref := t.String()[i+1 : i+end]
			out = names[ref]
			var c rune
			if n, _ := fmt.Sscanf(ref, "#%d", &c); n == 1 && c > 0 && utf8.ValidRune(c) {
				out = string(c)
			} else if n, _ := fmt.Sscanf(strings.ToLower(ref), "#x%x", &c); n == 1 && c > 0 && utf8.ValidRune(c) {
				out = string(c)
			}
		}
		if out == "" {
			b.AddText(t.Slice(i, i+1))
			i++
			continue
		}
		o := Outside
		if t.Trusted(i, i+end+1) {
			o = Trusted
		}
		b.Add(out, o)
		i += end + 1
	}
	return b.Text()
}

func (r *render) urlencode(v Value) Value {
	quote := func(v Value, query bool) Text {
		t := r.str(v)
		r.made(3 * t.Len())
		return quoteURL(t, query)
	}
	if _, isStr := v.(*strValue); isStr || tryIter(v) == nil {
		return text(quote(v, false))
	}
	var parts []Text
	pairs := v
	if d, ok := v.(*dictValue); ok {
		pairs = &dictView{d: d, kind: viewItems}
	}
	for _, p := range r.items(pairs) {
		kv := r.items(p)
		if len(kv) != 2 {
			r.typeError("not enough or too many values to unpack (expected 2)")
		}
		parts = append(parts, origin.Join(NewText("=", Outside), []Text{quote(kv[0], true), quote(kv[1], true)}))
	}
	return text(origin.Join(NewText("&", Outside), parts))
}

func quoteURL(t Text, query bool) Text {
	var b origin.Builder
	for i := 0; i < t.Len(); i++ {
		c, o := t.String()[i], t.OriginAt(i)
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~", c) >= 0,
			c == '/' && !query:
			b.Add(t.String()[i:i+1], o)
		case c == ' ' && query:
			b.Add("+", o)
		default:
			b.Add(strings.ReplaceAll(url.QueryEscape(t.String()[i:i+1]), "+", "%20"), o)
		}
	}
	return b.Text()
}

func (r *render) xmlattr(v Value, space bool) Value {
	d, ok := v.(*dictValue)
	if !ok {
		r.defined(v)
		r.typeError("'%s' object has no attribute 'items'", v.typeName())
	}
	var b origin.Builder
	for i, k := range d.keys {
		if isNone(d.vals[i]) || isUndefined(d.vals[i]) {
			continue
		}
		key := r.soft(k)
		if strings.ContainsAny(key.String(), " \t\n\v\f\r/>=") {
			r.typeError("Invalid character in attribute name: %s", r.quote(key))
		}
		if b.Len() > 0 || space {
			b.Add(" ", Outside)
		}
		b.AddText(r.escaped(key).Text)
		b.Add(`="`, Outside)
		b.AddText(r.escaped(r.soft(d.vals[i])).Text)
		b.Add(`"`, Outside)
		r.made(key.Len())
	}
	return text(b.Text())
}

func fileSize(f float64, binary bool) string {
	base, units := 1000.0, strings.Fields("kB MB GB TB PB EB ZB YB")
	if binary {
		base, units = 1024, strings.Fields("KiB MiB GiB TiB PiB EiB ZiB YiB")
	}
	switch {
	case f == 1:
		return "1 Byte"
	case f < base:
		return fmt.Sprintf("%.0f Bytes", math.Trunc(f))
	}
	unit := base * base
	for _, u := range units[:len(units)-1] {
		if f < unit {
			return fmt.Sprintf("%.1f %s", base*f/unit, u)
		}
		unit *= base
	}
	return fmt.Sprintf("%.1f %s", base*f/unit, units[len(units)-1])
}

// escaped returns a string as markup.
func (r *render) escaped(s *strValue) *strValue {
	if s.markup {
		return s
	}
	r.made(s.Len())
	return &strValue{Text: origin.EscapeHTML(s.Text), markup: true}
}

// wordwrap is the wordwrap filter. It wraps each line of the text on its own.
func (r *render) wordwrap(v Value, a []Value) Value {
	r.defined(v)
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("'%s' object has no attribute 'splitlines'", v.typeName())
	}
	w := origin.Wrapper{
		Width:        r.argInt(a[0], 79),
		BreakLong:    a[1] == nil || truth(a[1]),
		BreakHyphens: a[3] == nil || truth(a[3]),
	}
	if w.Width <= 0 {
		r.typeError("invalid width %d (must be > 0)", w.Width)
	}
	sep := NewText("\n", Outside)
	if s.AllTrusted() {
		sep = NewText("\n", Trusted)
	}
	if a[2] != nil && !isNone(a[2]) {
		sep = r.argStr("wordwrap()", a[2])
	}
	r.madeItems(s.Len())
	var lines []Text
	for _, line := range origin.SplitLines(s.Text, false) {
		lines = append(lines, origin.Join(sep, w.Wrap(line)))
		r.step()
	}
	r.made(s.Len() + s.Len()*sep.Len())
	return text(origin.Join(sep, lines))
}
