package cli

import (
	"log/slog"
	"slices"

	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// Recorder keeps sealed traces of a command's runs, if its flags ask for that. Until it is opened it records nothing.
type Recorder interface {
	wire.Traces
	// Flag is the flag that has all runs recorded, with its dashes, or empty if the program records none.
	Flag() string
	// On reports whether the flags ask for traces.
	On() bool
	// Open begins to record. log gets what is recorded and what fails; without it, [Recorder.Tell] says that. rooms says
	// that runs of rooms are recorded, too.
	Open(log *slog.Logger, rooms bool) error
	// Tell says what became of the trace of the run that has ended. result is nil if it has no result.
	Tell(result *reasoning.Result, say func(line string))
	// Close closes what the traces are in. Call it after all runs have ended.
	Close() error
}

// Recorded says which runs of a command are recorded.
type Recorded struct {
	// Asked says that it is only those whose requests ask for it. Rooms may add a flag for runs of their own.
	Asked bool
	// Usage is the help of the flag that turns recording on.
	Usage string
	// Sealing are more flags that seal to the keys of Sealed.
	Sealing []string
	Sealed  *Sealing
}

// recorder returns the recorder of a command and its flags.
func (a *App) recorder(what Recorded) (Recorder, flags.Table) {
	for _, r := range registered {
		if r.Record != nil {
			return r.Record(a, what)
		}
	}
	if len(what.Sealing) == 0 {
		return unrecorded{}, flags.List()
	}
	needs := flags.Needs(what.Sealing...)
	return unrecorded{}, flags.List(what.Sealed.ToFlag(needs), what.Sealed.Keys.FileFlag(needs))
}

// Records reports whether this program can record runs.
func Records() bool {
	return slices.ContainsFunc(registered, func(r Room) bool { return r.Record != nil })
}

// unrecorded records nothing.
type unrecorded struct{}

func (unrecorded) Flag() string                              { return "" }
func (unrecorded) On() bool                                  { return false }
func (unrecorded) Open(*slog.Logger, bool) error             { return nil }
func (unrecorded) Tracer(_, _, _ string) generation.Observer { return generation.Unobserved{} }
func (unrecorded) Tell(*reasoning.Result, func(line string)) {}
func (unrecorded) Close() error                              { return nil }

// observer returns the observer of a run.
func (o *runOptions) observer(run string) generation.Observer {
	return o.record.Tracer(wire.Local, o.record.Flag(), run)
}
