package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethod makes a method of strings. The result of a method of markup is markup, as in markupsafe.
func strMethod(name string, params []string, required int,
	fn func(r *render, s *strValue, a []Value) Value) *signature {
	return &signature{name: name, params: params, required: required,
		fn: func(r *render, recv Value, a []Value, _ *callArgs) Value {
			s := recv.(*strValue)
			r.work(len(s.s))
			if !s.markup {
				return fn(r, s, a)
			}
			escaping := name != "split" && name != "rsplit" && name != "partition" && name != "rpartition"
			b := append([]Value(nil), a...)
			for i, v := range b {
				if x, ok := v.(*strValue); ok && escaping {
					b[i] = r.escaped(x)
				}
			}
			return asMarkup(fn(r, s, b))
		}}
}

func asMarkup(v Value) Value {
	switch v := v.(type) {
	case *strValue:
		return &strValue{Text: v.Text, markup: true}
	case *listValue:
		out := make([]Value, len(v.items))
		for i, it := range v.items {
			out[i] = asMarkup(it)
		}
		return &listValue{items: out}
	case *tupleValue:
		return &tupleValue{items: asMarkup(&listValue{items: v.items}).(*listValue).items}
	}
	return v
}

var strMethods = map[string]*signature{}

func addStr(name string, params []string, required int, fn func(r *render, s *strValue, a []Value) Value) {
	strMethods[name] = strMethod(name, params, required, fn)
}

// argStr returns a string argument.
func (r *render) argStr(fn string, v Value) Text {
	r.defined(v)
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("%s argument must be str, not %s", fn, v.typeName())
	}
	return s.Text
}

// argInt returns an integer argument, or def when it is not given.
func (r *render) argInt(v Value, def int) int {
	if v == nil {
		return def
	}
	r.defined(v)
	kind, i, b, _ := numberOf(v)
	switch kind {
	case 1:
		const bound = 1 << 40
		return int(max(-bound, min(i, bound)))
	case 2:
		return b.Sign() << 40
	}
	r.typeError("'%s' object cannot be interpreted as an integer", v.typeName())
	return 0
}

func addMap(name string, f func(Text) Text) {
	addStr(name, nil, 0, func(r *render, s *strValue, _ []Value) Value {
		r.made(len(s.s))
		return text(f(s.Text))
	})
}

func addTest(name string, f func(string) bool) {
	strMethods[name] = &signature{name: name, fn: func(r *render, recv Value, _ []Value, _ *callArgs) Value {
		s := recv.(*strValue)
		r.work(len(s.s))
		return boolValue(f(s.s))
	}}
}

