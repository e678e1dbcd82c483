package grammar

import (
	"runner/backend"
	"runner/grammar/expr"
)

// allowed is what a state admits: whole slices, and beyond them tokens more and tokens fewer.
type allowed struct {
	whole [rest]bool
	more  []backend.Token
	fewer []backend.Token
	// mask replaces more and fewer where they would take more room.
	mask backend.Mask
}

func (a *allowed) bytes() int { return 64 + 4*cap(a.more) + 4*cap(a.fewer) + 8*len(a.mask) }

// fill writes the set into m.
func (v *Vocabulary) fill(m backend.Mask, a *allowed) {
	if a.mask != nil {
		copy(m, a.mask)
		return
	}
	if a.whole == [rest]bool{true, true, true} {
		copy(m, v.dense)
	} else {
		m.Clear()
		for i, whole := range a.whole {
			if whole {
				for w, bits := range v.slices[i].tokens {
					m[w] |= bits
				}
			}
		}
	}
	for _, t := range a.fewer {
		m.Unset(t)
	}
	for _, t := range a.more {
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

// admit works out what may follow in state id.
func (w *walker) admit(v *Vocabulary, id expr.ID) *allowed {
	w.more, w.fewer = w.more[:0], w.fewer[:0]
	out := &allowed{}
	for i := range v.slices {
		s := &v.slices[i]
		if i == rest {
			w.walk(s, 0, len(s.nodes), id, false)
			continue
		}
		if s.count == 0 {
			continue
		}
		if w.free(id) >= s.chars {
			out.whole[i] = true
			continue
		}
		out.whole[i] = w.mostly(s, id)
		w.walk(s, 0, len(s.nodes), id, out.whole[i])
	}
	if len(w.more)+len(w.fewer) > v.Len()/16 {
		list := *out
		list.more, list.fewer = w.more, w.fewer
		mask := backend.NewMask(v.Len())
		v.fill(mask, &list)
		return &allowed{mask: mask}
	}
	out.more = append([]backend.Token(nil), w.more...)
	out.fewer = append([]backend.Token(nil), w.fewer...)
	return out
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
		w.last, w.lastFree = id, w.set.Run(id, w.arena.plain)
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
				w.fewer = below(w.fewer, nodes[i:i+int(n.size)])
			}
			i += int(n.size)
			continue
		}
		if n.size > 1 && s.chars > 0 && next != w.stack[n.depth] && w.free(next) >= s.chars {
			if !whole {
				w.more = below(w.more, nodes[i:i+int(n.size)])
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

// below appends the tokens of the nodes to list.
func below(list []backend.Token, nodes []trieNode) []backend.Token {
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
