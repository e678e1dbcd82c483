package grammar

import (
	"slices"

	"runner/backend"
	"runner/grammar/expr"
)

// allowed is what a state admits: plain tokens and other tokens.
type allowed struct {
	plain  *plain
	others []backend.Token
}

// plain is a set of plain tokens. It has all tokens of up to upTo characters, and of the longer ones those in more. The
// tokens in fewer are excluded.
type plain struct {
	upTo        int
	more, fewer []backend.Token
	// mask replaces the other fields if it takes less memory.
	mask backend.Mask
}

// bytes returns the approximate memory of the parts.
func (a *allowed) bytes() int { return 128 + 4*cap(a.others) }
func (p *plain) bytes() int   { return 128 + 4*cap(p.more) + 4*cap(p.fewer) + 8*len(p.mask) }

// fill writes the set into m.
func (v *Vocabulary) fill(m backend.Mask, a *allowed) {
	v.fillPlain(m, a.plain)
	for _, t := range a.others {
		m.Set(t)
	}
}

func (v *Vocabulary) fillPlain(m backend.Mask, p *plain) {
	if p.mask != nil {
		copy(m, p.mask)
		return
	}
	copy(m, v.upTo[p.upTo])
	for _, t := range p.fewer {
		m.Unset(t)
	}
	for _, t := range p.more {
		m.Set(t)
	}
}

// has reports whether t is in the set.
func (v *Vocabulary) has(a *allowed, t backend.Token) bool {
	p := a.plain
	switch {
	case !v.upTo[len(v.upTo)-1].Has(t):
		return slices.Contains(a.others, t)
	case p.mask != nil:
		return p.mask.Has(t)
	case v.upTo[p.upTo].Has(t):
		return !slices.Contains(p.fewer, t)
	}
	return slices.Contains(p.more, t)
}

// task finds out what a state admits. It can stop at any derivative and continue later, see [expr.Set.Within].
type task struct {
	id expr.ID
	// head is the part of id that its plain tokens depend on, or Empty while unknown. plain is the set of those tokens.
	head  expr.ID
	plain *plain
	// slice is the current slice. mostly has looked at the nodes before seen and counted them; then walking is set.
	slice       int
	walking     bool
	seen        int
	free, other int
	// upTo is the length in characters up to which plain tokens are admitted, except those in fewer. whole says that
	// the current slice is admitted in the same way.
	upTo  int
	whole bool
	// spent is the work so far.
	spent int
	// filled is the progress of the task when it last filled an arena.
	filled filled[progress]
}

// progress says how far a task has come.
type progress struct{ slice, seen, at int }

// filled records progress at the moment an arena was full. It shows whether the next arena gets the work further.
type filled[P comparable] struct {
	// moves counts the arenas that the work moved to. last is the progress at the last stop.
	moves, last int
	stopped     bool
	at          P
	// idle counts the arenas in a row that were filled without progress.
	idle int
}

// stop records that an arena is full. It reports whether no arena will be large enough. One full arena proves nothing,
// because others fill it as well.
// fill it, too.
func (f *filled[P]) stop(at P) (hopeless bool) {
	switch {
	case !f.stopped || f.at != at:
		f.idle = 0
	case f.moves > f.last:
		f.idle++
	}
	f.stopped, f.at, f.last = true, at, f.moves
	return f.idle >= 2
}

// walker works on the task of an arena. It needs the arena's lock.
type walker struct {
	arena *arena
	set   *expr.Set
	task
	// at is the next node. stack holds the states before the nodes on the path to it. more and fewer are the results so
	// far.
	// what was found.
	at          int
	stack       [maxDepth + 1]expr.ID
	more, fewer []backend.Token
	// lastFree is the result of run for last.
	last     expr.ID
	lastFree int
}

// progress returns how far the task has come.
func (w *walker) progress() progress { return progress{w.slice, w.seen, w.at} }

// take continues the task and finishes it.
func (w *walker) take(v *Vocabulary) *allowed {
	if w.plain == nil {
		w.plain = w.findPlain(v)
		w.slice, w.walking = rest, false
	}
	s := &v.slices[rest]
	if !w.walking {
		w.more = w.more[:0]
		w.begin(s, 0, w.id)
	}
	w.walk(s, len(s.nodes), false)
	return &allowed{plain: w.plain, others: slices.Clone(w.more)}
}

// findPlain finds the plain tokens that may follow. If what comes after the head of the state starts with no plain
// text, such as the quote that ends a string, they depend only on the head. All strings of a form then share one set.
func (w *walker) findPlain(v *Vocabulary) *plain {
	if w.head == expr.Empty {
		head, tail := w.set.Split(w.id)
		if !w.arena.isOpaque(tail) {
			head = w.id
		}
		w.head = head
	}
	if p, ok := w.arena.plain[w.head]; ok {
		return p
	}
	p := w.walkPlain(v)
	w.arena.plain[w.head] = p
	w.arena.bytes += p.bytes()
	return p
}

