package grammar

import (
	"errors"
	"fmt"

	"runner/backend"
	"runner/grammar/expr"
)

// Matcher follows one text. It implements [backend.Constraint].
//
// What a state admits can take long to find out. Whoever cannot wait calls [Matcher.Prepare] before Allows, Fill
// and Accept, as often as it takes; then these are look-ups and the other methods do little, too. Without it they
// do the work themselves, all of it.
type Matcher struct {
	grammar *Grammar
	arena   *arena
	at      expr.ID
	// unfed is the end of the accepted text, which at has not been fed yet.
	unfed string
	// mask is what may come next, once it is prepared, and spent the work that was done for it.
	mask  *allowed
	spent int
	// filled says how long unfed was when feeding it last filled an arena.
	filled filled[int]
	// past holds the last accepted tokens' bytes; base is the state before them and mid that before number MaxRollback.
	past      []string
	base, mid expr.ID
	accepted  int
}

// lock returns the arena that m is in, locked. It moves m first if the grammar has another by now.
func (m *Matcher) lock() *arena {
	now := m.grammar.arena()
	if old := m.arena; old != now {
		old.mu.Lock()
		now.mu.Lock()
		now.set.Import(old.set, &m.at, &m.base, &m.mid)
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

// settle feeds what is left of the accepted text.
func (m *Matcher) settle(a *arena) {
	for m.unfed != "" {
		m.at = a.set.Derive(m.at, m.unfed[0])
		m.unfed = m.unfed[1:]
	}
}

// settled is lock and settle.
func (m *Matcher) settled() *arena {
	a := m.lock()
	m.settle(a)
	return a
}

// The work that a matcher may do in one call of Accept or Forced, and for one mask. The units are those of
// [expr.Set.Within].
const (
	acceptWork = 10_000
	forcedWork = 10_000
	maxWork    = 20_000_000
)

// ErrTooCostly says that finding out what a text may go on with takes more work or memory than it may.
var ErrTooCostly = errors.New("the form is too costly to follow")

// CostError is an [ErrTooCostly] with its place.
type CostError struct {
	// Accepted is how many tokens were accepted before.
	Accepted int
}

func (e *CostError) Error() string {
	return fmt.Sprintf("%v, after %d tokens", ErrTooCostly, e.Accepted)
}

// Unwrap returns ErrTooCostly.
func (e *CostError) Unwrap() error { return ErrTooCostly }

// Hint tells the user what to do next.
func (e *CostError) Hint() string {
	return "make it less ambiguous: avoid counted repetitions and many alternatives after parts that can match the " +
		"same text"
}

// Prepare works out what may come next, within a budget, which must be positive; a unit is about a tenth of a
// microsecond. It returns the work that it did, which can be a little more, and whether all is known. If not, the
// next call goes on where this one stopped. The only error is a [*CostError].
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
		return used, &CostError{Accepted: m.accepted}
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

// Fill sets the bit of every token that may come next and clears all others. It sets none when the text is complete
// and nothing can follow.
func (m *Matcher) Fill(mask backend.Mask) {
	if m.mask != nil {
		m.grammar.vocab.fill(mask, m.mask)
		return
	}
	a := m.settled()
	defer a.mu.Unlock()
	m.grammar.vocab.fill(mask, a.admits(m.grammar.vocab, m.at))
}

// Accept moves on by t and reports whether it was allowed; if not, nothing changes.
func (m *Matcher) Accept(t backend.Token) bool {
	v := m.grammar.vocab
	if m.mask == nil {
		return v.vocab.Valid(t) && isText(v.vocab, t) && m.AcceptText(v.vocab.Piece(t))
	}
	if !v.has(m.mask, t) {
		return false
	}
	m.unfed = v.vocab.Piece(t)
	m.remember(m.unfed)
	a := m.lock()
	a.set.Within(acceptWork, a.room(), func() { m.settle(a) })
	m.moveOn(a)
	return true
}

// AcceptText moves on by bytes, as by one token, and reports whether they were allowed; if not, nothing changes.
func (m *Matcher) AcceptText(text string) bool {
	a := m.settled()
	next := a.feedText(m.at, text)
	if next == expr.Empty {
		a.mu.Unlock()
		return false
	}
	m.remember(text)
	m.at = next
	m.moveOn(a)
	return true
}

// remember notes for Rollback what comes next.
func (m *Matcher) remember(text string) {
	if len(m.past) == 2*MaxRollback {
		m.base = m.mid
		m.past = m.past[:copy(m.past, m.past[MaxRollback:])]
	}
	if len(m.past) == MaxRollback {
		m.mid = m.at
	}
	m.past = append(m.past, text)
	m.accepted++
}

// moveOn leaves behind what was known about the last state, and unlocks the arena or, if it is full, has it renewed.
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

// Over reports whether the text must end here: it is complete and nothing can follow. It may say so only after Prepare.
func (m *Matcher) Over() bool { return m.at == expr.Epsilon && m.unfed == "" }

// Accepted returns the number of tokens accepted so far.
func (m *Matcher) Accepted() int { return m.accepted }

// MaxRollback is how many tokens can be taken back at least.
const MaxRollback = 256

// Rollback takes the last n accepted tokens back, at most as many as are remembered: all, or the last MaxRollback
// or more. It returns how many it took back. It feeds up to MaxRollback tokens again, so that a matcher need not
// keep old states and their memory.
func (m *Matcher) Rollback(n int) int {
	if n = max(0, min(n, len(m.past))); n == 0 {
		return 0
	}
	m.past = m.past[:len(m.past)-n]
	m.accepted -= n
	m.unfed, m.mask, m.spent, m.filled = "", nil, 0, filled[int]{}
	a := m.lock()
	defer a.mu.Unlock()
	again := m.past
	if m.at = m.base; len(m.past) >= MaxRollback {
		m.at, again = m.mid, m.past[MaxRollback:]
	}
	for _, text := range again {
		m.at = a.feedText(m.at, text)
	}
	return n
}

// Clone returns a matcher at the same place that goes its own way.
func (m *Matcher) Clone() *Matcher {
	c := *m
	c.past = append([]string(nil), m.past...)
	return &c
}

// maxForced is the most bytes that Forced looks ahead.
const maxForced = 256

// Forced appends to dst the tokens that must come next, because no other text can, cut as the model's tokenizer
// would cut them. The last of them are left out where the text that follows could lengthen them to other tokens. It
// returns dst unchanged when there are none, and when finding out would take too long.
func (m *Matcher) Forced(dst []backend.Token) []backend.Token {
	if m.grammar.vocab.tokenize == nil || m.unfed != "" {
		return dst
	}
	a := m.lock()
	defer a.mu.Unlock()
	out := dst
	if _, end := a.set.Within(forcedWork, a.room(), func() { out = a.forced(m.grammar.vocab, m.at, dst) }); end != expr.Finished {
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
		if a.probe.lengthens(v, text[at:], id) {
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
