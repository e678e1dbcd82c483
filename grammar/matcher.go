package grammar

import (
	"fmt"

	"runner/backend"
	"runner/grammar/expr"
	"runner/hint"
)

// Matcher follows one text. It implements [backend.Constraint].
//
// Finding out what a state admits can take long. A caller that cannot wait calls [Matcher.Prepare] before Allows, Fill
// and Accept, as often as needed. Those three are then look-ups, and the other methods do little. Without Prepare they
// do all the work themselves.
type Matcher struct {
	grammar *Grammar
	arena   *arena
	at      expr.ID
	// unfed is the end of the accepted text that at does not include yet.
	unfed string
	// mask is what may come next, once it is prepared. spent is the work that it took.
	mask  *allowed
	spent int
	// filled is the length of unfed when feeding it last filled an arena.
	filled filled[int]
	// accepted is the number of tokens accepted so far.
	accepted int
}

// lock locks and returns the arena of m. It first moves m to the grammar's newest arena.
func (m *Matcher) lock() *arena {
	now := m.grammar.arena()
	if old := m.arena; old != now {
		old.mu.Lock()
		now.mu.Lock()
		now.set.Import(old.set, &m.at)
		m.filled.moves++
		if old.walker.id != expr.Empty && now.walker.id == expr.Empty {
			now.walker.adopt(&old.walker, m.grammar.vocab)
			old.walker.task = task{}
		}
		old.mu.Unlock()
		m.arena = now
		return now
	}
	now.mu.Lock()
	return now
}

// settle feeds the rest of the accepted text.
func (m *Matcher) settle(a *arena) {
	for m.unfed != "" {
		m.at = a.set.Derive(m.at, m.unfed[0])
		m.unfed = m.unfed[1:]
	}
}

// settled is lock followed by settle.
func (m *Matcher) settled() *arena {
	a := m.lock()
	m.settle(a)
	return a
}

// How much work a matcher may do in one call of Accept or Forced, and for one mask. The units are those of
// [expr.Set.Within].
const (
	acceptWork = 10_000
	forcedWork = 10_000
	maxWork    = 20_000_000
)

// ErrTooCostly says that a mask takes more work or memory than allowed.
var ErrTooCostly = hint.New("the form is too costly to follow",
	"make it less ambiguous: avoid counted repetitions and many alternatives after parts that can match the same text")

// Prepare finds out what may come next, within a budget, which must be positive. A unit is about a tenth of a
// microsecond. It returns the work done, which can exceed the budget a little, and whether it finished. If not, the
// next call continues. The only error is an [ErrTooCostly], which says
// after how many tokens.
func (m *Matcher) Prepare(work int) (used int, ready bool, err error) {
	for m.mask == nil {
		if used >= work {
			return used, false, nil
		}
		n, err := m.prepare(work - used)
		if used += n; err != nil {
			return used, false, err
		}
	}
	return used, true, nil
}

// prepare is one attempt of Prepare, in one arena.
func (m *Matcher) prepare(work int) (used int, err error) {
	a := m.lock()
	used, end := a.set.Within(work, a.room(), func() {
		m.settle(a)
		m.mask = a.admits(m.grammar.vocab, m.at)
	})
	open := a.walker.id != expr.Empty
	own := !open || m.unfed == "" && a.walker.id == a.set.Clamp(m.at)
	costly := false
	if own {
		m.spent += used
		costly = m.spent > maxWork
	}
	if end == expr.OutOfRoom && !open {
		costly = m.filled.stop(len(m.unfed)) || costly
	}
	if open {
		t := &a.walker.task
		t.spent += used
		drop := t.spent > maxWork
		if end == expr.OutOfRoom {
			drop = t.filled.stop(a.walker.progress()) || drop
		}
		if drop {
			costly = costly || own
			*t = task{}
		}
	}
	a.mu.Unlock()
	if costly {
		return used, fmt.Errorf("%w, after %d tokens", ErrTooCostly, m.accepted)
	}
	if end == expr.OutOfRoom {
		used += m.grammar.renew(a).base / bytesPerWork
	}
	return used, nil
}

// bytesPerWork is about how many bytes of an arena one unit of work fills.
const bytesPerWork = 64

