package grammar

import (
	"slices"

	"runner/backend"
	"runner/grammar/expr"
)

// allowed is what a state admits: plain tokens and others.
type allowed struct {
	plain  *plain
	others []backend.Token
}

// plain is a set of plain tokens: those of at most upTo characters, beyond them tokens more, and tokens fewer.
type plain struct {
	upTo        int
	more, fewer []backend.Token
	// mask replaces the rest where it takes less room.
	mask backend.Mask
}

// bytes is about how much memory the parts take.
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

// walker finds out what a state admits. It holds the arena's lock.
type walker struct {
	arena *arena
	set   *expr.Set
	stack [maxDepth + 1]expr.ID
	// lastFree is what free said of last.
	last     expr.ID
	lastFree int
	// more and fewer collect tokens; they are reused.
	more, fewer []backend.Token
}

// others works out which tokens that are not plain may follow in state id.
func (w *walker) others(v *Vocabulary, id expr.ID) []backend.Token {
	w.more = w.more[:0]
	s := &v.slices[rest]
	w.walk(s, 0, len(s.nodes), id, false)
	return slices.Clone(w.more)
}

// plain works out which plain tokens may follow in state id.
func (w *walker) plain(v *Vocabulary, id expr.ID) *plain {
	longest := len(v.upTo) - 1
	if n, exact := w.arena.run(id); exact || n >= longest {
		return &plain{upTo: min(n, longest)}
	}
	w.more, w.fewer = w.more[:0], w.fewer[:0]
	p := &plain{}
	for i := range v.slices[:rest] {
		s := &v.slices[i]
		if len(s.nodes) == 0 {
			continue
		}
		// The slices before this one are whole, or nothing of them is.
		whole := (i == 0 || p.upTo == v.slices[i-1].chars) && (w.free(id) >= s.chars || w.mostly(s, id))
		if whole {
			p.upTo = s.chars
		}
		if w.free(id) < s.chars {
			w.walk(s, 0, len(s.nodes), id, whole)
		}
	}
	if len(w.more)+len(w.fewer) > v.Len()/32 {
		p.more, p.fewer = w.more, w.fewer
		mask := backend.NewMask(v.Len())
		v.fillPlain(mask, p)
		return &plain{mask: mask}
	}
	p.more, p.fewer = slices.Clone(w.more), slices.Clone(w.fewer)
	return p
}

// mostly reports whether more tokens of a slice of plain text are known at once to be allowed than not.
func (w *walker) mostly(s *slice, id expr.ID) bool {
	free, other := 0, 0
	for at := 0; at < len(s.nodes); at += int(s.nodes[at].size) {
		n := &s.nodes[at]
		if d := w.set.Derive(id, n.b); d != expr.Empty && w.free(d) >= s.chars {
			free += int(n.size)
		} else {
			other += int(n.size)
		}
	}
	return free > other
}

// free returns how many characters of plain text, whatever they are, may follow in state id for certain.
func (w *walker) free(id expr.ID) int {
	if id != w.last {
		w.last = id
		w.lastFree, _ = w.arena.run(id)
	}
	return w.lastFree
}

// walk goes through the nodes [from, to) of a trie, the first of which follows state id. Where whole is false it notes the
// tokens that are allowed, otherwise those that are not.
func (w *walker) walk(s *slice, from, to int, id expr.ID, whole bool) {
	if from >= to {
		return
	}
	nodes := s.nodes[:to]
	base := nodes[from].depth
	w.stack[base] = id
	for i := from; i < len(nodes); {
		n := &nodes[i]
		next := w.set.Derive(w.stack[n.depth], n.b)
		if next == expr.Empty {
			if whole {
				w.fewer = tokens(w.fewer, nodes[i:i+int(n.size)])
			}
			i += int(n.size)
			continue
		}
		if n.size > 1 && s.chars > 0 && next != w.stack[n.depth] && w.free(next) >= s.chars {
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

// any reports whether a token in the range of nodes can follow state id.
func (w *walker) any(s *slice, from, to int, id expr.ID) bool {
	w.more = w.more[:0]
	w.walk(s, from, to, id, false)
	return len(w.more) > 0
}