func init() {
	addMap("upper", upper)
	addMap("lower", lower)
	addMap("casefold", func(t Text) Text { return casefold(t) })
	addMap("title", title)
	addMap("capitalize", capitalize)
	addMap("swapcase", swapcase)
	for name, side := range map[string][2]bool{"strip": {true, true}, "lstrip": {true, false}, "rstrip": {false, true}} {
		addStr(name, []string{"*chars"}, 0, func(r *render, s *strValue, a []Value) Value {
			return text(strip(s.Text, r.stripChars(name, a[0]), side[0], side[1]))
		})
	}
	for name, fromRight := range map[string]bool{"split": false, "rsplit": true} {
		addStr(name, []string{"sep", "maxsplit"}, 0, func(r *render, s *strValue, a []Value) Value {
			return r.split(s.Text, a[0], r.argInt(a[1], -1), fromRight)
		})
	}
	addStr("splitlines", []string{"keepends"}, 0, func(r *render, s *strValue, a []Value) Value {
		return r.texts(splitLines(s.Text, a[0] != nil && truth(a[0])))
	})
	addStr("partition", []string{"*sep"}, 1, func(r *render, s *strValue, a []Value) Value {
		return r.partition(s.Text, a[0], strings.Index)
	})
	addStr("rpartition", []string{"*sep"}, 1, func(r *render, s *strValue, a []Value) Value {
		return r.partition(s.Text, a[0], strings.LastIndex)
	})
	addStr("replace", []string{"*old", "*new", "*count"}, 2, func(r *render, s *strValue, a []Value) Value {
		return text(r.replace(s.Text, r.argStr("replace()", a[0]), r.argStr("replace()", a[1]), r.argInt(a[2], -1)))
	})
	addStr("removeprefix", []string{"*prefix"}, 1, func(r *render, s *strValue, a []Value) Value {
		return text(s.slice(len(s.s)-len(strings.TrimPrefix(s.s, r.argStr("removeprefix()", a[0]).s)), len(s.s)))
	})
	addStr("removesuffix", []string{"*suffix"}, 1, func(r *render, s *strValue, a []Value) Value {
		return text(s.slice(0, len(strings.TrimSuffix(s.s, r.argStr("removesuffix()", a[0]).s))))
	})
	addStr("expandtabs", []string{"tabsize"}, 0, func(r *render, s *strValue, a []Value) Value {
		return text(r.expandTabs(s.Text, r.argInt(a[0], 8)))
	})
	addPads()
	addSearches()
	addTests()
	strMethods["join"] = &signature{name: "join", params: []string{"*iterable"}, required: 1,
		fn: func(r *render, recv Value, a []Value, _ *callArgs) Value { return r.joinMethod(recv.(*strValue), a[0]) }}
	strMethods["format"] = &signature{name: "format", rest: true,
		fn: func(r *render, recv Value, _ []Value, c *callArgs) Value { return r.formatMethod(recv.(*strValue), c) }}
	strMethods["format_map"] = &signature{name: "format_map", params: []string{"*mapping"}, required: 1,
		fn: func(r *render, recv Value, a []Value, _ *callArgs) Value {
			d, ok := a[0].(*dictValue)
			if !ok {
				r.typeError("format_map() takes a mapping, not %s", a[0].typeName())
			}
			c := &callArgs{}
			for i, k := range d.keys {
				if s, ok := k.(*strValue); ok {
					c.kw = append(c.kw, kwArg{s.s, Outside, d.vals[i]})
				}
			}
			return r.formatMethod(recv.(*strValue), c)
		}}
}

func casefold(t Text) Text {
	return mapRunes(lower(t), func(c rune, _ int) string {
		switch c {
		case 'ß', 'ẞ':
			return "ss"
		case 'ς':
			return "σ"
		}
		if _, ok := upperSpecial[c]; ok {
			return strings.ToLower(upperSpecial[c])
		}
		return string(c)
	})
}

func addPads() {
	pad := func(name string, f func(r *render, t Text, n int, fill Text) Text) {
		addStr(name, []string{"*width", "*fillchar"}, 1, func(r *render, s *strValue, a []Value) Value {
			n := r.argInt(a[0], 0) - runeCount(s.s)
			fill := NewText(" ", Outside)
			if a[1] != nil {
				if fill = r.argStr(name+"()", a[1]); runeCount(fill.s) != 1 {
					r.typeError("The fill character must be exactly one character long")
				}
			}
			if n <= 0 {
				return text(s.Text)
			}
			r.made(len(s.s) + n*len(fill.s))
			return text(f(r, s.Text, n, fill))
		})
	}
	pad("ljust", func(r *render, t Text, n int, fill Text) Text { return concat(t, repeatText(fill, n)) })
	pad("rjust", func(r *render, t Text, n int, fill Text) Text { return concat(repeatText(fill, n), t) })
	pad("center", func(r *render, t Text, n int, fill Text) Text { return center(t, n, fill) })
	addStr("zfill", []string{"*width"}, 1, func(r *render, s *strValue, a []Value) Value {
		n := r.argInt(a[0], 0) - runeCount(s.s)
		if n <= 0 {
			return text(s.Text)
		}
		r.made(len(s.s) + n)
		sign := 0
		if strings.HasPrefix(s.s, "+") || strings.HasPrefix(s.s, "-") {
			sign = 1
		}
		zeros := NewText(strings.Repeat("0", n), Outside)
		return text(concat(s.slice(0, sign), concat(zeros, s.slice(sign, len(s.s)))))
	})
}

// center adds n fill characters around a text, as str.center shares them out.
func center(t Text, n int, fill Text) Text {
	total := n + runeCount(t.s)
	left := n/2 + n&total&1
	return concat(repeatText(fill, left), concat(t, repeatText(fill, n-left)))
}

