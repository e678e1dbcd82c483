package jinja

import (
	"sort"
	"strings"

	"runner/chattemplate/jinja/origin"
)

// pprintWidth is the line width of the pprint filter.
const pprintWidth = 80

// pretty formats a value as Python's pprint.pformat does. A value that does not fit on one line has one item a line.
// Dict keys are sorted, and long strings are split between words.
type pretty struct {
	r *render
	b origin.Builder
}

func (r *render) pprint(v Value) Text {
	p := &pretty{r: r}
	p.value(p.sorted(v, 0), 0, 0, 0)
	r.made(p.b.Len())
	return p.b.Text()
}

// sorted returns the value with the keys of all dicts sorted.
func (p *pretty) sorted(v Value, depth int) Value {
	p.r.tooDeep(depth)
	p.r.step()
	all := func(items []Value) []Value {
		p.r.madeItems(len(items))
		out := make([]Value, len(items))
		for i, it := range items {
			out[i] = p.sorted(it, depth+1)
		}
		return out
	}
	switch v := v.(type) {
	case *listValue:
		return &listValue{items: all(v.items)}
	case *tupleValue:
		return &tupleValue{items: all(v.items)}
	case *dictValue:
		order := make([]int, v.len())
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool { return p.before(v.keys[order[i]], v.keys[order[j]]) })
		p.r.madeItems(2 * v.len())
		d := newDict(v.len())
		for _, i := range order {
			d.set(v.keys[i], p.sorted(v.vals[i], depth+1))
		}
		return d
	}
	return v
}

// before orders keys. Keys of types that cannot be compared are ordered by the names of their types.
func (p *pretty) before(a, b Value) bool {
	p.r.step()
	_, sa := a.(*strValue)
	_, sb := b.(*strValue)
	if sa && sb || isNumber(a) && isNumber(b) {
		return p.r.less(a, b)
	}
	return a.typeName() < b.typeName()
}

func (p *pretty) add(s string) { p.b.Add(s, Outside) }

// value writes a value that starts at column indent. room more characters must fit on its last line.
func (p *pretty) value(v Value, indent, room, level int) {
	rep := p.r.repr(v)
	if origin.RuneCount(rep.String()) <= pprintWidth-indent-room {
		p.b.AddText(rep)
		return
	}
	p.r.made(indent)
	switch v := v.(type) {
	case *dictValue:
		p.add("{")
		for i, k := range v.keys {
			last := i == v.len()-1
			key := p.r.repr(k)
			p.b.AddText(key)
			p.add(": ")
			after := 1
			if last {
				after = room + 1
			}
			p.value(v.vals[i], indent+1+origin.RuneCount(key.String())+2, after, level+1)
			if !last {
				p.breakLine(",", indent+1)
			}
		}
		p.add("}")
	case *listValue:
		p.items("[", "]", v.items, indent, room, level)
	case *tupleValue:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		p.items("(", end, v.items, indent, room, level)
	case *strValue:
		if v.markup {
			p.b.AddText(rep)
			return
		}
		p.str(v.Text, indent, room, level)
	default:
		p.b.AddText(rep)
	}
}

func (p *pretty) breakLine(before string, indent int) {
	p.r.made(indent + 1)
	p.add(before + "\n" + strings.Repeat(" ", indent))
}

func (p *pretty) items(open, end string, items []Value, indent, room, level int) {
	p.add(open)
	for i, it := range items {
		after := 1
		if i == len(items)-1 {
			after = room + len(end)
		}
		p.value(it, indent+1, after, level+1)
		if i < len(items)-1 {
			p.breakLine(",", indent+1)
		}
	}
	p.add(end)
}

// str writes a long string as one literal per line, in parentheses at the top level.
func (p *pretty) str(t Text, indent, room, level int) {
	if level == 0 {
		indent++
		room++
	}
	var chunks []Text
	width := func(t Text) int { return origin.RuneCount(p.r.repr(text(t)).String()) }
	lines := origin.SplitLines(t, true)
	for i, line := range lines {
		last := i == len(lines)-1
		limit := pprintWidth - indent
		if last {
			limit -= room
		}
		if width(line) <= limit {
			chunks = append(chunks, line)
			continue
		}
		chunks = append(chunks, p.words(line, indent, room, last)...)
	}
	if len(chunks) == 1 {
		p.b.AddText(p.r.repr(text(chunks[0])))
		return
	}
	if level == 0 {
		p.add("(")
	}
	for i, c := range chunks {
		if i > 0 {
			p.breakLine("", indent)
		}
		p.b.AddText(p.r.repr(text(c)))
	}
	if level == 0 {
		p.add(")")
	}
}

// words splits a text into lines of whole words. If last is set, the final line leaves room characters free.
func (p *pretty) words(t Text, indent, room int, last bool) []Text {
	var out []Text
	limit := pprintWidth - indent
	start := 0
	for i := 0; i < t.Len(); {
		end := i
		for _, inSpace := range []bool{false, true} {
			if k := strings.IndexFunc(t.String()[end:], func(c rune) bool { return origin.IsSpace(c) != inSpace }); k >= 0 {
				end += k
			} else {
				end = t.Len()
			}
		}
		if end == t.Len() && last {
			limit -= room
		}
		p.r.work(end - start)
		if origin.RuneCount(p.r.repr(text(t.Slice(start, end))).String()) > limit && i > start {
			out = append(out, t.Slice(start, i))
			start = i
		}
		i = end
	}
	return append(out, t.Slice(start, t.Len()))
}
