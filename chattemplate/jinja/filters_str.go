package jinja

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"unicode/utf8"
)

func addStringFilters() {
	mapped := func(name string, f func(Text) Text) {
		addFilter(name, nil, 0, func(r *render, v Value, _ []Value) Value {
			s := r.soft(v)
			r.made(len(s.s))
			return &strValue{Text: f(s.Text), markup: s.markup}
		})
	}
	mapped("upper", upper)
	mapped("lower", lower)
	mapped("capitalize", capitalize)
	addFilter("title", nil, 0, func(r *render, v Value, _ []Value) Value {
		t := r.str(v)
		r.made(len(t.s))
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
		r.work(len(s.s))
		return &strValue{Text: strip(s.Text, r.stripChars("strip", a[0]), true, true), markup: s.markup}
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
		n := r.argInt(a[0], 80) - runeCount(s.s)
		if n <= 0 {
			return s
		}
		r.made(len(s.s) + n)
		return &strValue{Text: center(s.Text, n, NewText(" ", Outside)), markup: s.markup}
	})
	addFilter("indent", []string{"width", "first", "blank"}, 0, func(r *render, v Value, a []Value) Value {
		return r.indent(v, a[0], given(a[1]), given(a[2]))
	})
	addFilter("truncate", []string{"length", "killwords", "end", "leeway"}, 0, func(r *render, v Value, a []Value) Value {
		return r.truncate(v, a)
	})
}

// addMarkupFilters adds the filters for HTML and URLs, and those that count and measure.
func addMarkupFilters() {
	addFilter("wordcount", nil, 0, func(r *render, v Value, _ []Value) Value {
		n, in := 0, false
		t := r.str(v)
		r.work(len(t.s))
		for _, c := range t.s {
			word := isWord(c)
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
		r.made(len(t.s))
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

// soft returns v if it is a string, markup or not, else str(v).
func (r *render) soft(v Value) *strValue {
	if s, ok := v.(*strValue); ok {
		return s
	}
	return text(r.str(v))
}

// titleWords is the title filter: words begin after white space and after - ( { [ <.
func titleWords(t Text) Text {
	start := true
	return mapRunes(t, func(c rune, i int) string {
		was := start
		start = isSpace(c) || strings.ContainsRune("-({[<", c)
		if was && !start {
			return upperRune(c)
		}
		return lowerRune(t.s, c, i)
	})
}

func (r *render) indent(v, width Value, first, blank bool) Value {
	r.defined(v)
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.typeName())
	}
	made := Outside
	if s.allTrusted() {
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
	lines := splitLines(concat(s.Text, newline), false)
	var b builder
	for i, line := range lines {
		if i > 0 {
			b.addText(newline)
		}
		if i > 0 && (blank || line.s != "") || i == 0 && first {
			r.made(len(pad.s))
			b.addText(pad)
		}
		b.addText(line)
		r.made(len(line.s) + 1)
		r.fits(len(b.buf))
	}
	return &strValue{Text: b.text(), markup: s.markup}
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
	endLen := runeCount(end.s)
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
	if !s.allTrusted() {
		end = NewText(end.s, Outside)
	}
	cut := s.slice(0, runeOffset(s.s, length-endLen))
	if !given(a[1]) {
		cut = splitOn(cut, " ", 1, true)[0]
	}
	r.made(len(cut.s) + len(end.s))
	return &strValue{Text: concat(cut, end), markup: s.markup}
}

// striptags takes away tags and comments, joins white space and resolves character references.
func striptags(t Text) Text {
	var b builder
	lastComment, lastTag := strings.LastIndex(t.s, "-->"), strings.LastIndexByte(t.s, '>')
	for i := 0; i < len(t.s); {
		rest := t.s[i:]
		if i < lastComment && strings.HasPrefix(rest, "<!--") {
			i += strings.Index(rest, "-->") + 3
			continue
		}
		if i < lastTag && rest[0] == '<' {
			i += strings.IndexByte(rest, '>') + 1
			continue
		}
		b.addText(t.slice(i, i+1))
		i++
	}
	return unescapeHTML(joinTexts(NewText(" ", Outside), splitSpace(b.text(), -1, false)))
}

// unescapeHTML resolves the references that escaping makes, and numbers.
func unescapeHTML(t Text) Text {
	names := map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "nbsp": "\u00a0"}
	var b builder
	for i := 0; i < len(t.s); {
		end := -1
		if t.s[i] == '&' {
			end = strings.IndexByte(t.s[i:min(len(t.s), i+12)], ';')
		}
		out := ""
		if end > 1 {
			ref := t.s[i+1 : i+end]
			out = names[ref]
			var c rune
			if n, _ := fmt.Sscanf(ref, "#%d", &c); n == 1 && c > 0 && utf8.ValidRune(c) {
				out = string(c)
			} else if n, _ := fmt.Sscanf(strings.ToLower(ref), "#x%x", &c); n == 1 && c > 0 && utf8.ValidRune(c) {
				out = string(c)
			}
		}
		if out == "" {
			b.addText(t.slice(i, i+1))
			i++
			continue
		}
		o := Outside
		if t.Trusted(i, i+end+1) {
			o = Trusted
		}
		b.add(out, o)
		i += end + 1
	}
	return b.text()
}

func (r *render) urlencode(v Value) Value {
	quote := func(v Value, query bool) Text {
		t := r.str(v)
		r.made(3 * len(t.s))
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
		parts = append(parts, joinTexts(NewText("=", Outside), []Text{quote(kv[0], true), quote(kv[1], true)}))
	}
	return text(joinTexts(NewText("&", Outside), parts))
}

func quoteURL(t Text, query bool) Text {
	var b builder
	for i := 0; i < len(t.s); i++ {
		c, o := t.s[i], t.originAt(i)
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~", c) >= 0,
			c == '/' && !query:
			b.add(t.s[i:i+1], o)
		case c == ' ' && query:
			b.add("+", o)
		default:
			b.add(strings.ReplaceAll(url.QueryEscape(t.s[i:i+1]), "+", "%20"), o)
		}
	}
	return b.text()
}

func (r *render) xmlattr(v Value, space bool) Value {
	d, ok := v.(*dictValue)
	if !ok {
		r.defined(v)
		r.typeError("'%s' object has no attribute 'items'", v.typeName())
	}
	var b builder
	for i, k := range d.keys {
		if isNone(d.vals[i]) || isUndefined(d.vals[i]) {
			continue
		}
		key := r.soft(k)
		if strings.ContainsAny(key.s, " \t\n\v\f\r/>=") {
			r.typeError("Invalid character in attribute name: %s", r.quote(key))
		}
		if len(b.buf) > 0 || space {
			b.add(" ", Outside)
		}
		b.addText(r.escaped(key).Text)
		b.add(`="`, Outside)
		b.addText(r.escaped(r.soft(d.vals[i])).Text)
		b.add(`"`, Outside)
		r.made(len(key.s))
	}
	return text(b.text())
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
