package expr

import (
	"slices"
)

// And returns the expression of the texts that match all parts, which must be regular. See the package's rule about
// dead ends. Without parts it is any text.
func (s *Set) And(parts ...ID) ID {
	base := len(s.stack)
	for _, id := range parts {
		s.pushAnd(id)
	}
	return s.popAnd(base)
}

func (s *Set) pushAnd(id ID) {
	switch n := &s.nodes[id]; n.kind {
	case andKind:
		s.stack = append(s.stack, s.list(n)...)
	case notKind:
		if ID(n.a) == Empty {
			return
		}
		fallthrough
	default:
		s.stack = append(s.stack, id)
	}
}

func (s *Set) popAnd(base int) ID {
	list := normal(s.stack[base:])
	s.stack = s.stack[:base]
	if len(list) == 0 {
		return s.Not(Empty)
	}
	if len(list) == 1 {
		return list[0]
	}
	if list[0] == Empty {
		return Empty
	}
	if list[0] == Epsilon {
		for _, id := range list {
			if !s.Nullable(id) {
				return Empty
			}
		}
		return Epsilon
	}
	for _, id := range list {
		if n := &s.nodes[id]; n.kind == notKind {
			if _, found := slices.BinarySearch(list, ID(n.a)); found {
				return Empty
			}
		}
	}
	return s.intern(node{kind: andKind}, list)
}

// Not returns the expression of all texts that do not match a, which must be regular. See the package's rule about
// dead ends.
func (s *Set) Not(a ID) ID {
	if n := &s.nodes[a]; n.kind == notKind {
		return ID(n.a)
	}
	return s.intern(node{kind: notKind, a: int32(a)}, nil)
}
