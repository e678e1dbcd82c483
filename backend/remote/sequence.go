package remote

import (
	"errors"
	"slices"

	"runner/backend"
)

// sequence implements backend.Pausing and backend.Arriving.
type sequence struct {
	backend.Member
	model  *Model
	tokens []backend.Token
	// stream is the generation that is open for it, or nil.
	stream *stream
	// strayed is what Strayed returns.
	strayed []int
}

// NewSequence implements backend.Model.
func (m *Model) NewSequence() (backend.Sequence, error) { return m.newSequence() }

func (m *Model) newSequence() (*sequence, error) {
	switch lost := m.lost.Load(); {
	case m.closed.Load():
		return nil, backend.ErrClosed
	case lost != nil:
		return nil, *lost
	case m.open >= m.info.Sequences:
		return nil, backend.ErrNoSequence
	}
	m.open++
	return &sequence{Member: backend.Member{Of: m}, model: m}, nil
}

// Tokens implements backend.Sequence.
func (q *sequence) Tokens() []backend.Token { return q.tokens }

// Truncate implements backend.Sequence.
func (q *sequence) Truncate(n int) (int, error) {
	if q.Closed {
		return 0, backend.ErrClosed
	}
	if n < 0 {
		return len(q.tokens), errors.New("cannot truncate to a negative length")
	}
	if n < len(q.tokens) {
		q.Pause()
		q.tokens = q.tokens[:n]
	}
	return len(q.tokens), nil
}

// Fork implements backend.Sequence.
func (q *sequence) Fork() (backend.Sequence, error) {
	if q.Closed {
		return nil, backend.ErrClosed
	}
	f, err := q.model.newSequence()
	if err != nil {
		return nil, err
	}
	f.tokens = slices.Clone(q.tokens)
	return f, nil
}

// Pause implements backend.Pausing.
func (q *sequence) Pause() {
	if q.stream != nil {
		q.stream.end()
		q.stream = nil
	}
}

// Arrived implements backend.Arriving.
func (q *sequence) Arrived() bool {
	return q.stream == nil || q.stream.news.Load() || q.model.closed.Load() || q.model.lost.Load() != nil ||
		q.stream.changes != q.model.watch.changes.Load()
}

// Reused implements backend.Reusing.
func (q *sequence) Reused() (tokens int, ok bool) {
	if q.stream == nil {
		return 0, false
	}
	n := q.stream.reused.Load()
	return int(n), n >= 0
}

// Strayed implements backend.Straying.
func (q *sequence) Strayed() []int {
	at := q.strayed
	q.strayed = nil
	return at
}

// stray notes that the stream may have gone on after a number of tokens where the sequence goes another way.
func (q *sequence) stray(at int) {
	if q.stream.allowed == nil && q.stream.seen == 0 {
		q.strayed = append(q.strayed, at)
	}
}

// Close implements backend.Sequence.
func (q *sequence) Close() {
	if q.Closed {
		return
	}
	q.Pause()
	q.Closed = true
	q.model.open--
}
