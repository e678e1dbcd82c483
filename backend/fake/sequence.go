package fake

import (
	"errors"
	"time"

	"runner/backend"
)

// cell is one token in the cache. hash stands for the state that an engine keeps: it depends on the token and on
// all tokens before it in the sequence that fed it.
type cell struct {
	hash uint64
	refs int
}

// cells is the cache that all sequences share.
type cells struct {
	all    []cell
	unused []int32
}

func newCells(n int) cells {
	c := cells{all: make([]cell, n), unused: make([]int32, n)}
	for i := range c.unused {
		c.unused[i] = int32(n - 1 - i)
	}
	return c
}

func (c *cells) free() int           { return len(c.unused) }
func (c *cells) hash(i int32) uint64 { return c.all[i].hash }

func (c *cells) take(hash uint64) int32 {
	i := c.unused[len(c.unused)-1]
	c.unused = c.unused[:len(c.unused)-1]
	c.all[i] = cell{hash, 1}
	return i
}

func (c *cells) release(i int32) {
	if c.all[i].refs--; c.all[i].refs == 0 {
		c.unused = append(c.unused, i)
	}
}

// sequence implements backend.Sequence.
type sequence struct {
	backend.Member
	model  *Model
	id     int
	tokens []backend.Token
	cells  []int32
	// dueFor is the length for which a result comes at dueAt; 0 if none was asked for.
	dueFor int
	dueAt  time.Time
}

func (s *sequence) Tokens() []backend.Token { return s.tokens }

func (s *sequence) feed(tokens []backend.Token) {
	h := uint64(1)
	if n := len(s.cells); n > 0 {
		h = s.model.cells.hash(s.cells[n-1])
	}
	for _, t := range tokens {
		h = mix(h*31 + uint64(t) + 1)
		s.cells = append(s.cells, s.model.cells.take(h))
	}
	s.tokens = append(s.tokens, tokens...)
}

func (s *sequence) shorten(n int) {
	for _, c := range s.cells[n:] {
		s.model.cells.release(c)
	}
	s.cells, s.tokens = s.cells[:n], s.tokens[:n]
}

func (s *sequence) Truncate(n int) (int, error) {
	if s.Closed {
		return 0, backend.ErrClosed
	}
	if n < 0 {
		return len(s.tokens), errors.New("cannot truncate to a negative length")
	}
	if n < len(s.tokens) {
		s.Pause()
		s.shorten(n)
	}
	return len(s.tokens), nil
}

func (s *sequence) Fork() (backend.Sequence, error) {
	if s.Closed {
		return nil, backend.ErrClosed
	}
	f, err := s.model.newSequence()
	if err != nil {
		return nil, err
	}
	f.tokens = append(f.tokens, s.tokens...)
	f.cells = append(f.cells, s.cells...)
	for _, c := range s.cells {
		s.model.cells.all[c].refs++
	}
	return f, nil
}

func (s *sequence) Close() {
	if s.Closed {
		return
	}
	s.shorten(0)
	s.Closed = true
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.model.open--
}

const embeddingLength = 16

// addHidden adds each token's noise, so that texts with tokens in common get similar sums.
func addHidden(to []float64, tokens []backend.Token) {
	if to == nil {
		return
	}
	for _, t := range tokens {
		for i := range to {
			to[i] += float64(noise(uint64(t), uint64(i)))
		}
	}
}

func (m *Model) noteBroken(err error) {
	if errors.Is(err, backend.ErrBroken) {
		m.broken = err
	}
}
