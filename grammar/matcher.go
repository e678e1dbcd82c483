package grammar

import (
	"runner/backend"
	"runner/grammar/expr"
)

// Matcher follows one text. It implements [backend.Constraint].
type Matcher struct {
	grammar *Grammar
	at      place
	// past holds the places before the last accepted tokens.
	past     []place
	accepted int
}

// place is a state of an arena.
type place struct {
	arena *arena
	id    expr.ID
}

// lock returns the arena that m is in, locked. It moves m first if the grammar has another by now.
func (m *Matcher) lock() *arena {
	now := m.grammar.arena()
	if m.at.arena != now {
		old := m.at
		old.arena.mu.Lock()
		now.mu.Lock()
		m.at = place{now, now.set.Import(old.arena.set, old.id)}
		old.arena.mu.Unlock()
		return now
	}
	now.mu.Lock()
	return now
}

// Allows reports whether t may come next.
func (m *Matcher) Allows(t backend.Token) bool {
	a := m.lock()
	defer a.mu.Unlock()
	return a.feed(m.grammar.vocab, m.at.id, t) != expr.Empty
}

// Fill sets the bit of every token that may come next and clears all others. It sets none when the text is complete
// and nothing can follow.
func (m *Matcher) Fill(mask backend.Mask) {
	a := m.lock()
	defer a.mu.Unlock()
	m.grammar.vocab.fill(mask, a.admits(m.grammar.vocab, m.at.id))
}

// Accept moves on by t and reports whether it was allowed; if not, nothing changes.
func (m *Matcher) Accept(t backend.Token) bool {
	a := m.lock()
	next := a.feed(m.grammar.vocab, m.at.id, t)
	full := a.full()
	a.mu.Unlock()
	return m.move(a, next, full)
}

// move goes on to a state of arena a, unless it is empty. full says that the arena has grown too large.
func (m *Matcher) move(a *arena, next expr.ID, full bool) bool {
	if next == expr.Empty {
		return false
	}
	if len(m.past) == 2*MaxRollback {
		// What lies further back would keep old arenas alive.
		n := copy(m.past, m.past[MaxRollback:])
		clear(m.past[n:])
		m.past = m.past[:n]
	}
	m.past = append(m.past, m.at)
	m.accepted++
	m.at.id = next
	if full {
		m.grammar.renew(a)
	}
	return true
}

// Done reports whether the text may end here.
func (m *Matcher) Done() bool {
	a := m.lock()
	defer a.mu.Unlock()
	return a.set.Nullable(m.at.id)
}

// Over reports whether the text must end here: it is complete and nothing can follow.
func (m *Matcher) Over() bool { return m.at.id == expr.Epsilon }

// Accepted returns the number of tokens accepted so far.
func (m *Matcher) Accepted() int { return m.accepted }

// MaxRollback is how many tokens can be taken back at least.
const MaxRollback = 256

// Rollback takes the last n accepted tokens back, at most as many as are remembered: all, or the last MaxRollback or more. It returns
// how many it took back.
func (m *Matcher) Rollback(n int) int {
	if n = max(0, min(n, len(m.past))); n > 0 {
		m.at = m.past[len(m.past)-n]
		clear(m.past[len(m.past)-n:])
		m.past = m.past[:len(m.past)-n]
		m.accepted -= n
	}
	return n
}

// Clone returns a matcher at the same place that goes its own way.
func (m *Matcher) Clone() *Matcher {
	c := *m
	c.past = append([]place(nil), m.past...)
	return &c
}

// maxForced is the most bytes that Forced looks ahead.
const maxForced = 256

// Forced appends to dst the tokens that must come next, because no other text can, cut as the model's tokenizer would cut
// them. The last of them are left out where the text that follows could lengthen them to other tokens.
// It returns dst unchanged when there are none.
func (m *Matcher) Forced(dst []backend.Token) []backend.Token {
	v := m.grammar.vocab
	if v.tokenize == nil {
		return dst
	}
	a := m.lock()
	defer a.mu.Unlock()
	var buf [maxForced]byte
	id, n := m.at.id, 0
	for n < len(buf) {
		b, ok := a.set.Forced(id)
		if !ok {
			break
		}
		buf[n] = b
		n++
		id = a.set.Derive(id, b)
	}
	if n == 0 {
		return dst
	}
	old := len(dst)
	text := string(buf[:n])
	out, err := v.tokenize(dst, text)
	if err != nil {
		return dst[:old]
	}
	keep, at := len(out), n
	for i := len(out) - 1; i >= old; i-- {
		at -= len(v.vocab.Piece(out[i]))
		if at < 0 || a.feed(v, m.at.id, out[i]) == expr.Empty && i == old {
			return dst[:old]
		}
		if a.walker.lengthens(v, text[at:], id) {
			keep = i
		}
	}
	return out[:keep]
}

// lengthens reports whether a token begins with text and goes on as state id allows.
func (w *walker) lengthens(v *Vocabulary, text string, id expr.ID) bool {
	if len(text) >= v.longest {
		return false
	}
	for i := range v.slices {
		s := &v.slices[i]
		if from, to := s.find(text); from < to && w.any(s, from, to, id) {
			return true
		}
	}
	return false
}
