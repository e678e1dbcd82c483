package expr

// Nullable reports whether a matches the empty text, so a match that reached a is complete.
func (s *Set) Nullable(a ID) bool {
	switch s.nodes[a].nullable {
	case yes:
		return true
	case no, asking:
		return false
	}
	s.nodes[a].nullable = asking
	t := no
	if s.nullable(a) {
		t = yes
	}
	s.nodes[a].nullable = t
	return t == yes
}

func (s *Set) nullable(a ID) bool {
	n := s.nodes[a]
	switch n.kind {
	case concatKind:
		return s.Nullable(ID(n.a)) && s.Nullable(ID(n.b))
	case unionKind:
		for i := n.a; i < n.a+n.b; i++ {
			if s.Nullable(s.lists[i]) {
				return true
			}
		}
		return false
	case andKind:
		for i := n.a; i < n.a+n.b; i++ {
			if !s.Nullable(s.lists[i]) {
				return false
			}
		}
		return true
	case notKind:
		return !s.Nullable(ID(n.a))
	case repeatKind:
		return n.lo == 0 || s.Nullable(ID(n.a))
	case wordsKind:
		return len(s.words[n.a].list[n.lo]) == int(n.b)
	case ruleKind:
		return s.Nullable(s.body(n.a))
	case dfaKind:
		return s.automata[n.a].accepts(n.b)
	case countedKind:
		return n.lo <= 0 && s.automata[n.a].accepts(n.b)
	}
	return false
}

// Derive returns the expression of everything that may follow b in a.
func (s *Set) Derive(a ID, b byte) ID {
	d := s.rows[s.row[a]|int32(b)]
	if d < 0 {
		d = s.deriveNew(a, b)
	}
	return d
}

// deriveNew computes a derivative. It keeps it if a was asked often enough.
func (s *Set) deriveNew(a ID, b byte) ID {
	if a <= Epsilon {
		return Empty
	}
	// One call may reach a node on many paths.
	if n := &s.nodes[a]; n.lastD != unset && n.lastB == b {
		return n.lastD
	}
	if s.work <= 0 || s.Bytes() > s.room {
		panic(interrupted{})
	}
	d := s.derivative(a, b)
	s.work--
	s.nodes[a].lastB, s.nodes[a].lastD = b, d
	if s.row[a] == 0 {
		if s.nodes[a].asked++; s.nodes[a].asked < rowAfter {
			return d
		}
		s.addRow(a)
	}
	s.rows[s.row[a]+int32(b)] = d
	return d
}

func (s *Set) addRow(a ID) {
	s.nodes[a].asked = 0
	if len(s.rows) >= maxRows<<8 {
		clear(s.row)
		s.rows = s.rows[:256]
	}
	at := len(s.rows)
	if cap(s.rows) < at+256 {
		rows := make([]ID, at, 2*cap(s.rows))
		copy(rows, s.rows)
		s.rows = rows
	}
	s.rows = s.rows[:at+256]
	for i := range s.rows[at:] {
		s.rows[at+i] = unset
	}
	s.row[a] = int32(at)
}

func (s *Set) derivative(a ID, b byte) ID {
	n := s.nodes[a]
	switch n.kind {
	case byteKind:
		if s.sets[n.a].Has(b) {
			return Epsilon
		}
	case concatKind:
		return s.deriveConcat(a, b)
	case unionKind:
		base := len(s.stack)
		for i := n.a; i < n.a+n.b; i++ {
			d := s.Derive(s.lists[i], b)
			s.pushUnion(d)
		}
		return s.popUnion(base)
	case repeatKind:
		d := s.Derive(ID(n.a), b)
		if d == Empty {
			return Empty
		}
		return s.concat(d, s.Repeat(ID(n.a), int(n.lo)-1, max(int(n.hi)-1, -1)))
	case wordsKind:
		lo, hi := s.words[n.a].narrow(n.lo, n.hi, n.b, b)
		return s.wordsAt(n.a, lo, hi, n.b+1)
	case ruleKind:
		return s.Derive(s.body(n.a), b)
	case dfaKind:
		return s.dfaAt(n.a, s.automata[n.a].step(n.b, b))
	case countedKind:
		return s.deriveCounted(&n, b)
	case andKind:
		base := len(s.stack)
		for i := n.a; i < n.a+n.b; i++ {
			d := s.Derive(s.lists[i], b)
			if d == Empty {
				s.stack = s.stack[:base]
				return Empty
			}
			s.pushAnd(d)
		}
		return s.popAnd(base)
	case notKind:
		return s.Not(s.Derive(ID(n.a), b))
	}
	return Empty
}

// deriveConcat derives all leading parts that can be empty at once. One after the other, each would copy the
// alternatives of the parts behind it.
func (s *Set) deriveConcat(a ID, b byte) ID {
	base := len(s.stack)
	for {
		n := s.nodes[a]
		if n.kind != concatKind {
			s.pushUnion(s.Derive(a, b))
			break
		}
		s.pushUnion(s.concat(s.Derive(ID(n.a), b), ID(n.b)))
		if !s.Nullable(ID(n.a)) {
			break
		}
		a = ID(n.b)
		s.work--
	}
	return s.popUnion(base)
}

func (s *Set) deriveCounted(n *node, b byte) ID {
	a := s.automata[n.a]
	q := a.step(n.b, b)
	if q < 0 {
		return Empty
	}
	lo, hi := n.lo, n.hi
	if a.ends(q) {
		lo--
		if hi == 0 {
			return Empty
		}
		if hi > 0 {
			hi--
		}
	}
	return s.countedAt(n.a, q, lo, hi)
}

// Match reports whether a matches text from start to end.
func (s *Set) Match(a ID, text string) bool {
	for i := range len(text) {
		if a = s.Derive(a, text[i]); a == Empty {
			return false
		}
	}
	return s.Nullable(a)
}

// Forced returns the only byte that can come next in a. It reports false if a is complete, or if there are several or
// none.
func (s *Set) Forced(a ID) (byte, bool) {
	if s.Nullable(a) {
		return 0, false
	}
	n := s.nodes[a]
	switch n.kind {
	case concatKind:
		if s.nodes[n.a].kind == wordsKind && !s.Nullable(ID(n.a)) {
			return s.Forced(ID(n.a))
		}
	case wordsKind:
		w := s.words[n.a].list
		first := w[n.lo][n.b]
		return first, w[n.hi-1][n.b] == first
	}
	found, only := false, byte(0)
	for b := range 256 {
		if s.Derive(a, byte(b)) == Empty {
			continue
		}
		if found {
			return 0, false
		}
		found, only = true, byte(b)
	}
	return only, found
}
