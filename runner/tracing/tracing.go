// Package tracing records runs as sealed traces in a store, and tells from a stored one why its run went as it did.
//
// [Traces.Tracer] makes what a [runner.Request] takes as its Trace: who asks for it consents to the trace of that
// run, which notes who, when and how. The trace has everything, whatever the visibility: it is sealed to the
// recipients of the store, and neither this package nor the store can read it again. [Replay] can, for who has a
// private key.
//
// What a run starts from stands in [trace.Begin]: prompt is an object with messages (role, name, content,
// reasoning, preamble, tool_calls, tool_call_id, tool_name) and template_args, or with text or tokens where the
// prompt was raw; tools is a list of name, description, parameters and strict; sampling is the seed and what else
// chose the tokens, in the names of the HTTP API. After it comes every event as it happened, and then how the run
// ended.
//
// # Rules
//
// A run never waits for the store but at its very begin and end. What the store cannot take is lost to the trace
// alone. Errors that are shown to who asked for a run hold nothing but their reason; all of it goes to
// Config.Report.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// Config says how traces are made. The zero value is usable.
type Config struct {
	// Clock gives the times in traces; nil means time.Now.
	Clock func() time.Time
	// Report is told, by any goroutine, why a trace is not stored as it was asked for; nil is silent. It holds
	// nothing of the run.
	Report func(error)
	// Stored is told, by any goroutine, each trace that is durable now, before anybody else; may be nil.
	Stored func(trace.ID)
}

// Store begins traces, as a [store.Store] with recipients does. It may be used by several goroutines at once.
type Store interface {
	Create(ctx context.Context, info store.Info) (*store.Writer, error)
}

// Traces records runs into a store. It may be used by several goroutines at once.
type Traces struct {
	store Store
	cfg   Config
}

// New returns Traces over a store. The store stays the caller's, who closes it when all runs have ended.
func New(s Store, cfg Config) *Traces {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Traces{s, cfg}
}

// Tracer returns what records a run that principal asks for now. how is by what means, for instance "--trace" or
// "reasoning_encrypt"; run names the run elsewhere, and may be empty.
func (t *Traces) Tracer(principal, how, run string) generation.Tracer {
	return &tracer{t, run, principal, trace.Consent{By: principal, At: t.cfg.Clock().UTC(), How: how}}
}

type tracer struct {
	traces         *Traces
	run, principal string
	consent        trace.Consent
}

// Begin implements [runner.Tracer].
func (t *tracer) Begin(ctx context.Context, run *generation.TracedRun) (generation.Recorder, error) {
	w, err := t.traces.store.Create(ctx, store.Info{Principal: t.principal, Model: run.Digest})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err // nobody is there to be told
	case err != nil:
		return nil, t.traces.report(err)
	}
	begin := trace.Begin{Run: t.run, Consent: t.consent, Principal: t.principal, Model: run.Model, ModelDigest: run.Digest}
	if err = describe(&begin, run.Request); err == nil {
		var to *trace.Recorder
		if to, err = trace.NewRecorder(w, begin, t.traces.cfg.Clock); err == nil {
			return &recorder{traces: t.traces, to: to, writer: w}, nil
		}
	}
	return nil, t.traces.report(errors.Join(err, w.Abandon()))
}

// recorder records one run. After an error it takes nothing more.
type recorder struct {
	traces *Traces
	to     *trace.Recorder
	writer *store.Writer
	err    error
}

// Record implements [runner.Recorder].
func (r *recorder) Record(e reasoning.Event) {
	if r.err == nil {
		r.err = r.to.Event(e)
	}
}

// Flush implements [runner.Recorder].
func (r *recorder) Flush() {
	if r.err == nil {
		r.err = r.to.Flush()
	}
}

// End implements [runner.Recorder].
func (r *recorder) End(why error) (string, error) {
	if r.err == nil {
		r.err = r.to.End(endOf(why))
	}
	var id trace.ID
	if r.err == nil {
		id, r.err = r.writer.Close()
	}
	if r.err != nil {
		return "", r.traces.report(errors.Join(r.err, r.writer.Abandon()))
	}
	if stored := r.traces.cfg.Stored; stored != nil {
		stored(id)
	}
	return id.String(), nil
}

func endOf(why error) trace.End {
	switch {
	case why == nil:
		return trace.End{Status: trace.StatusDone}
	case errors.Is(why, context.Canceled):
		return trace.End{Status: trace.StatusCancelled}
	}
	return trace.End{Status: trace.StatusFailed, Error: why.Error()}
}

// errStore stands for errors that name files and the like.
var errStore = errors.New("the store failed")

// report tells an error to who runs the program, and returns what anybody may know of it.
func (t *Traces) report(err error) error {
	if t.cfg.Report != nil {
		t.cfg.Report(fmt.Errorf("a trace is not stored: %w", err))
	}
	var known *store.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, trace.ErrRecord):
		return trace.ErrRecord
	}
	return errStore
}
