package regex

// anchors is a pattern without its anchors. Their demands are conditions on the surrounding text: the texts of parts[c]
// match where all conditions of c hold, and every match is among them. So `^a|b` has the parts {atStart: a, anywhere:
// b}.
type anchors struct{ parts [4]*node }

const (
	anywhere = 0
	atStart  = 1 << 0 // nothing comes before
	atEnd    = 1 << 1 // nothing comes after
)

// maxUnroll limits how often a repeated part with an anchor in it is written out.
const maxUnroll = 100

func only(condition int, n *node) anchors {
	a := anchors{[4]*node{void, void, void, void}}
	a.parts[condition] = n
	return a
}

func resolve(n *node) (anchors, error) {
	if !n.anchored {
		return only(anywhere, n), nil
	}
	switch n.op {
	case beginOp:
		return only(atStart, epsilon), nil
	case endOp:
		return only(atEnd, epsilon), nil
	case repeatOp:
		a, err := resolve(n.subs[0])
		if err != nil {
			return a, err
		}
		return a.repeat(n.lo, n.hi)
	}
	join, all := concat, only(anywhere, epsilon)
	if n.op == altOp {
		join, all = alternate, only(anywhere, void)
	}
	var plain []*node // the parts without anchors since the last one with
	add := func(a anchors) {
		if n.op == altOp {
			all = all.or(a)
		} else {
			all = all.then(a)
		}
	}
	for _, sub := range n.subs {
		if !sub.anchored {
			plain = append(plain, sub)
			continue
		}
		a, err := resolve(sub)
		if err != nil {
			return a, err
		}
		add(only(anywhere, join(plain...)))
		plain = plain[:0]
		add(a)
	}
	add(only(anywhere, join(plain...)))
	return all, nil
}

func (a anchors) or(b anchors) anchors {
	for c := range a.parts {
		a.parts[c] = alternate(a.parts[c], b.parts[c])
	}
	return a
}

// then returns a followed by b. Only empty text can follow what must be at the end, and only empty text can precede
// what must be at the start.
func (a anchors) then(b anchors) anchors {
	out := only(anywhere, void)
	for c, x := range a.parts {
		for d, y := range b.parts {
			if x.isVoid() || y.isVoid() {
				continue
			}
			if c&atEnd != 0 {
				if !y.nullable() {
					continue
				}
				y = epsilon
			}
			before := x
			if d&atStart != 0 {
				if !x.nullable() {
					continue
				}
				before = epsilon
			}
			out.parts[c|d] = alternate(out.parts[c|d], concat(before, y))
		}
	}
	return out
}

func (a anchors) star() anchors {
	middle := star(a.parts[anywhere])
	s, e := a.parts[atStart], a.parts[atEnd]
	return anchors{[4]*node{
		anywhere:        middle,
		atStart:         concat(s, middle),
		atEnd:           concat(middle, e),
		atStart | atEnd: alternate(concat(s, middle, e), a.parts[atStart|atEnd]),
	}}
}

func (a anchors) repeat(lo, hi int) (anchors, error) {
	if max(lo, hi) > maxUnroll {
		return a, &Error{Kind: ErrTooLarge, Problem: "a group that is repeated this often must not contain ^ or $"}
	}
	out := only(anywhere, epsilon)
	for range lo {
		out = out.then(a)
	}
	if hi < 0 {
		return out.then(a.star()), nil
	}
	perhaps := a.or(only(anywhere, epsilon))
	for range hi - lo {
		out = out.then(perhaps)
	}
	return out, nil
}

// full returns the texts that match from start to end.
func (a anchors) full() *node { return alternate(a.parts[:]...) }

// search returns the texts that contain a match.
func (a anchors) search() *node {
	left, right := trimmer{memo: map[*node]*node{}, left: true}, trimmer{memo: map[*node]*node{}}
	inside := right.trim(left.trim(a.parts[anywhere]))
	before := anyText
	if inside.op == classOp {
		before = star(oneOf(inside.class.negate())) // up to the first match, so that there is only one way to find it
	}
	if inside.isEpsilon() {
		return anyText
	}
	return alternate(
		concat(before, inside, anyText),
		concat(right.trim(a.parts[atStart]), anyText),
		concat(anyText, left.trim(a.parts[atEnd])),
		a.parts[atStart|atEnd],
	)
}

// trimmer drops parts that make no difference before any text, or with left after any text: `ab*` before any text is
// `a`.
type trimmer struct {
	memo map[*node]*node
	left bool
}

func (t *trimmer) trim(n *node) *node {
	if n.nullable() {
		return epsilon
	}
	if out, ok := t.memo[n]; ok {
		return out
	}
	out := n
	switch n.op {
	case concatOp:
		out = t.concat(n.subs)
	case altOp:
		subs := make([]*node, len(n.subs))
		for i, sub := range n.subs {
			subs[i] = t.trim(sub)
		}
		out = alternate(subs...)
	case repeatOp:
		rest, last := repeat(n.subs[0], n.lo-1, n.lo-1), t.trim(n.subs[0])
		if t.left {
			out = concat(last, rest)
		} else {
			out = concat(rest, last)
		}
	}
	t.memo[n] = out
	return out
}

func (t *trimmer) concat(subs []*node) *node {
	for {
		at, rest := len(subs)-1, subs[:len(subs)-1]
		if t.left {
			at, rest = 0, subs[1:]
		}
		sub := t.trim(subs[at])
		if sub.isEpsilon() {
			subs = rest
			continue
		}
		if t.left {
			return concat(sub, concat(rest...))
		}
		return concat(concat(rest...), sub)
	}
}
