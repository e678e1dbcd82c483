package openai

import (
	"context"
	"errors"
	"sync"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// generate runs requests at the same time, one for each choice. When all have started, it calls begin once, and
// from then on take with each event, one call at a time. The first error ends all runs and is returned.
func generate(ctx context.Context, m wire.Model, reqs []generation.Request, begin func(),
	take func(choice int, e reasoning.Event) error) error {
	if len(reqs) == 1 {
		started := false
		for e, err := range m.Generate(ctx, reqs[0]) {
			if err != nil {
				return err
			}
			if !started {
				started = true
				begin()
			}
			if err := take(0, e); err != nil {
				return err
			}
		}
		return nil
	}
	s := side{begin: begin, take: take, early: make([][]reasoning.Event, len(reqs)), waiting: len(reqs)}
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	var group sync.WaitGroup
	for i := range reqs {
		group.Go(func() {
			defer s.rescue()
			for e, err := range m.Generate(ctx, reqs[i]) {
				if !s.push(i, e, err) {
					return
				}
			}
		})
	}
	group.Wait()
	if s.panicked != nil {
		panic(s.panicked) // in the handler's goroutine, where the server recovers it
	}
	return s.err
}

// side is a set of runs at the same time.
type side struct {
	begin  func()
	take   func(choice int, e reasoning.Event) error
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// early holds the events of each run until all have started. A run that has started does not wait for the others,
	// because they may need its place.
	early    [][]reasoning.Event
	waiting  int
	err      error
	panicked any
}

// rescue recovers the panic of a run, which would otherwise end the program.
func (s *side) rescue() {
	if p := recover(); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.panicked, s.err = p, errPanic
		s.cancel(errPanic)
	}
}

var errPanic = errors.New("a run panicked")

// push takes an event or the error of a run, and reports whether the run continues.
func (s *side) push(choice int, e reasoning.Event, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return false
	case err != nil:
	case s.waiting == 0:
		err = s.take(choice, e)
	default:
		if s.early[choice] = append(s.early[choice], e); len(s.early[choice]) == 1 {
			s.waiting--
		}
		if s.waiting == 0 {
			err = s.release()
		}
	}
	if err != nil {
		s.err = err
		s.cancel(err)
	}
	return err == nil
}

// release calls begin and passes on the early events.
func (s *side) release() error {
	s.begin()
	for choice, events := range s.early {
		for _, e := range events {
			if err := s.take(choice, e); err != nil {
				return err
			}
		}
	}
	s.early = nil
	return nil
}

// requests returns a request for each choice.
func (d *order) requests() []generation.Request {
	reqs := make([]generation.Request, d.choices)
	for i := range reqs {
		seed := *d.req.Seed + uint64(i)
		reqs[i] = d.req
		reqs[i].Seed = &seed
	}
	return reqs
}
