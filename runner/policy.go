package runner

import (
	"context"

	"runner/reasoning"
)

// policy chooses the turns of a run and decides what happens to their events. It runs on the reader's goroutine, except
// for the methods of which it says otherwise.
type policy interface {
	// first returns the first turn of a run whose request has been checked. next returns the turn that follows a turn,
	// nil if the run is over. instead returns the turn that replaces one that could not be prepared. If none can, it
	// returns the error.
	first() (*turn, error)
	next(t *turn) (*turn, error)
	instead(t *turn, err error) (*turn, error)
	// answers reports whether the run itself answers calls of a function. It may run on any goroutine.
	answers(name string) bool

	// send gets each event of a turn on the scheduler's goroutine. What it passes on to the run's stream, take gets on
	// the reader's goroutine.
	send(e reasoning.Event)
	take(e *reasoning.Event) error
	// finished is called on the scheduler's goroutine when the turn's own text is complete. thoughts is its reasoning.
	// over is called when the turn is over. It may be called on any goroutine.
	finished(t *turn, thoughts string)
	over(err error)

	// end is called after the last turn. err is why the run ended early. leave waits for the end of the trace; it is
	// called last, and only if the run is traced.
	end(err error)
	leave()
}

// single is the policy of a run of one turn. Its events are traced and filtered on the scheduler's goroutine, so hidden
// events never wake the reader.
type single struct{ run *run }

func (s single) first() (*turn, error) { return s.run.newTurn(s.run.req), nil }

func (s single) next(*turn) (*turn, error) { return nil, nil }

func (s single) instead(_ *turn, err error) (*turn, error) { return nil, err }

func (s single) answers(string) bool { return false }

func (s single) send(e reasoning.Event) {
	if s.run.passes(&e) {
		s.run.send(e)
	}
}

func (s single) take(e *reasoning.Event) error {
	switch n := s.run; {
	case n.caller.Err() != nil:
		return context.Cause(n.caller) // a slow reader gets no events after its context has ended
	case e.Kind == reasoning.Done:
		n.showDone(*e)
	default:
		n.show(*e)
	}
	return nil
}

func (s single) finished(t *turn, thoughts string) {
	t.result.Sealed = s.run.seal(thoughts, len(t.output.calls) > 0, s.send)
}

func (s single) over(err error) {
	s.run.endTrace(err)
	s.run.ticket.over()
}

func (s single) end(error) {}

func (s single) leave() {
	defer s.run.watch(s.run.turn)()
	<-s.run.tape.ended
}