// Grammar returns the grammar that m follows.
func (m *Matcher) Grammar() *Grammar { return m.grammar }

// Allows reports whether t may come next.
func (m *Matcher) Allows(t backend.Token) bool {
	if m.mask != nil {
		return m.grammar.vocab.has(m.mask, t)
	}
	a := m.settled()
	defer a.mu.Unlock()
	return a.feed(m.grammar.vocab, m.at, t) != expr.Empty
}

// Fill sets the bit of every token that may come next and clears all others. It sets none if the text is complete and
// nothing can follow.
func (m *Matcher) Fill(mask backend.Mask) {
	if m.mask != nil {
		m.grammar.vocab.fill(mask, m.mask)
		return
	}
	a := m.settled()
	defer a.mu.Unlock()
	m.grammar.vocab.fill(mask, a.admits(m.grammar.vocab, m.at))
}

// Accept advances by t and reports whether t was allowed. If not, nothing changes.
func (m *Matcher) Accept(t backend.Token) bool {
	v := m.grammar.vocab
	if m.mask == nil {
		return v.vocab.Valid(t) && isText(v.vocab, t) && m.AcceptText(v.vocab.Piece(t))
	}
	if !v.has(m.mask, t) {
		return false
	}
	m.unfed = v.vocab.Piece(t)
	m.accepted++
	a := m.lock()
	a.set.Within(acceptWork, a.room(), func() { m.settle(a) })
	m.moveOn(a)
	return true
}

// AcceptText advances by bytes, as if by one token, and reports whether they were allowed. If not, nothing changes.
func (m *Matcher) AcceptText(text string) bool {
	a := m.settled()
	next := a.feedText(m.at, text)
	if next == expr.Empty {
		a.mu.Unlock()
		return false
	}
	m.accepted++
	m.at = next
	m.moveOn(a)
	return true
}

// moveOn drops what was known about the last state and unlocks the arena. It replaces an arena that is full.
func (m *Matcher) moveOn(a *arena) {
	m.mask, m.spent, m.filled = nil, 0, filled[int]{}
	full := a.full()
	a.mu.Unlock()
	if full {
		m.grammar.renew(a)
	}
}

// Done reports whether the text may end here.
func (m *Matcher) Done() bool {
	a := m.settled()
	defer a.mu.Unlock()
	return a.set.Nullable(m.at)
}

// Over reports whether the text must end here: it is complete and nothing can follow. Without Prepare it may report
// false.
func (m *Matcher) Over() bool { return m.at == expr.Epsilon && m.unfed == "" }

// Accepted returns the number of tokens accepted so far.
func (m *Matcher) Accepted() int { return m.accepted }

// Clone returns an independent matcher at the same place.
func (m *Matcher) Clone() *Matcher {
	c := *m
	return &c
}

// maxForced is the maximum number of bytes that Forced looks ahead.
const maxForced = 256

// Forced appends to dst the tokens that must come next because no other text can. They are split as the model's
// tokenizer would split them. It leaves out the last ones if following text could lengthen them to other tokens. It
// returns dst unchanged if there are none, or if the search takes too long.
func (m *Matcher) Forced(dst []backend.Token) []backend.Token {
	if m.grammar.vocab.tokenize == nil || m.unfed != "" {
		return dst
	}
	a := m.lock()
	defer a.mu.Unlock()
	out := dst
	_, end := a.set.Within(forcedWork, a.room(), func() { out = a.forced(m.grammar.vocab, m.at, dst) })
	if end != expr.Finished {
		return dst
	}
	return out
}

// forced appends the tokens that must follow state from to dst.
func (a *arena) forced(v *Vocabulary, from expr.ID, dst []backend.Token) []backend.Token {
	var buf [maxForced]byte
	id, n := from, 0
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
		if at < 0 || a.feed(v, from, out[i]) == expr.Empty && i == old {
			return dst[:old]
		}
		if !isText(v.vocab, out[i]) || a.probe.lengthens(v, text[at:], id) {
			keep = i
		}
	}
	return out[:keep]
}

// lengthens reports whether some token starts with text and continues as state id allows.
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
