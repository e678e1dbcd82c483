package wire

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"runner/generation"
	"runner/reasoning"
)

// Encoder turns the events of runs into the frames of a stream.
type Encoder interface {
	// Push takes the next event of a run. Runs are counted from 0. The event is valid until Push returns. An error, such
	// as that of the connection, ends all runs.
	Push(run int, e *reasoning.Event) error
	// End ends the stream. err is why it ends early; nil if all runs are over. The client may be gone.
	End(err error)
}

// Run is a request with its observer.
type Run struct {
	Request  generation.Request
	Observer generation.Observer
}

// Streamed carries out runs and answers with a stream that open begins. Nothing is written until all runs have
// started; an error until then is returned. encode makes the encoder of the stream. Frames of a single run that come
// together are written together.
func Streamed(w http.ResponseWriter, r *http.Request, m Model, runs []Run,
	open func(http.ResponseWriter) *Stream, encode func(*Stream) Encoder) error {
	to := &streamed{}
	defer func() { to.out.End() }()
	single := len(runs) == 1
	if single {
		to.Observer = runs[0].Observer
		runs[0].Observer = to
	}
	var enc Encoder
	err := Generate(r.Context(), m, runs, func() {
		if to.out = open(w); single {
			to.out.Hold()
		}
		enc = encode(to.out)
	}, func(run int, e *reasoning.Event) error { return enc.Push(run, e) })
	if to.out == nil {
		return err
	}
	enc.End(err)
	return nil
}

// streamed observes a run whose frames are held back, and writes them when no further event is at hand.
type streamed struct {
	generation.Observer
	out *Stream // nil until the run has started
}

// Idle implements [generation.Observer].
func (s *streamed) Idle() { s.out.Flush() }

// Generate carries out runs at the same time. When all runs have started, it calls begin once, and from then on
// take with each event, one call at a time. The first error ends all runs and is returned. Instead of an error that
// says only that ctx has ended, the cause is returned.
func Generate(ctx context.Context, m Model, runs []Run, begin func(),
	take func(run int, e *reasoning.Event) error) error {
	run := together
	if len(runs) == 1 {
		run = alone
	}
	err := run(ctx, m, runs, begin, take)
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)) {
		return cause
	}
	return err
}

// alone is Generate for one run.
func alone(ctx context.Context, m Model, runs []Run, begin func(),
	take func(run int, e *reasoning.Event) error) error {
	var event reasoning.Event // one for all, because take makes it escape
	started := false
	for e, err := range m.Generate(ctx, runs[0].Request, runs[0].Observer) {
		if err != nil {
			return err
		}
		if !started {
			started = true
			begin()
		}
		event = e
		if err := take(0, &event); err != nil {
			return err
		}
	}
	return nil
}

// together is Generate for several runs.
func together(ctx context.Context, m Model, runs []Run, begin func(),
	take func(run int, e *reasoning.Event) error) error {
	s := side{begin: begin, take: take, early: make([][]reasoning.Event, len(runs)), waiting: len(runs)}
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	var group sync.WaitGroup
	for i := range runs {
		group.Go(func() {
			defer s.rescue()
			for e, err := range m.Generate(ctx, runs[i].Request, runs[i].Observer) {
				if !s.push(i, &e, err) {
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
	take   func(run int, e *reasoning.Event) error
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
func (s *side) push(run int, e *reasoning.Event, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return false
	case err != nil:
	case s.waiting == 0:
		err = s.take(run, e)
	default:
		if s.early[run] = append(s.early[run], *e); len(s.early[run]) == 1 {
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
	for run, events := range s.early {
		for i := range events {
			if err := s.take(run, &events[i]); err != nil {
				return err
			}
		}
	}
	s.early = nil
	return nil
}
