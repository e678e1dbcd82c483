package expr

// SetHorizon sets how many bytes ahead the users of Clamp look. Set it before the first Clamp. The default is 256.
func (s *Set) SetHorizon(n int) { s.longest = int32(max(n, 1)) }

// Clamp returns an expression that does not distinguish repetition counts larger than the horizon. It agrees with a on
// all texts of at most the horizon's length, and on which of their prefixes are complete. States that differ only in
// how far away a large bound is then share their results.
func (s *Set) Clamp(a ID) ID {
	if a <= Epsilon {
		return a
	}
	if c := s.nodes[a].clamped; c != 0 {
		return c
	}
	c := s.clamp(a)
	s.nodes[a].clamped = c
	s.nodes[c].clamped = c
	return c
}

func (s *Set) clamp(a ID) ID {
	n := s.nodes[a]
	switch n.kind {
	case repeatKind:
		if n.lo > s.longest || n.hi > s.longest {
			return s.Repeat(ID(n.a), int(min(n.lo, s.longest)), int(min(n.hi, s.longest)))
		}
	case concatKind:
		return s.concat(s.Clamp(ID(n.a)), s.Clamp(ID(n.b)))
	case unionKind:
		base := len(s.stack)
		for i := n.a; i < n.a+n.b; i++ {
			c := s.Clamp(s.lists[i])
			s.pushUnion(c)
		}
		return s.popUnion(base)
	}
	return a
}

// Import replaces expressions of another set by the equal ones of this set.
func (s *Set) Import(from *Set, list ...*ID) {
	done := map[ID]ID{}
	for _, a := range list {
		*a = s.copy(from, *a, done)
	}
}

func (s *Set) copy(from *Set, a ID, done map[ID]ID) ID {
	if a <= Epsilon {
		return a
	}
	if id, ok := done[a]; ok {
		return id
	}
	n := &from.nodes[a]
	part := func(i int32) ID { return s.copy(from, ID(i), done) }
	parts := func() []ID {
		var out []ID
		for _, p := range from.list(n) {
			out = append(out, s.copy(from, p, done))
		}
		return out
	}
	var id ID
	switch n.kind {
	case byteKind:
		id = s.Byte(from.sets[n.a])
	case concatKind:
		id = s.copyConcat(from, a, done)
	case unionKind:
		id = s.Union(parts()...)
	case andKind:
		id = s.And(parts()...)
	case notKind:
		id = s.Not(part(n.a))
	case repeatKind:
		id = s.Repeat(part(n.a), int(n.lo), int(n.hi))
	case wordsKind:
		w := from.words[n.a]
		if s.Words(w); w.Len() == 1 {
			id = s.wordsAt(s.literalIndex[w.list[0]], n.lo, n.hi, n.b)
		} else {
			id = s.wordsAt(s.wordsIndex[w], n.lo, n.hi, n.b)
		}
	case ruleKind:
		id = s.Rule(from.rules[n.a].def)
	case dfaKind:
		id = s.dfaAt(s.automaton(from.automata[n.a]), n.b)
	case countedKind:
		id = s.countedAt(s.automaton(from.automata[n.a]), n.b, n.lo, n.hi)
	}
	done[a] = id
	return id
}

// copyConcat copies a stack without recursion, because stacks may be deep.
func (s *Set) copyConcat(from *Set, a ID, done map[ID]ID) ID {
	var heads []ID
	for from.nodes[a].kind == concatKind {
		heads = append(heads, ID(from.nodes[a].a))
		a = ID(from.nodes[a].b)
	}
	id := s.copy(from, a, done)
	for i := len(heads) - 1; i >= 0; i-- {
		id = s.concat(s.copy(from, heads[i], done), id)
	}
	return id
}

// Split returns the first part of a concatenation and the rest. The parts of any other expression are itself and
// Epsilon.
func (s *Set) Split(a ID) (head, tail ID) {
	if n := s.nodes[a]; n.kind == concatKind {
		return ID(n.a), ID(n.b)
	}
	return a, Epsilon
}

// Run is a repetition at the start of an expression.
type Run struct {
	// Part is the repeated expression. Times is how often it certainly may be repeated, or 0 without a repetition.
	Part  ID
	Times int32
	// Alone says that the only alternative to the repetition is what comes after it.
	Alone bool
}

// Run returns the repetition at the start of a, or the largest one among its alternatives. It considers only repeated
// parts for which covers returns true. Results are kept, because alternatives may share much of their beginnings, so
// covers must always give the same answer.
func (s *Set) Run(a ID, covers func(ID) bool) Run {
	n := s.nodes[a]
	switch n.kind {
	case repeatKind:
		switch {
		case !covers(ID(n.a)):
			return Run{}
		case n.hi < 0:
			return Run{ID(n.a), 1 << 30, true}
		}
		return Run{ID(n.a), n.hi, true}
	case concatKind, unionKind:
		if int(a) < len(s.runs) && s.runs[a].Times != unset {
			return s.runs[a]
		}
		r := s.findRun(n, covers)
		for len(s.runs) <= int(a) {
			s.runs = append(s.runs, Run{Times: unset})
		}
		s.runs[a] = r
		return r
	}
	return Run{}
}

func (s *Set) findRun(n node, covers func(ID) bool) (most Run) {
	if n.kind == concatKind {
		return s.Run(ID(n.a), covers)
	}
	for i := n.a; i < n.a+n.b; i++ {
		if r := s.Run(s.lists[i], covers); r.Times > most.Times {
			most = r
		}
	}
	most.Alone = false
	return most
}