// addSearches adds find, rfind, index, rindex, count, startswith and endswith.
func addSearches() {
	for _, name := range []string{"find", "rfind", "index", "rindex"} {
		search := strings.Index
		if name[0] == 'r' {
			search = strings.LastIndex
		}
		addStr(name, []string{"*sub", "*start", "*end"}, 1, func(r *render, s *strValue, a []Value) Value {
			sub := r.argStr("must be str, not", a[0])
			part, off, ok := r.window(s.Text, a[1], a[2])
			k := -1
			if ok {
				k = search(part, sub.s)
			}
			if k >= 0 {
				return intValue(off + runeCount(part[:k]))
			}
			if strings.HasSuffix(name, "index") {
				r.typeError("substring not found")
			}
			return intValue(-1)
		})
	}
	addStr("count", []string{"*sub", "*start", "*end"}, 1, func(r *render, s *strValue, a []Value) Value {
		sub := r.argStr("count()", a[0])
		part, _, ok := r.window(s.Text, a[1], a[2])
		if !ok {
			return intValue(0)
		}
		return intValue(strings.Count(part, sub.s))
	})
	for name, has := range map[string]func(string, string) bool{"startswith": strings.HasPrefix,
		"endswith": strings.HasSuffix} {
		addStr(name, []string{"*prefix", "*start", "*end"}, 1, func(r *render, s *strValue, a []Value) Value {
			part, _, ok := r.window(s.Text, a[1], a[2])
			options := []Value{a[0]}
			if t, isTuple := a[0].(*tupleValue); isTuple {
				options = t.items
			}
			for _, o := range options {
				x, isStr := o.(*strValue)
				if !isStr {
					r.defined(o)
					r.typeError("%s first arg must be str or a tuple of str, not %s", name, o.typeName())
				}
				r.step()
				r.work(len(x.s))
				if ok && has(part, x.s) {
					return boolValue(true)
				}
			}
			return boolValue(false)
		})
	}
}

// window returns s[start:end] by characters and the number of characters before it; false when start lies beyond
// the end.
func (r *render) window(t Text, start, end Value) (string, int, bool) {
	if start == nil && end == nil {
		return t.s, 0, true
	}
	n := runeCount(t.s)
	if i := r.sliceIndex(start, 0); i > n {
		return "", 0, false
	}
	lo, k, _ := r.sliceBounds(start, end, nil, n)
	i := runeOffset(t.s, lo)
	return t.s[i : i+runeOffset(t.s[i:], k)], lo, true
}

func addTests() {
	all := func(f func(rune) bool) func(string) bool {
		return func(s string) bool {
			for _, c := range s {
				if !f(c) {
					return false
				}
			}
			return s != ""
		}
	}
	addTest("isalpha", all(unicode.IsLetter))
	addTest("isalnum", all(func(c rune) bool { return unicode.IsLetter(c) || isNumeric(c) }))
	addTest("isdecimal", all(func(c rune) bool { return unicode.Is(unicode.Nd, c) }))
	addTest("isdigit", all(isDigit))
	addTest("isnumeric", all(isNumeric))
	addTest("isspace", all(isSpace))
	addTest("isascii", isASCII)
	addTest("isprintable", func(s string) bool { return s == "" || all(isPrintable)(s) })
	addTest("isupper", isUpper)
	addTest("islower", isLower)
	addTest("istitle", isTitle)
	addTest("isidentifier", func(s string) bool {
		c, _ := utf8.DecodeRuneInString(s)
		return (c == '_' || unicode.IsLetter(c)) && all(func(c rune) bool { return isWord(c) || unicode.IsMark(c) })(s)
	})
}

// isDigit is str.isdigit for one character: decimal digits, and the digits that stand above or below the line or in
// circles.
func isDigit(c rune) bool {
	if unicode.Is(unicode.Nd, c) {
		return true
	}
	in := func(lo, hi rune) bool { return c >= lo && c <= hi }
	return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || in(0x2074, 0x2079) || in(0x2080, 0x2089) ||
		in(0x2460, 0x2468) || in(0x2474, 0x247c) || in(0x2488, 0x2490) || c == 0x24ea || in(0x24f5, 0x24fd) || c == 0x24ff ||
		in(0x2776, 0x277e) || in(0x2780, 0x2788) || in(0x278a, 0x2792)
}

func isNumeric(c rune) bool {
	return unicode.IsNumber(c) || strings.ContainsRune("零一二三四五六七八九十百千万億兆", c)
}

