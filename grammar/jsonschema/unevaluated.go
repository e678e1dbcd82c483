package jsonschema

import (
	"encoding/binary"
)

// unevaluated returns the schema for everything that no other keyword of n has evaluated. It returns nil if n has none
// for values of kind k.
func (n *node) unevaluated(k kinds) *node {
	switch {
	case k == objectKind && n.obj != nil:
		return n.obj.unevaluated
	case k == arrayKind && n.arr != nil:
		return n.arr.unevaluated
	}
	return nil
}

// closeOff makes everything that the schemas of an alternative leave unevaluated satisfy rest, for each alternative of
// n.
func (c *compiler) closeOff(n, rest *node, alts []*alt, k kinds) []*alt {
	out := make([]*alt, 0, len(alts))
	for _, a := range alts {
		closing := &alt{kind: k, held: []*node{n}}
		if k == objectKind {
			s := &keySource{nodes: a.held, others: holds(rest)}
			for _, h := range a.held {
				if h.obj.additional != nil || h.obj.unevaluated != nil && h != n {
					s = nil
					break
				}
			}
			if s != nil {
				closing.obj = &objectPart{sources: []*keySource{s}, max: -1}
			}
		} else if s, ok := c.unevaluatedItems(n, rest, a.held); ok {
			closing.arr = &arrayPart{sources: []itemSource{s}, max: -1}
		}
		if m := c.merge(a, closing); m != nil {
			out = append(out, m)
		}
	}
	return out
}

func (c *compiler) unevaluatedItems(n, rest *node, held []*node) (itemSource, bool) {
	s := itemSource{rest: holds(rest)}
	found := []*node{rest}
	known := 0
	for _, h := range held {
		if h.arr.items != nil || h.arr.unevaluated != nil && h != n {
			return s, false
		}
		known = max(known, len(h.arr.prefix))
		if h.arr.contains != nil && c.dialect >= draft2020 {
			found = append(found, h.arr.contains)
		}
	}
	if len(found) > 1 {
		s.rest = holds(c.either(found))
	}
	for range known {
		s.prefix = append(s.prefix, anything)
	}
	return s, true
}

// either returns the schema "any of list", the same for the same list.
func (c *compiler) either(list []*node) *node {
	var key []byte
	for _, n := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(n.id))
	}
	n, ok := c.eithers[string(key)]
	if !ok {
		n = c.synthetic(&node{logic: &logicWords{order: []factor{anyFactor}, any: list}})
		c.eithers[string(key)] = n
	}
	return n
}
