package generation

import (
	"context"

	"runner/reasoning"
)

// Tracer begins the traces of runs. It may be used by several goroutines at once.
type Tracer interface {
	// Begin begins the trace of a run. It returns when the run's starting point is durable, or with the reason why there
	// will be no trace; the run then continues without one. The caller of the run sees Begin's error and the Recorder's
	// errors, so they must contain nothing but the reason.
	Begin(ctx context.Context, run *TracedRun) (Recorder, error)
}

// Recorder records one run. Its methods are called one after the other, on a goroutine of the run, so they may wait
// for a disk.
type Recorder interface {
	// Record handles the next event of the run, whatever the visibility. End reports its errors.
	Record(e reasoning.Event)
	// Flush makes everything so far durable. It is called every second.
	Flush()
	// End ends the trace. why is nil after Done, otherwise the error that ended the run. When the whole trace is durable,
	// End returns its id. Otherwise it returns the reason why there is no trace.
	End(why error) (id string, err error)
}

// TracedRun is the starting point of a run.
type TracedRun struct {
	// Request is the request as it is carried out. Its messages include the instructions that the strategy and the form
	// add, and restored reasoning. Its seed is set. It must not be changed.
	Request *Request
	// Model is the model's name, and Key identifies its files.
	Model, Key string
	// Digest returns the digest of what the files hold, or nothing if it is not known, as when somebody has just written
	// to them.
	Digest func() string
}