func isUpper(s string) bool {
	cased := false
	for _, c := range s {
		if isLowerRune(c) || unicode.IsTitle(c) {
			return false
		}
		cased = cased || isUpperRune(c)
	}
	return cased
}

func isLower(s string) bool {
	cased := false
	for _, c := range s {
		if isUpperRune(c) || unicode.IsTitle(c) {
			return false
		}
		cased = cased || isLowerRune(c)
	}
	return cased
}

func isTitle(s string) bool {
	prev, some := false, false
	for _, c := range s {
		switch {
		case isUpperRune(c) || unicode.IsTitle(c):
			if prev {
				return false
			}
			prev, some = true, true
		case isLowerRune(c):
			if !prev {
				return false
			}
			some = true
		default:
			prev = false
		}
	}
	return some
}

func (r *render) stripChars(name string, v Value) *string {
	if v == nil || isNone(v) {
		return nil
	}
	s, ok := v.(*strValue)
	if !ok {
		r.defined(v)
		r.typeError("%s arg must be None or str", name)
	}
	return &s.s
}

func (r *render) split(t Text, sep Value, n int, fromRight bool) Value {
	if sep == nil || isNone(sep) {
		return r.texts(splitSpace(t, n, fromRight))
	}
	s := r.argStr("split()", sep)
	if s.s == "" {
		r.typeError("empty separator")
	}
	return r.texts(splitOn(t, s.s, n, fromRight))
}

// texts makes a list of strings.
func (r *render) texts(ts []Text) Value {
	r.madeItems(len(ts))
	items := make([]Value, len(ts))
	for i, t := range ts {
		items[i] = text(t)
	}
	return &listValue{items: items}
}

func (r *render) partition(t Text, sep Value, find func(string, string) int) Value {
	s := r.argStr("partition()", sep)
	if s.s == "" {
		r.typeError("empty separator")
	}
	i := find(t.s, s.s)
	parts := []Value{text(t), emptyStr, emptyStr}
	switch {
	case i >= 0:
		parts = []Value{text(t.slice(0, i)), text(t.slice(i, i+len(s.s))), text(t.slice(i+len(s.s), len(t.s)))}
	case find("ab", "") != 0:
		parts = []Value{emptyStr, emptyStr, text(t)}
	}
	return &tupleValue{items: parts}
}

// replace counts the size of the result before it is made.
func (r *render) replace(t, old, repl Text, n int) Text {
	times := strings.Count(t.s, old.s)
	if n >= 0 {
		times = min(times, n)
	}
	r.made(len(t.s) + times*max(0, len(repl.s)-len(old.s)))
	return replaceText(t, old.s, repl, n)
}

func (r *render) expandTabs(t Text, size int) Text {
	r.made(len(t.s))
	var b builder
	col := 0
	for i := 0; i < len(t.s); {
		c, n := utf8.DecodeRuneInString(t.s[i:])
		switch c {
		case '\t':
			if size > 0 {
				k := size - col%size
				r.made(k)
				b.add(strings.Repeat(" ", k), t.originAt(i))
				col += k
			}
		case '\n', '\r':
			b.addText(t.slice(i, i+n))
			col = 0
		default:
			b.addText(t.slice(i, i+n))
			col++
		}
		i += n
	}
	return b.text()
}

// joinMethod is sep.join(items).
func (r *render) joinMethod(sep *strValue, v Value) Value {
	r.defined(v)
	it := tryIter(v)
	if it == nil {
		r.typeError("can only join an iterable")
	}
	var b builder
	for i := 0; ; i++ {
		e, ok := it.next(r)
		if !ok {
			break
		}
		r.step()
		s, ok := e.(*strValue)
		if sep.markup {
			s, ok = r.escaped(text(r.str(e))), true
			if m, isStr := e.(*strValue); isStr {
				s = r.escaped(m)
			}
		}
		if !ok {
			r.typeError("sequence item %d: expected str instance, %s found", i, e.typeName())
		}
		if i > 0 {
			r.made(len(sep.s))
			b.addText(sep.Text)
		}
		r.made(len(s.s))
		b.addText(s.Text)
		r.fits(len(b.buf))
	}
	return &strValue{Text: b.text(), markup: sep.markup}
}
