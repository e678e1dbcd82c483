package runner

import (
	"cmp"
	"context"
	"time"

	"runner/backend"
	"runner/runner/drafts"
)

const (
	// quietTime is how long a model has nothing to do before it is measured. Often a request waits for its loading.
	quietTime = 100 * time.Millisecond
	// measureRounds is how often each width is measured. The first steps of a model are slow, and the fastest counts.
	measureRounds = 2
)

// measure times test steps of several widths, so that the first guesses of the next tokens are as many as pay. idle
// ends when a request comes. That ends a test step, too, and what was measured until then is dropped: runs learn it
// from their own steps. The error is the context's or the backend's.
func (s *scheduler) measure(idle context.Context) error {
	if !s.guesser.on || s.guesser.always {
		return nil
	}
	select {
	case <-time.After(quietTime):
	case <-idle.Done():
		return context.Cause(idle)
	}
	var costs [len(drafts.Widths)]float64
	for round := range measureRounds {
		for i, width := range drafts.Widths {
			if width > min(s.info.BatchSize, s.info.ContextSize) {
				break
			}
			var took time.Duration
			var failed error
			err := s.do(idle, func() { took, failed = s.testStep(idle, width) })
			if err != nil || failed != nil || took == 0 {
				return cmp.Or(err, failed)
			}
			if round == 0 || float64(took) < costs[i] {
				costs[i] = float64(took)
			}
		}
	}
	return s.do(idle, func() { s.guesser.costs.Measure(costs) })
}

// testStep feeds a token and as many drafts as make up a width to a sequence of its own, and returns how long that
// took. It returns 0 if the model is in use or broken.
func (s *scheduler) testStep(ctx context.Context, width int) (took time.Duration, err error) {
	if len(s.active)+len(s.waiting)+len(s.cache.idle) > 0 || s.broken != nil {
		return 0, nil
	}
	seq, err := s.cache.fresh()
	if err != nil {
		return 0, s.testFailed(err)
	}
	defer seq.Close()
	in := backend.Input{Sequence: seq, Tokens: []backend.Token{spread(s.model, 0)}, Sampling: &backend.Sampling{}}
	for i := range width - 1 {
		in.Drafts = append(in.Drafts, backend.Draft{Token: spread(s.model, i+1)})
	}
	began := time.Now()
	if err := s.model.Step(ctx, []backend.Input{in}, s.outputs[:1]); err != nil {
		return 0, s.testFailed(err)
	}
	return time.Since(began), nil
}

// testFailed returns an error. It notes one after which there can be no steps. Any other may be of the test's tokens.
func (s *scheduler) testFailed(err error) error {
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
