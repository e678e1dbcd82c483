package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// jsonWriter is json.dumps. The text of strings keeps its origins. All bytes it adds are outside.
type jsonWriter struct {
	r *render
	b origin.Builder
	// indent is nil for output on one line.
	indent          *Text
	itemSep, keySep Text
	ascii, sorted   bool
}

// tojson is the filter of chat templates: json.dumps, with ensure_ascii False unless asked otherwise.
func (r *render) tojson(v Value, a []Value) Value {
	indent, separators := a[1], a[2]
	w := &jsonWriter{r: r, itemSep: NewText(", ", Outside), keySep: NewText(": ", Outside)}
	w.ascii, w.sorted = given(a[0]), given(a[3])
	if indent != nil && !isNone(indent) {
		w.itemSep = NewText(",", Outside)
		if s, ok := indent.(*strValue); ok {
			w.indent = &s.Text
		} else {
			n := max(0, r.argInt(indent, 0))
			r.made(n)
			t := NewText(strings.Repeat(" ", n), Outside)
			w.indent = &t
		}
	}
	if separators != nil && !isNone(separators) {
		seps := r.items(separators)
		if len(seps) != 2 {
			r.typeError("not enough or too many values to unpack (expected 2)")
		}
		w.itemSep, w.keySep = r.argStr("separators", seps[0]), r.argStr("separators", seps[1])
	}
	w.value(v, 0)
	r.made(w.b.Len())
	return text(w.b.Text())
}

func (w *jsonWriter) add(s string) { w.b.Add(s, Outside) }

func (w *jsonWriter) value(v Value, depth int) {
	w.r.tooDeep(depth)
	w.r.step()
	w.r.fits(w.b.Len())
	switch v := v.(type) {
	case *strValue:
		w.str(v.Text)
	case noneValue:
		w.add("null")
	case boolValue:
		w.add(strconv.FormatBool(bool(v)))
	case intValue, *bigValue:
		w.add(toBig(v).String())
	case floatValue:
		w.add(jsonFloats.Replace(floatRepr(float64(v))))
	case *listValue:
		w.list(v.items, depth)
	case *dictValue:
		w.dict(v, depth)
	default:
		w.r.typeError("Object of type %s is not JSON serializable", v.typeName())
	}
}

// jsonFloats turns repr of a float into its JSON.
var jsonFloats = strings.NewReplacer("inf", "Infinity", "nan", "NaN")

func (w *jsonWriter) newline(depth int) {
	if w.indent == nil {
		return
	}
	w.r.made(1 + depth*w.indent.Len())
	w.add("\n")
	for ; depth > 0; depth-- {
		w.b.AddText(*w.indent)
	}
}

func (w *jsonWriter) list(items []Value, depth int) {
	if len(items) == 0 {
		w.add("[]")
		return
	}
	w.add("[")
	for i, it := range items {
		if i > 0 {
			w.b.AddText(w.itemSep)
		}
		w.newline(depth + 1)
		w.value(it, depth+1)
	}
	w.newline(depth)
	w.add("]")
}

func (w *jsonWriter) dict(d *dictValue, depth int) {
	if d.len() == 0 {
		w.add("{}")
		return
	}
	var order []int
	if w.sorted {
		order = w.r.sorted(d.keys, false)
	}
	w.add("{")
	for i := range d.keys {
		if i > 0 {
			w.b.AddText(w.itemSep)
		}
		if w.sorted {
			i = order[i]
		}
		w.newline(depth + 1)
		w.key(d.keys[i])
		w.b.AddText(w.keySep)
		w.value(d.vals[i], depth+1)
	}
	w.newline(depth)
	w.add("}")
}

func (w *jsonWriter) key(k Value) {
	switch k := k.(type) {
	case *strValue:
		w.str(k.Text)
	case noneValue, boolValue, intValue, *bigValue, floatValue:
		w.add(`"`)
		w.value(k, 0)
		w.add(`"`)
	default:
		w.r.typeError("keys must be str, int, float, bool or None, not %s", k.typeName())
	}
}

func (w *jsonWriter) str(t Text) {
	w.r.work(t.Len())
	w.add(`"`)
	for s, o := range t.Runs() {
		start := 0
		for i := 0; i < len(s); {
			c, n := rune(s[i]), 1
			if c >= utf8.RuneSelf {
				c, n = utf8.DecodeRuneInString(s[i:])
			}
			if esc := w.escape(c); esc != "" {
				w.b.Add(s[start:i], o)
				w.b.Add(esc, o)
				start = i + n
			}
			i += n
		}
		w.b.Add(s[start:], o)
	}
	w.add(`"`)
}

// escape returns the escape of a character, or "" if it needs none.
func (w *jsonWriter) escape(c rune) string {
	if i := strings.IndexRune("\"\\\n\r\t\f\b", c); i >= 0 {
		return `\` + `"\nrtfb`[i:i+1]
	}
	switch {
	case c >= 0x20 && (c <= 0x7f || !w.ascii):
		return ""
	case c > 0xffff:
		c -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
	}
	return fmt.Sprintf(`\u%04x`, c)
}
