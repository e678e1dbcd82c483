package child

import (
	"context"
	"errors"
	"fmt"

	"runner/backend"
	"runner/backend/child/protocol"
)

var noContext = context.Background()

// sequence implements backend.Sequence.
type sequence struct {
	backend.Member
	model  *Model
	id     int
	tokens []backend.Token
	// held is how many tokens the engine has, in the process with this epoch. An engine that has more has those of a step
	// that failed.
	held, epoch int
	// fed has the pieces of tokens. grows says that the last of them was begun here and was not cut since.
	fed   fed
	grows bool
	// again says that tokens were fed again since the last Truncate, all but the first kept ones.
	again   bool
	kept    int
	crashes int // in steps of this sequence alone, since its last completed step
}

// NewSequence implements backend.Model. The engine makes its own when the first tokens come.
func (m *Model) NewSequence() (backend.Sequence, error) {
	s, err := m.newSequence()
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *Model) newSequence() (*sequence, error) {
	if m.isClosed() {
		return nil, backend.ErrClosed
	}
	if err := m.Failure(); err != nil {
		return nil, err
	}
	for id, s := range m.sequences {
		if s == nil {
			m.sequences[id] = &sequence{Member: backend.Member{Of: m}, model: m, id: id, epoch: -1}
			return m.sequences[id], nil
		}
	}
	return nil, backend.ErrNoSequence
}

// request asks the engine about a sequence and returns the length that it kept.
func (m *Model) request(ctx context.Context, c *conn, kind protocol.Kind, q protocol.Sequence) (kept int, err error) {
	var d protocol.Done
	err = c.exchange(ctx, m.pace.least, kind, q, protocol.KindDone, &d)
	if err == nil && kind == protocol.KindTruncate && (d.Kept < 0 || d.Kept > q.Length) {
		err = fmt.Errorf("%w: %d tokens are kept of %d", protocol.ErrFrame, d.Kept, q.Length)
	}
	if err == nil || isCrash(err) {
		return d.Kept, err
	}
	if err = m.refused(c, err, 0); errors.Is(err, context.Canceled) {
		err = m.refused(c, errUncalled, 0)
	}
	return 0, err
}

// has reports whether the engine's process has the sequence.
func (s *sequence) has() bool { return s.epoch == s.model.epoch && s.model.seen != nil }

// leastShared is how many tokens two sequences must have in common for one to be made from the other.
const leastShared = 16

// sync gives the engine the sequence's tokens: no more and no fewer.
func (m *Model) sync(ctx context.Context, c *conn, s *sequence) error {
	if !s.has() {
		if err := m.create(c, s); err != nil {
			return err
		}
	}
	if s.held > len(s.tokens) {
		kept, err := m.request(noContext, c, protocol.KindTruncate, protocol.Sequence{Sequence: s.id,
			Length: len(s.tokens)})
		if err != nil {
			return err
		}
		s.held = kept
	}
	if s.held < len(s.tokens) {
		if !s.again {
			s.again, s.kept = true, s.held
		}
		s.kept = min(s.kept, s.held)
	}
	for s.held < len(s.tokens) {
		n := min(len(s.tokens)-s.held, m.info.BatchSize)
		m.one[0] = backend.Input{Sequence: s, Tokens: s.tokens[s.held : s.held+n]}
		if err := m.feed(ctx, c, m.one[:], m.oneOut[:]); err != nil {
			return err
		}
	}
	return nil
}

// create makes the engine's sequence, from another one that it shared tokens with before a crash if there is one.
func (m *Model) create(c *conn, s *sequence) error {
	var from *sequence
	shared := leastShared - 1
	for _, o := range m.sequences {
		if o == nil || o == s || !o.has() || o.held > len(o.tokens) {
			continue
		}
		if n := min(s.fed.shared(o.fed), o.held); n > shared {
			from, shared = o, n
		}
	}
	if from == nil {
		_, err := m.request(noContext, c, protocol.KindNew, protocol.Sequence{Sequence: s.id})
		s.held = 0
		if err == nil {
			s.epoch = m.epoch
		}
		return err
	}
	_, err := m.request(noContext, c, protocol.KindFork, protocol.Sequence{Sequence: s.id, From: from.id})
	if err != nil {
		return err
	}
	s.held, s.epoch = from.held, m.epoch
	if shared < s.held {
		s.held, err = m.request(noContext, c, protocol.KindTruncate, protocol.Sequence{Sequence: s.id, Length: shared})
	}
	return err
}

// Tokens implements backend.Sequence.
func (s *sequence) Tokens() []backend.Token { return s.tokens }

// Truncate implements backend.Sequence. Tokens that the engine does not have any more can still be kept, because
// they can be fed again.
func (s *sequence) Truncate(n int) (int, error) {
	m := s.model
	s.again = false
	switch {
	case s.Closed || m.isClosed():
		return 0, backend.ErrClosed
	case n < 0:
		return len(s.tokens), errors.New("cannot truncate to a negative length")
	case n >= len(s.tokens):
		return len(s.tokens), nil
	}
	if s.has() && n < s.held {
		kept, err := m.request(noContext, m.seen, protocol.KindTruncate, protocol.Sequence{Sequence: s.id, Length: n})
		switch {
		case err == nil:
			n, s.held = kept, kept
		case !isCrash(err):
			return len(s.tokens), err
		}
	}
	s.tokens = s.tokens[:n]
	s.fed.cut(n)
	s.grows = false
	return n, nil
}

// Reused implements backend.Reusing. Only after a crash the engine computes more than it is given.
func (s *sequence) Reused() (tokens int, ok bool) { return s.kept, s.again }

// Fork implements backend.Sequence.
func (s *sequence) Fork() (backend.Sequence, error) {
	m := s.model
	if s.Closed {
		return nil, backend.ErrClosed
	}
	f, err := m.newSequence()
	if err != nil {
		return nil, err
	}
	if s.has() && s.held > 0 && s.held <= len(s.tokens) {
		_, err := m.request(noContext, m.seen, protocol.KindFork, protocol.Sequence{Sequence: f.id, From: s.id})
		switch {
		case err == nil:
			f.held, f.epoch = s.held, m.epoch
		case !isCrash(err):
			f.Close()
			return nil, err
		}
	}
	f.tokens = append(f.tokens, s.tokens...)
	f.fed = append(f.fed, s.fed...)
	return f, nil
}

// Close implements backend.Sequence.
func (s *sequence) Close() {
	m := s.model
	if s.Closed {
		return
	}
	s.Closed = true
	m.sequences[s.id] = nil
	if s.has() && !m.isClosed() {
		_, _ = m.request(noContext, m.seen, protocol.KindFree, protocol.Sequence{Sequence: s.id}) // else it has crashed
	}
}
