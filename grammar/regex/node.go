package regex

import (
	"math"
	"slices"
)

type op uint8

const (
	classOp  op = iota // one character of class
	concatOp           // subs in order; without subs the empty text
	altOp              // any of subs; without subs no text at all
	repeatOp           // lo to hi times subs[0]; hi < 0 means no limit
	beginOp            // the start of the text
	endOp              // the end of the text
)

// node is a part of a pattern. Nodes are immutable and may be shared.
type node struct {
	op     op
	class  class
	subs   []*node
	lo, hi int

	anchored bool // there is a beginOp or endOp in it
	// least and most are the lengths of the texts in characters. A negative most means no limit. Without texts they are
	// tooLong and 0.
	least, most int
}

// maxInline is the length up to which a list is copied into an outer list of its kind. Copying longer ones at each step
// would take quadratic time.
const maxInline = 16

// tooLong is longer than any text. Lengths stop there.
const tooLong = math.MaxInt32

var (
	epsilon = &node{op: concatOp}
	void    = &node{op: altOp, least: tooLong}
	begin   = &node{op: beginOp, anchored: true}
	end     = &node{op: endOp, anchored: true}
	anyText = repeat(oneOf(anyClass), 0, -1)
)

func (n *node) isVoid() bool    { return n.op == altOp && len(n.subs) == 0 }
func (n *node) isEpsilon() bool { return n.op == concatOp && len(n.subs) == 0 }

// nullable reports whether n matches the empty text. n must have no anchors.
func (n *node) nullable() bool { return n.least == 0 && !n.isVoid() }

// isAny reports whether n matches every text.
func (n *node) isAny() bool {
	return n.op == repeatOp && n.lo == 0 && n.hi < 0 && n.subs[0].op == classOp && slices.Equal(n.subs[0].class, anyClass)
}

func oneOf(c class) *node {
	if len(c) == 0 {
		return void
	}
	return &node{op: classOp, class: c, least: 1, most: 1}
}

func plus(a, b int) int { return min(a+b, tooLong) }

func times(a, b int) int {
	if a != 0 && b > tooLong/a {
		return tooLong
	}
	return a * b
}

func concat(subs ...*node) *node {
	var list []*node
	for _, sub := range subs {
		switch {
		case sub.isVoid():
			return void
		case sub.isEpsilon():
		case sub.op == concatOp && len(sub.subs) <= maxInline:
			list = append(list, sub.subs...)
		default:
			list = append(list, sub)
		}
	}
	if len(list) == 0 {
		return epsilon
	}
	if len(list) == 1 {
		return list[0]
	}
	n := &node{op: concatOp, subs: list}
	for _, sub := range list {
		n.anchored = n.anchored || sub.anchored
		n.least = plus(n.least, sub.least)
		if n.most < 0 || sub.most < 0 {
			n.most = -1
		} else {
			n.most = plus(n.most, sub.most)
		}
	}
	return n
}

func alternate(subs ...*node) *node {
	var list []*node
	var chars class
	for _, sub := range subs {
		switch {
		case sub.isVoid():
		case sub.op == classOp:
			chars = append(chars, sub.class...)
		case sub.isAny():
			return anyText
		case sub.op == altOp && len(sub.subs) <= maxInline:
			list = append(list, sub.subs...)
		case len(list) > maxInline || !slices.Contains(list, sub):
			list = append(list, sub)
		}
	}
	if chars != nil {
		list = append(list, oneOf(newClass(chars...)))
	}
	if len(list) == 0 {
		return void
	}
	if len(list) == 1 {
		return list[0]
	}
	n := &node{op: altOp, subs: list, least: tooLong}
	for _, sub := range list {
		n.anchored = n.anchored || sub.anchored
		n.least = min(n.least, sub.least)
		if n.most < 0 || sub.most < 0 {
			n.most = -1
		} else {
			n.most = max(n.most, sub.most)
		}
	}
	return n
}

func repeat(sub *node, lo, hi int) *node {
	switch {
	case hi == 0 || sub.isEpsilon() || sub.isVoid() && lo == 0:
		return epsilon
	case sub.isVoid():
		return void
	case lo == 1 && hi == 1:
		return sub
	}
	n := &node{op: repeatOp, subs: []*node{sub}, lo: lo, hi: hi, anchored: sub.anchored}
	n.least = times(lo, sub.least)
	switch {
	case hi < 0 && sub.most == 0:
	case hi < 0 || sub.most < 0:
		n.most = -1
	default:
		n.most = times(hi, sub.most)
	}
	return n
}

func star(sub *node) *node { return repeat(sub, 0, -1) }

// between returns the texts of n that have least to most characters. n must have no anchors. See [Regex.SearchBetween].
func (n *node) between(least, most int) (*node, bool) {
	subs := []*node{n}
	if n.op == concatOp {
		subs = n.subs
	}
	if most < 0 {
		most = tooLong
	}
	fixed, varies := 0, -1
	for i, sub := range subs {
		if sub.least == sub.most {
			fixed = plus(fixed, sub.least)
			continue
		}
		if varies >= 0 || sub.op != repeatOp || sub.subs[0].least != 1 || sub.subs[0].most != 1 {
			return nil, false
		}
		varies = i
	}
	if varies < 0 {
		if fixed < least || fixed > most {
			return void, true
		}
		return n, true
	}
	v := subs[varies]
	lo, hi := max(v.lo, least-fixed), v.hi
	if most < tooLong {
		hi = most - fixed
		if v.hi >= 0 {
			hi = min(hi, v.hi)
		}
		if hi < lo {
			return void, true
		}
	} else if hi >= 0 && hi < lo {
		return void, true
	}
	out := slices.Clone(subs)
	out[varies] = repeat(v.subs[0], lo, hi)
	return concat(out...), true
}
