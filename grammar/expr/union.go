package expr

import (
	"cmp"
	"slices"
)

// Union returns the expression of any one of the parts.
func (s *Set) Union(parts ...ID) ID {
	base := len(s.stack)
	for _, id := range parts {
		s.pushUnion(id)
	}
	return s.popUnion(base)
}

// pushUnion pushes the alternatives of id onto the stack of lists under construction.
func (s *Set) pushUnion(id ID) {
	if id == Empty {
		return
	}
	if n := &s.nodes[id]; n.kind == unionKind {
		s.stack = append(s.stack, s.list(n)...)
		return
	}
	s.stack = append(s.stack, id)
}

// popUnion makes a union of the stack's elements from base on. It merges alternatives that begin with the same
// expression: x·y | x·z becomes x·(y|z). A union is then a set of stacks with shared tops (Tomita's graph-structured
// stack). Without this, an ambiguous grammar would have exponentially many alternatives.
func (s *Set) popUnion(base int) ID {
	s.work -= (len(s.stack) - base) / 2
	list := s.subsume(normal(s.stack[base:]))
	if len(list) > 1 && s.sharesHead(list) {
		slices.Sort(list)
		raw := s.intern(node{kind: unmergedKind}, list)
		if m := s.nodes[raw].clamped; m != 0 {
			s.stack = s.stack[:base]
			return m
		}
		merged := s.mergeHeads(base, len(list))
		s.stack = s.stack[:base]
		id := merged[0]
		if len(merged) > 1 {
			id = s.intern(node{kind: unionKind}, merged)
		}
		s.nodes[raw].clamped = id
		return id
	}
	s.stack = s.stack[:base]
	switch len(list) {
	case 0:
		return Empty
	case 1:
		return list[0]
	}
	return s.intern(node{kind: unionKind}, list)
}

// subsume drops alternatives of a sorted list that another one includes because its first part can be empty: y in x·y |
// y if x can be empty. A state in a row of optional parts is then one stack instead of one for each part that may come
// next.
func (s *Set) subsume(list []ID) []ID {
	if len(list) < 2 {
		return list
	}
	found := false
	for _, id := range list {
		n := &s.nodes[id]
		if n.kind != concatKind || !s.canBeEmpty(ID(n.a)) {
			continue
		}
		if !found {
			found = true
			s.marked++
			s.mark = append(s.mark, make([]int32, len(s.nodes)-len(s.mark))...)
		}
		for n.kind == concatKind && s.canBeEmpty(ID(n.a)) && s.mark[n.b] != s.marked {
			s.mark[n.b] = s.marked
			n = &s.nodes[n.b]
		}
	}
	if !found {
		return list
	}
	return slices.DeleteFunc(list, func(id ID) bool { return s.mark[id] == s.marked })
}

// canBeEmpty reports whether a is known to match the empty text. It does not expand rules, because they may be under
// construction.
func (s *Set) canBeEmpty(a ID) bool {
	n := &s.nodes[a]
	return n.nullable == yes || n.nullable == unknown && !n.calls && s.Nullable(a)
}

// split returns the first part of a concatenation and the rest.
func (s *Set) split(id ID) (head, tail ID) {
	if n := &s.nodes[id]; n.kind == concatKind {
		return ID(n.a), ID(n.b)
	}
	return id, Epsilon
}

// sharesHead reports whether two elements of list begin with the same expression.
func (s *Set) sharesHead(list []ID) bool {
	if len(list) <= 8 {
		for i, a := range list {
			h, _ := s.split(a)
			for _, b := range list[:i] {
				if g, _ := s.split(b); g == h {
					return true
				}
			}
		}
		return false
	}
	s.sortByHead(list)
	shared := false
	for i := 1; i < len(list); i++ {
		g, _ := s.split(list[i-1])
		h, _ := s.split(list[i])
		shared = shared || g == h
	}
	if !shared {
		slices.Sort(list)
	}
	return shared
}

func (s *Set) sortByHead(list []ID) {
	slices.SortFunc(list, func(a, b ID) int {
		g, _ := s.split(a)
		h, _ := s.split(b)
		return cmp.Compare(g, h)
	})
}

// mergeHeads merges the alternatives from base on that begin with the same expression. There are n.
func (s *Set) mergeHeads(base, n int) []ID {
	s.stack = s.stack[:base+n]
	s.sortByHead(s.stack[base:])
	out := base
	for i := base; i < base+n; {
		head, tail := s.split(s.stack[i])
		id, rest := s.stack[i], len(s.stack)
		for i++; i < base+n; i++ {
			h, t := s.split(s.stack[i])
			if h != head {
				break
			}
			if len(s.stack) == rest {
				s.pushUnion(tail)
			}
			s.pushUnion(t)
		}
		if len(s.stack) > rest {
			id = s.concat(head, s.popUnion(rest))
		}
		s.stack[out] = id
		out++
	}
	s.stack = s.stack[:out]
	slices.Sort(s.stack[base:])
	return s.stack[base:]
}

// normal sorts a list in place and removes duplicates.
func normal(list []ID) []ID {
	if len(list) < 2 {
		return list
	}
	if len(list) == 2 {
		if list[0] > list[1] {
			list[0], list[1] = list[1], list[0]
		}
		if list[0] == list[1] {
			return list[:1]
		}
		return list
	}
	slices.Sort(list)
	return slices.Compact(list)
}
