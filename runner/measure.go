package runner

import (
	"context"
	"time"

	"runner/backend"
	"runner/generation"
	"runner/runner/drafts"
)

const (
	// quietTime is how long a model that was just loaded has nothing to do before it is measured. Whoever loaded it for
	// a request should not wait for a step that measures.
	quietTime = 100 * time.Millisecond
	// measureRounds is how often each width is measured. The first steps of a model are slow, and the fastest counts.
	measureRounds = 2
)

// measure measures how long steps of several widths take, so that the first guesses of the next tokens are as many as
// pay. It waits for a moment, and it ends as soon as there is a run, so a request waits for one step at most. Runs
// learn what it did not measure.
func (s *scheduler) measure() error {
	select {
	case <-time.After(quietTime):
	case <-s.stop.Done():
		return generation.ErrClosed
	}
	for range measureRounds {
		for _, width := range drafts.Widths {
			var idle bool
			var failed error
			if err := s.do(context.Background(), func() { idle, failed = s.measureStep(width) }); err != nil {
				return err
			}
			if failed != nil || !idle {
				return failed
			}
		}
	}
	return nil
}

// measureStep steps a sequence of its own by a token and as many drafts as make up a width. It does nothing and returns
// false where guesses do not depend on costs, and once the model was used.
func (s *scheduler) measureStep(width int) (idle bool, err error) {
	g, inUse := &s.guesser, len(s.active)+len(s.waiting)+len(s.cache.idle) > 0
	if !g.on || g.always || inUse || s.broken != nil || width > min(s.info.BatchSize, s.info.ContextSize) {
		return false, s.broken
	}
	seq, err := s.cache.fresh()
	if err != nil {
		return false, s.brokenBy(err)
	}
	defer seq.Close()
	in := backend.Input{Sequence: seq, Tokens: []backend.Token{spread(s.model, 0)}, Sampling: &backend.Sampling{}}
	for i := range width - 1 {
		in.Drafts = append(in.Drafts, backend.Draft{Token: spread(s.model, i+1)})
	}
	began := time.Now()
	if err := s.model.Step(s.stop, []backend.Input{in}, s.outputs[:1]); err != nil {
		return false, s.brokenBy(err)
	}
	g.costs.Measure(width, float64(time.Since(began)))
	return true, nil
}

// brokenBy returns an error and notes it if no step can follow it.
func (s *scheduler) brokenBy(err error) error {
	if s.breaks(err) {
		s.log.Error("the engine failed", "error", err)
	}
	return err
}

// spread returns the i-th of some tokens from all over a vocabulary. Tokens that are alike would share experts.
func spread(model backend.Model, i int) backend.Token {
	const step = 7919 // a prime
	return backend.Token(i * step % model.Vocab().Len())
}
