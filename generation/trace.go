package generation

import (
	"context"

	"runner/reasoning"
)

// Tracer begins the traces of runs. It may be used by several goroutines at once.
type Tracer interface {
	// Begin begins the trace of a run. It returns when what the run starts from is durable, or why there will be no
	// trace; the run goes on without one then. Its error and those of the Recorder are shown to who asked for the
	// run, so they hold nothing else.
	Begin(ctx context.Context, run *TracedRun) (Recorder, error)
}

// Recorder writes down one run. Its methods are called one after the other, on a goroutine of the run's own: they
// may wait for a disk.
type Recorder interface {
	// Record takes the next event of the run, whatever the visibility. Errors are End's to tell.
	Record(e reasoning.Event)
	// Flush makes what was taken durable. It is called every second.
	Flush()
	// End ends the trace; why is nil after Done, else the error that ended the run. It returns the trace's id when
	// all of it is durable, or why there is none.
	End(why error) (id string, err error)
}

// TracedRun is what a run starts from.
type TracedRun struct {
	// Request is what was asked for, as it is carried out: with the instructions that strategy and form give the
	// model among the messages, with reasoning that was restored, and with a seed. It must not be changed.
	Request *Request
	// Model is the model's name, and Digest that of its files.
	Model, Digest string
}
