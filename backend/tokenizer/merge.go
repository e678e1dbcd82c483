package tokenizer

import (
	"math"
	"slices"

	"runner/backend"
)

// pairs holds the merges: a hash table with linear probing from two adjacent tokens to the token that replaces
// them.
type pairs struct {
	table []pair // its length is a power of two; less than half full
	shift uint
	n     int
}

type pair struct {
	key  uint64 // left and right token; noPair in an empty slot
	rank int32
	id   backend.Token
}

const noPair = math.MaxUint64

func newPairs(n int) pairs {
	p := pairs{shift: 63}
	for 1<<(64-p.shift) < 2*n+2 {
		p.shift--
	}
	p.table = make([]pair, 1<<(64-p.shift))
	for i := range p.table {
		p.table[i].key = noPair
	}
	return p
}

// slot returns the index of the key, or of the empty slot where it belongs.
func (p *pairs) slot(key uint64) *pair {
	mask := uint64(len(p.table) - 1)
	for i := key * 0x9e3779b97f4a7c15 >> p.shift; ; i++ {
		if e := &p.table[i&mask]; e.key == key || e.key == noPair {
			return e
		}
	}
}

func key(left, right backend.Token) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// add enters a merge. Of two equal merges the first counts.
func (p *pairs) add(left, right backend.Token, rank int32, id backend.Token) {
	e := p.slot(key(left, right))
	if e.key != noPair {
		return
	}
	*e = pair{key(left, right), rank, id}
	if p.n++; 2*p.n > len(p.table) {
		old := p.table
		*p = newPairs(2 * p.n)
		for _, e := range old {
			if e.key != noPair {
				*p.slot(e.key) = e
				p.n++
			}
		}
	}
}

// find returns the rank of a merge and its token; none if there is no such merge.
func (p *pairs) find(left, right backend.Token) (rank int32, id backend.Token) {
	e := p.slot(key(left, right))
	if e.key == noPair {
		return none, backend.NoToken
	}
	return e.rank, e.id
}

// none is the rank of a missing merge.
const none = math.MaxInt32

// short is the longest word, in tokens, for which checking every pair is faster than a queue.
const short = 48

// apply merges the tokens of a word in place: the pair of lowest rank first, the leftmost among equals, until no
// pair can be merged. It returns how many tokens remain at the start of ids.
func (p *pairs) apply(ids []backend.Token, s *scratch) int {
	if len(ids) > short {
		return p.applyQueue(ids, s)
	}
	type next struct {
		rank int32
		id   backend.Token
	}
	var pairs [short]next
	n := len(ids)
	for i := range n - 1 {
		pairs[i].rank, pairs[i].id = p.find(ids[i], ids[i+1])
	}
	for {
		best, at := int32(none), 0
		for i, x := range pairs[:n-1] {
			if x.rank < best {
				best, at = x.rank, i
			}
		}
		if best == none {
			return n
		}
		ids[at] = pairs[at].id
		copy(ids[at+1:n-1], ids[at+2:n])
		copy(pairs[at:n-2], pairs[at+1:n-1])
		n--
		if at > 0 {
			pairs[at-1].rank, pairs[at-1].id = p.find(ids[at-1], ids[at])
		}
		if at < n-1 {
			pairs[at].rank, pairs[at].id = p.find(ids[at], ids[at+1])
		}
	}
}

// scratch is the memory of one Encode.
type scratch struct {
	links []link
	queue []candidate
}

// link is a token's neighbours in a list over the word; next is -1 at the end.
type link struct{ prev, next int32 }

// candidate is a merge that was possible when it was queued.
type candidate struct {
	rank        int32
	at          int32 // of the left token
	left, right backend.Token
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.at < b.at
}

// applyQueue is apply for long words. It keeps a linked list, and a heap of possible merges in which outdated ones
// stay until they are popped. It takes O(n log n) time.
func (p *pairs) applyQueue(ids []backend.Token, s *scratch) int {
	n := int32(len(ids))
	// Allocate at once: a word may be most of a request, and growing step by step would hold a multiple of the
	// memory needed.
	s.queue, s.links = slices.Grow(s.queue[:0], len(ids)), slices.Grow(s.links[:0], len(ids))
	for i := range n {
		s.links = append(s.links, link{i - 1, i + 1})
	}
	s.links[n-1].next = -1
	for i := range n - 1 {
		s.consider(p, ids, i, i+1)
	}
	for len(s.queue) > 0 {
		c := s.pop()
		right := s.links[c.at].next
		if ids[c.at] != c.left || right < 0 || ids[right] != c.right {
			continue // one of them has been merged since
		}
		_, ids[c.at] = p.find(c.left, c.right)
		ids[right] = backend.NoToken
		next := s.links[right].next
		s.links[c.at].next = next
		if next >= 0 {
			s.links[next].prev = c.at
			s.consider(p, ids, c.at, next)
		}
		if prev := s.links[c.at].prev; prev >= 0 {
			s.consider(p, ids, prev, c.at)
		}
	}
	kept := 0
	for i := int32(0); i >= 0; i = s.links[i].next {
		ids[kept] = ids[i]
		kept++
	}
	if cap(s.queue) > 1<<16 { // do not keep the memory of one huge word
		*s = scratch{}
	}
	return kept
}

// consider queues the merge of two adjacent tokens, if there is one.
func (s *scratch) consider(p *pairs, ids []backend.Token, left, right int32) {
	rank, _ := p.find(ids[left], ids[right])
	if rank == none {
		return
	}
	s.queue = append(s.queue, candidate{rank, left, ids[left], ids[right]})
	q := s.queue
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

// pop removes the first candidate.
func (s *scratch) pop() candidate {
	q := s.queue
	first := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && q[down+1].before(q[down]) {
			down++
		}
		if !q[down].before(q[i]) {
			break
		}
		q[i], q[down] = q[down], q[i]
		i = down
	}
	s.queue = q
	return first
}
