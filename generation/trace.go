package generation

import "runner/reasoning"

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
