package jsontext

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// part is one condition, as an automaton over the digits of a number without its sign: first those before the point,
// then point, then those after it. States are numbers. dead means that the condition can no longer be met.
type part interface {
	start() int32
	digit(q int32, d int32) int32
	point(q int32) int32
	accepts(q int32) bool
	// zeros reports whether only zeros can follow.
	zeros(q int32) bool
}

const dead = -1

// decimal is a number that is not negative. The digits before the point have no leading zeros, except "0", and those
// after it no trailing zeros.
type decimal struct{ whole, fraction string }

func newDecimal(v *big.Rat) (decimal, error) {
	places, exact := v.FloatPrec()
	if !exact || places > maxDigits || v.Num().BitLen() > 4*maxDigits {
		return decimal{}, UnsupportedError(fmt.Sprintf("a number of more than %d digits", maxDigits))
	}
	whole, fraction, _ := strings.Cut(v.FloatString(places), ".")
	return decimal{whole, fraction}, nil
}

// comparison compares with a number. A state is the number of digits read, with those after the point counted from
// fractionAt, and how they compare with the same digits of the number. Once the result is certain, the state no longer
// counts digits.
type comparison struct {
	decimal
	less, equal, more bool // which outcomes are accepted
}

const (
	isLess = iota
	isEqual
	isMore
	fractionAt = 1 << 20
)

func (c comparison) start() int32 { return isEqual }

func (c comparison) digit(q, d int32) int32 {
	read, order := q/4, q%4
	if read >= fractionAt {
		i := int(read - fractionAt)
		if order != isEqual {
			return q
		}
		next := int32(0)
		if i < len(c.fraction) {
			next = int32(c.fraction[i] - '0')
			i++
		}
		return c.settle(int32(fractionAt+i)*4 + compare(d, next))
	}
	i := int(read)
	if i >= len(c.whole) {
		return c.settle(int32(len(c.whole)+1)*4 + isMore)
	}
	if order == isEqual {
		order = compare(d, int32(c.whole[i]-'0'))
	}
	return c.settle(int32(i+1)*4 + order)
}

func compare(a, b int32) int32 {
	switch {
	case a < b:
		return isLess
	case a > b:
		return isMore
	}
	return isEqual
}

// settle merges states that cannot be distinguished, and ends those that cannot be accepted.
func (c comparison) settle(q int32) int32 {
	read, order := q/4, q%4
	inFraction := read >= fractionAt
	certain := order == isMore && (inFraction || int(read) >= len(c.whole)) || order == isLess && inFraction
	switch {
	case certain && (order == isMore && !c.more || order == isLess && !c.less):
		return dead
	case certain && inFraction:
		return fractionAt*4 + order
	case certain:
		return int32(len(c.whole)+1)*4 + order
	}
	return q
}

func (c comparison) point(q int32) int32 {
	read, order := q/4, q%4
	if int(read) < len(c.whole) {
		order = isLess
	}
	return c.settle(fractionAt*4 + order)
}

func (c comparison) accepts(q int32) bool {
	if q/4 < fractionAt {
		q = c.point(q)
		if q == dead {
			return false
		}
	}
	switch read, order := q/4, q%4; {
	case order == isLess, order == isEqual && int(read-fractionAt) < len(c.fraction):
		return c.less
	case order == isEqual:
		return c.equal
	}
	return c.more
}

func (c comparison) zeros(q int32) bool {
	return !c.more && q%4 == isEqual && int(q/4-fractionAt) == len(c.fraction)
}

// exclusion accepts every number that is not in a list. It is the automaton of the list's digits: a trie, with the
// point between the digits before and after it, whose equivalent nodes are merged. So a state takes the same work for a
// long list as for a short one.
type exclusion struct {
	nodes []exclusionNode
	first int32
}

// exclusionNode says where each digit leads and, at [atPoint], the point. It also says whether the number so far is in
// the list.
type exclusionNode struct {
	next     [atPoint + 1]int32
	excluded bool
}

const (
	atPoint = 10
	// notListed is the node of numbers that begin like none in the list. onlyZeros is the node of numbers in the list
	// that can only be followed by zeros after the point.
	notListed, onlyZeros = 0, 1
)

