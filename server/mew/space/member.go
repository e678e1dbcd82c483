package space

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"runner/server/mew/envelope"
)

// Member is a participant's connection to its space. Receive is for one goroutine at a time. The other methods may be
// called by several goroutines at once.
type Member struct {
	space *Space
	who   Identity

	mu    sync.Mutex
	lines [][]byte
	bytes int
	ended error
	// wake holds at most one signal. It says that lines or ended has changed.
	wake chan struct{}
}

// Join lets a participant in. An older connection of the participant ends with ErrReplaced. The first message that the
// member receives is a system/welcome.
func (s *Space) Join(who Identity) (*Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.over(&who) {
		return nil, ErrRate
	}
	if old := s.members[who.ID]; old != nil {
		s.remove(old, ErrReplaced)
	}
	if len(s.members) >= s.cfg.Members {
		return nil, ErrFull
	}
	m := &Member{space: s, who: who, wake: make(chan struct{}, 1)}
	arrival := envelope.Arrival{You: envelope.Member{ID: who.ID, Capabilities: who.Capabilities},
		Participants: []envelope.Member{}}
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		arrival.Participants = append(arrival.Participants,
			envelope.Member{ID: id, Capabilities: s.members[id].who.Capabilities})
	}
	s.members[who.ID] = m
	s.push([]*Member{m}, s.system(envelope.Welcome, []string{who.ID}, nil, arrival))
	s.announce("join", arrival.You, m)
	return m, nil
}

// Expel ends the connections of participants for which check returns an error; the error is the reason. check must not
// call the space.
func (s *Space) Expel(check func(Identity) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		if m := s.members[id]; m != nil { // announcing a removal can remove a slow reader
			if err := check(m.who); err != nil {
				s.remove(m, err)
			}
		}
	}
}

// Receive waits for the next message and returns its JSON, which must not be changed. After the connection has ended it
// returns the reason.
func (m *Member) Receive(ctx context.Context) ([]byte, error) {
	for {
		m.mu.Lock()
		if len(m.lines) > 0 {
			line := m.lines[0]
			m.lines[0] = nil
			m.lines = m.lines[1:]
			m.bytes -= len(line)
			m.mu.Unlock()
			return line, nil
		}
		ended := m.ended
		m.mu.Unlock()
		if ended != nil {
			return nil, ended
		}
		select {
		case <-m.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Pause returns how long to wait before the next envelope of the participant is read.
func (m *Member) Pause() time.Duration {
	s := m.space
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.sender(m.who.ID)
	return max(0, pause-from.at.Sub(from.last))
}

// Send passes on an envelope of the participant. A refused one is answered with a system/error. Send returns an error
// only if the connection has ended, or if it has to end because too much was dropped.
func (m *Member) Send(_ context.Context, frame []byte) error {
	s := m.space
	dropped := len(frame) > brief && s.Refuse(m.who.ID) != nil
	var e envelope.Envelope
	var join *envelope.Join
	var err error
	if !dropped {
		e, join, err = envelope.ParseFrame(frame)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[m.who.ID] != m {
		return m.why()
	}
	if dropped || !s.admit(m.who.ID, &e) {
		if s.over(&m.who) {
			return ErrRate
		}
		return nil
	}
	var refused *Refusal
	switch {
	case err != nil:
		refused = refuse(RefusedInvalid, &e, "%v", err)
	case join != nil:
		if join.ParticipantID != "" && join.ParticipantID != m.who.ID {
			refused = refuse(RefusedIdentity, &e, "the token belongs to %s", m.who.ID)
		}
	default:
		refused = s.accept(m.who, &e)
	}
	if refused != nil {
		s.tell(m, refused)
	}
	return nil
}

// Close ends the connection.
func (m *Member) Close() error {
	m.CloseFor(ErrLeft)
	return nil
}

// CloseFor ends the connection with a reason.
func (m *Member) CloseFor(why error) {
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	m.space.remove(m, why)
}

// queue adds a line. It reports false if too much is waiting already.
func (m *Member) queue(line []byte, most, bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return true
	}
	if len(m.lines) >= most || m.bytes+len(line) > bytes {
		return false
	}
	m.lines = append(m.lines, line)
	m.bytes += len(line)
	m.signal()
	return true
}

// end ends the connection. The first reason counts. Waiting messages can still be received, unless the reason is
// ErrSlow.
func (m *Member) end(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return
	}
	if m.ended = why; errors.Is(why, ErrSlow) {
		m.lines = nil
	}
	m.signal()
}

func (m *Member) why() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

func (m *Member) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