func (w *walker) walkPlain(v *Vocabulary) *plain {
	longest := len(v.upTo) - 1
	if n, exact := w.arena.run(w.head); exact || n >= longest {
		return &plain{upTo: min(n, longest)}
	}
	for ; w.slice < rest; w.slice++ {
		s := &v.slices[w.slice]
		if len(s.nodes) == 0 {
			continue
		}
		if !w.walking {
			free := w.freeOf(w.head)
			// A slice can be whole only if all slices before it are.
			whole := (w.slice == 0 || w.upTo == v.slices[w.slice-1].chars) && (free >= s.chars || w.mostly(s))
			if w.seen, w.free, w.other = 0, 0, 0; whole {
				w.upTo = s.chars
			}
			if w.whole = whole; free >= s.chars {
				continue
			}
			w.begin(s, 0, w.head)
		}
		w.walk(s, len(s.nodes), w.whole)
		w.walking = false
	}
	p := &plain{upTo: w.upTo}
	if len(w.more)+len(w.fewer) > v.Len()/32 {
		p.more, p.fewer = w.more, w.fewer
		mask := backend.NewMask(v.Len())
		v.fillPlain(mask, p)
		return &plain{mask: mask}
	}
	p.more, p.fewer = slices.Clone(w.more), slices.Clone(w.fewer)
	return p
}

// mostly reports whether most tokens of a slice of plain text are known to be allowed without a walk.
func (w *walker) mostly(s *slice) bool {
	for w.seen < len(s.nodes) {
		n := &s.nodes[w.seen]
		if d := w.set.Derive(w.head, n.b); d != expr.Empty && w.freeOf(d) >= s.chars {
			w.free += int(n.size)
		} else {
			w.other += int(n.size)
		}
		w.seen += int(n.size)
	}
	return w.free > w.other
}

// freeOf returns how many characters of plain text, whatever they are, certainly may follow in state id.
func (w *walker) freeOf(id expr.ID) int {
	if id != w.last {
		w.lastFree, _ = w.arena.run(id)
		w.last = id
	}
	return w.lastFree
}

// begin prepares a walk that starts at a node in state id.
func (w *walker) begin(s *slice, from int, id expr.ID) {
	w.at, w.walking = from, true
	w.stack[s.nodes[from].depth] = id
}

// nodesPerWork is the number of trie nodes that one unit of work visits when their derivatives are known.
const nodesPerWork = 32

// walk visits the nodes of a trie up to a given node. It records the tokens that are allowed or, if whole is set, those
// that are not.
func (w *walker) walk(s *slice, to int, whole bool) {
	nodes := s.nodes[:to]
	looked := 0
	for i := w.at; i < len(nodes); w.at = i {
		if looked++; looked%nodesPerWork == 0 {
			w.set.Spend(1)
		}
		n := &nodes[i]
		next := w.set.Derive(w.stack[n.depth], n.b)
		if next == expr.Empty {
			if whole {
				w.fewer = tokens(w.fewer, nodes[i:i+int(n.size)])
			}
			i += int(n.size)
			continue
		}
		if n.size > 1 && s.chars > 0 && next != w.stack[n.depth] && w.freeOf(next) >= s.chars {
			if !whole {
				w.more = tokens(w.more, nodes[i:i+int(n.size)])
			}
			i += int(n.size)
			continue
		}
		if n.token != backend.NoToken && !whole {
			w.more = append(w.more, n.token)
		}
		w.stack[n.depth+1] = next
		i++
	}
}

// tokens appends the tokens of the nodes to list.
func tokens(list []backend.Token, nodes []trieNode) []backend.Token {
	for i := range nodes {
		if t := nodes[i].token; t != backend.NoToken {
			list = append(list, t)
		}
	}
	return list
}

// any reports whether any token in the range of nodes can follow state id.
func (w *walker) any(s *slice, from, to int, id expr.ID) bool {
	w.more = w.more[:0]
	w.begin(s, from, id)
	w.walk(s, to, false)
	return len(w.more) > 0
}

// adopt takes over a task from a walker of another arena.
func (w *walker) adopt(old *walker, v *Vocabulary) {
	w.task, w.at = old.task, old.at
	w.filled.moves++
	w.more, w.fewer = append(w.more[:0], old.more...), append(w.fewer[:0], old.fewer...)
	ids := []*expr.ID{&w.id, &w.head}
	if w.walking {
		for d := range v.slices[w.slice].nodes[w.at].depth + 1 {
			w.stack[d] = old.stack[d]
			ids = append(ids, &w.stack[d])
		}
	}
	w.set.Import(old.set, ids...)
}