func newExclusion(list []decimal) exclusion {
	const root = onlyZeros + 1
	trie := []exclusionNode{{}, {excluded: true}, {}}
	trie[onlyZeros].next[0] = onlyZeros
	step := func(q, by int32) int32 {
		if trie[q].next[by] == notListed {
			trie[q].next[by] = int32(len(trie))
			trie = append(trie, exclusionNode{})
		}
		return trie[q].next[by]
	}
	var behind []int32 // the nodes behind a point
	for _, d := range list {
		q := int32(root)
		for i := range len(d.whole) {
			q = step(q, int32(d.whole[i]-'0'))
		}
		if d.fraction == "" {
			trie[q].excluded = true
		}
		q = step(q, atPoint)
		behind = append(behind, q)
		for i := range len(d.fraction) {
			q = step(q, int32(d.fraction[i]-'0'))
			behind = append(behind, q)
		}
		trie[q].excluded = true
	}
	slices.Sort(behind) // a node comes after those that lead to it
	for _, q := range behind {
		if !trie[q].excluded {
			continue
		}
		if zero := trie[q].next[0]; zero == notListed {
			trie[q].next[0] = onlyZeros
		} else {
			trie[zero].excluded = true
		}
	}
	// Merge equal nodes, starting with the last, so that the successors of a node are done before it.
	e := exclusion{nodes: slices.Clone(trie[:root])}
	same := map[exclusionNode]int32{trie[notListed]: notListed, trie[onlyZeros]: onlyZeros}
	number := make([]int32, len(trie))
	number[onlyZeros] = onlyZeros
	for q := len(trie) - 1; q >= root; q-- {
		n := trie[q]
		for i, to := range n.next {
			n.next[i] = number[to]
		}
		known, ok := same[n]
		if !ok {
			known = int32(len(e.nodes))
			same[n] = known
			e.nodes = append(e.nodes, n)
		}
		number[q] = known
	}
	e.first = number[root]
	return e
}

func (e exclusion) start() int32           { return e.first }
func (e exclusion) digit(q, d int32) int32 { return e.nodes[q].next[d] }
func (e exclusion) point(q int32) int32    { return e.nodes[q].next[atPoint] }
func (e exclusion) accepts(q int32) bool   { return !e.nodes[q].excluded }
func (e exclusion) zeros(int32) bool       { return false }

// remainder demands a multiple of a modulus divided by 10^places, or a number that is not one. A state holds the class
// of the remainder of the digits, and how many digits come after the point. After all that count, only zeros leave a
// multiple.
type remainder struct {
	modulus, places int32
	not             bool
	class           []int32 // by remainder; what follows treats the remainders of a class alike
	member          []int32 // a remainder of a class
}

func newRemainder(modulus, places int32, not bool) remainder {
	r := remainder{modulus: modulus, places: places, not: not, class: make([]int32, modulus)}
	// Moore's partition refinement: split by acceptance after the point, then by where the digits lead, until nothing
	// changes.
	split := func(key func(rest int32) [11]int32) {
		known := map[[11]int32]int32{}
		next := make([]int32, modulus)
		r.member = r.member[:0]
		for rest := range modulus {
			k := key(rest)
			c, ok := known[k]
			if !ok {
				c = int32(len(known))
				known[k] = c
				r.member = append(r.member, rest)
			}
			next[rest] = c
		}
		r.class = next
	}
	split(func(rest int32) (k [11]int32) {
		for missing := int32(0); missing <= places && rest != 0; missing++ {
			rest = rest * 10 % modulus
			k[0]++
		}
		return k
	})
	for n := 0; n < len(r.member); {
		n = len(r.member)
		split(func(rest int32) (k [11]int32) {
			for d := range int32(10) {
				k[d] = r.class[(rest*10+d)%modulus]
			}
			k[10] = r.class[rest]
			return k
		})
	}
	return r
}

func (r remainder) state(class, behind int32) int32 { return class*(r.places+3) + behind }

// behind is 0 before the point, then one more than the number of digits after it. places+2 means that it is not a
// multiple.
func (r remainder) split(q int32) (class, behind int32) {
	return q / (r.places + 3), q % (r.places + 3)
}

func (r remainder) start() int32 { return r.state(r.class[0], 0) }

func (r remainder) digit(q, d int32) int32 {
	class, behind := r.split(q)
	switch {
	case behind == r.places+2:
		return q
	case behind == r.places+1:
		if d == 0 {
			return q
		}
		if !r.not {
			return dead
		}
		return r.state(0, r.places+2)
	case behind > 0:
		behind++
	}
	return r.state(r.class[(r.member[class]*10+d)%r.modulus], behind)
}

func (r remainder) point(q int32) int32 {
	if r.places == 0 && !r.not && !r.accepts(q) {
		return dead
	}
	return q + 1
}

func (r remainder) accepts(q int32) bool {
	class, behind := r.split(q)
	if behind == r.places+2 {
		return r.not
	}
	rest := r.member[class]
	for range r.places - max(behind-1, 0) {
		rest = rest * 10 % r.modulus
	}
	return (rest == 0) != r.not
}

func (r remainder) zeros(q int32) bool {
	_, behind := r.split(q)
	return !r.not && behind == r.places+1
}

// never is a condition that nothing meets.
type never struct{}

func (never) start() int32             { return dead }
func (never) digit(int32, int32) int32 { return dead }
func (never) point(int32) int32        { return dead }
func (never) accepts(int32) bool       { return false }
func (never) zeros(int32) bool         { return false }
