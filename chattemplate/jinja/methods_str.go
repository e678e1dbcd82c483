package jinja

import (
	"slices"
	"strings"
	"unicode"

	"runner/chattemplate/jinja/origin"
)

// strMethods are the methods of strings.
var strMethods = natives{}

// addStr adds a method of strings. The result is markup if the string is, as in markupsafe.
func addStr(declaration string, fn func(r *render, s *strValue, a []Value) Value) {
	escapes := !strings.Contains(declaration, "split") && !strings.Contains(declaration, "partition")
	strMethods.add(declaration, func(r *render, recv Value, a []Value) Value {
		s := recv.(*strValue)
		r.work(s.Len())
		if !s.markup {
			return fn(r, s, a)
		}
		b := slices.Clone(a)
		for i, v := range b {
			if x, ok := v.(*strValue); ok && escapes {
				b[i] = r.escaped(x)
			}
		}
		return asMarkup(fn(r, s, b))
	})
}

func asMarkup(v Value) Value {
	switch v := v.(type) {
	case *strValue:
		return &strValue{Text: v.Text, markup: true}
	case *listValue:
		items := make([]Value, len(v.items))
		for i, it := range v.items {
			items[i] = asMarkup(it)
		}
		return &listValue{items: items, tuple: v.tuple}
	}
	return v
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

// argInt returns an integer argument, or def if it was not given.
func (r *render) argInt(v Value, def int) int {
	if v == nil {
		return def
	}
	r.defined(v)
	if i, ok := clipped(v, 1<<40); ok {
		return i
	}
	r.typeError("'%s' object cannot be interpreted as an integer", v.typeName())
	return 0
}

func addMap(name string, f func(Text) Text) {
	addStr(name, func(r *render, s *strValue, _ []Value) Value {
		r.made(s.Len())
		return text(f(s.Text))
	})
}

func addTest(name string, f func(string) bool) {
	addStr(name, func(_ *render, s *strValue, _ []Value) Value { return boolValue(f(s.String())) })
}

func init() {
	addMap("upper", origin.Upper)
	addMap("lower", origin.Lower)
	addMap("title", origin.Title)
	addMap("capitalize", origin.Capitalize)
	for name, side := range map[string][2]bool{"strip": {true, true}, "lstrip": {true, false}, "rstrip": {false, true}} {
		addStr(name+"(chars?)", func(r *render, s *strValue, a []Value) Value {
			return text(origin.Strip(s.Text, r.stripChars(name, a[0]), side[0], side[1]))
		})
	}
	for name, fromRight := range map[string]bool{"split": false, "rsplit": true} {
		addStr(name+"(sep?, maxsplit?)", func(r *render, s *strValue, a []Value) Value {
			return r.split(s.Text, a[0], r.argInt(a[1], -1), fromRight)
		})
	}
	addStr("splitlines(keepends?)", func(r *render, s *strValue, a []Value) Value {
		return r.texts(origin.SplitLines(s.Text, a[0] != nil && truth(a[0])))
	})
	addStr("partition(sep)", func(r *render, s *strValue, a []Value) Value {
		return r.partition(s.Text, a[0], strings.Index)
	})
	addStr("rpartition(sep)", func(r *render, s *strValue, a []Value) Value {
		return r.partition(s.Text, a[0], strings.LastIndex)
	})
	addStr("replace(old, new, count?)", func(r *render, s *strValue, a []Value) Value {
		return text(r.replace(s.Text, r.argStr("replace()", a[0]), r.argStr("replace()", a[1]), r.argInt(a[2], -1)))
	})
	addStr("removeprefix(prefix)", func(r *render, s *strValue, a []Value) Value {
		return text(s.Slice(s.Len()-len(strings.TrimPrefix(s.String(), r.argStr("removeprefix()", a[0]).String())), s.Len()))
	})
	addStr("removesuffix(suffix)", func(r *render, s *strValue, a []Value) Value {
		return text(s.Slice(0, len(strings.TrimSuffix(s.String(), r.argStr("removesuffix()", a[0]).String()))))
	})
	addSearches()
	addTests()
	addStr("join(iterable)", func(r *render, s *strValue, a []Value) Value { return r.joinMethod(s, a[0]) })
}

// addSearches adds find, rfind, index, rindex, count, startswith and endswith.
func addSearches() {
	for _, name := range []string{"find", "rfind", "index", "rindex"} {
		search := strings.Index
		if name[0] == 'r' {
			search = strings.LastIndex
		}
		addStr(name+"(sub, start?, end?)", func(r *render, s *strValue, a []Value) Value {
			sub := r.argStr("must be str, not", a[0])
			part, off, ok := r.window(s.Text, a[1], a[2])
			k := -1
			if ok {
				k = search(part, sub.String())
			}
			if k >= 0 {
				return intValue(off + origin.RuneCount(part[:k]))
			}
			if strings.HasSuffix(name, "index") {
				r.typeError("substring not found")
			}
			return intValue(-1)
		})
	}
	addStr("count(sub, start?, end?)", func(r *render, s *strValue, a []Value) Value {
		sub := r.argStr("count()", a[0])
		part, _, ok := r.window(s.Text, a[1], a[2])
		if !ok {
			return intValue(0)
		}
		return intValue(strings.Count(part, sub.String()))
	})
	for name, has := range map[string]func(string, string) bool{"startswith": strings.HasPrefix,
		"endswith": strings.HasSuffix} {
		addStr(name+"(prefix, start?, end?)", func(r *render, s *strValue, a []Value) Value {
			part, _, ok := r.window(s.Text, a[1], a[2])
			options := []Value{a[0]}
			if t, ok := a[0].(*listValue); ok && t.tuple {
				options = t.items
			}
			for _, o := range options {
				x, isStr := o.(*strValue)
				if !isStr {
					r.defined(o)
					r.typeError("%s first arg must be str or a tuple of str, not %s", name, o.typeName())
				}
				r.step()
				r.work(x.Len())
				if ok && has(part, x.String()) {
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
		return t.String(), 0, true
	}
	n := origin.RuneCount(t.String())
	if i := r.sliceIndex(start, 0); i > n {
		return "", 0, false
	}
	lo, k, _ := r.sliceBounds(start, end, nil, n)
	i := origin.RuneOffset(t.String(), lo)
	return t.String()[i : i+origin.RuneOffset(t.String()[i:], k)], lo, true
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
	addTest("isalnum", all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }))
	addTest("isdigit", all(unicode.IsDigit))
	addTest("isspace", all(origin.IsSpace))
	addTest("isupper", isUpper)
	addTest("islower", isLower)
}

func isUpper(s string) bool { return isCased(s, origin.IsUpper, origin.IsLower) }

func isLower(s string) bool { return isCased(s, origin.IsLower, origin.IsUpper) }

// isCased reports whether some characters have the right case and none the other.
func isCased(s string, right, other func(rune) bool) bool {
	return strings.ContainsFunc(s, right) && !strings.ContainsFunc(s, other) && !strings.ContainsFunc(s, unicode.IsTitle)
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
	chars := s.String()
	return &chars
}

func (r *render) split(t Text, sep Value, n int, fromRight bool) Value {
	if sep == nil || isNone(sep) {
		return r.texts(origin.SplitSpace(t, n, fromRight))
	}
	s := r.argStr("split()", sep)
	if s.String() == "" {
		r.typeError("empty separator")
	}
	return r.texts(origin.Split(t, s.String(), n, fromRight))
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
	if s.String() == "" {
		r.typeError("empty separator")
	}
	i := find(t.String(), s.String())
	parts := []Value{text(t), emptyStr, emptyStr}
	switch {
	case i >= 0:
		parts = []Value{text(t.Slice(0, i)), text(t.Slice(i, i+s.Len())), text(t.Slice(i+s.Len(), t.Len()))}
	case find("ab", "") != 0:
		parts = []Value{emptyStr, emptyStr, text(t)}
	}
	return tuple(parts...)
}

// replace counts the size of the result before it makes it.
func (r *render) replace(t, old, repl Text, n int) Text {
	times := strings.Count(t.String(), old.String())
	if n >= 0 {
		times = min(times, n)
	}
	r.made(t.Len() + times*max(0, repl.Len()-old.Len()))
	return origin.Replace(t, old.String(), repl, n)
}

// joinMethod is sep.join(items).
func (r *render) joinMethod(sep *strValue, v Value) Value {
	r.defined(v)
	it := tryIter(v)
	if it == nil {
		r.typeError("can only join an iterable")
	}
	return r.join(sep.Text, it, func(i int, v Value) Text {
		if sep.markup {
			return r.escaped(r.soft(v)).Text
		}
		s, ok := v.(*strValue)
		if !ok {
			r.typeError("sequence item %d: expected str instance, %s found", i, v.typeName())
		}
		return s.Text
	})
}

// join joins the texts of items.
func (r *render) join(sep Text, items iterator, str func(i int, v Value) Text) Value {
	var b origin.Builder
	for i := 0; ; i++ {
		v, ok := items.next(r)
		if !ok {
			return text(b.Text())
		}
		r.step()
		if i > 0 {
			b.AddText(sep)
		}
		t := str(i, v)
		r.made(t.Len() + sep.Len())
		b.AddText(t)
		r.fits(b.Len())
	}
}
