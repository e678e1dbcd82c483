// Package tracing records runs as sealed traces in a store, and explains a run from its stored trace.
//
// [Traces.Tracer] makes the observer of a run that is traced. The principal that asks for it consents to the trace of
// that run. The trace records the consent: who, when and how. The trace contains everything, whatever the visibility.
// It is sealed to the recipients of the store, so neither this package nor the store can read it. A holder of a
// private key can read it with [Replay].
//
// [trace.Begin] holds what a run starts from. Its prompt is an object with messages (role, name, content, reasoning,
// preamble, tool_calls, tool_call_id, tool_name) and template_args. For a raw prompt it has text or tokens instead.
// Its tools are a list of name, description, parameters and strict. Its sampling is the seed and all other settings of
// the request, by the JSON names of [generation.Request] and backend.Sampling. Then come all events in order, and then
// how the run ended.
//
// # Rules
//
// A run waits for the store only at its beginning and at its end. If the store fails, only the trace is lost. The
// caller of the run sees an error with nothing but the reason; Config.Report gets the whole error.
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

// Config configures the traces. The zero value is usable.
type Config struct {
	// Clock gives the times in traces; nil means time.Now.
	Clock func() time.Time
	// Report, when not nil, gets the reason why a trace is not stored as requested. It contains nothing of the run. It
	// may be called on any goroutine.
	Report func(error)
	// Stored, when not nil, gets the id of each trace that has become durable, before anybody else gets it. It may be
	// called on any goroutine.
	Stored func(trace.ID)
}

// Store creates traces, as a [store.Store] with recipients does. It may be used by several goroutines at once.
type Store interface {
	Create(ctx context.Context, info store.Info) (*store.Writer, error)
}

// Traces records runs into a store. It may be used by several goroutines at once.
type Traces struct {
	store Store
	cfg   Config
}

// New returns Traces over a store. The caller keeps the store and closes it when all runs have ended.
func New(s Store, cfg Config) *Traces {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Traces{s, cfg}
}

// Tracer returns an observer that traces a run, which principal asks for now. how says by what means, for instance
// "--trace" or "reasoning_encrypt". run identifies the run elsewhere and may be empty.
func (t *Traces) Tracer(principal, how, run string) generation.Observer {
	return &tracer{traces: t, run: run, principal: principal,
		consent: trace.Consent{By: principal, At: t.cfg.Clock().UTC(), How: how}}
}

type tracer struct {
	generation.Unobserved
	traces         *Traces
	run, principal string
	consent        trace.Consent
}

// Trace implements [generation.Observer].
func (t *tracer) Trace(ctx context.Context, run *generation.TracedRun) (generation.Recorder, error) {
	digest := run.Digest()
	w, err := t.traces.store.Create(ctx, store.Info{Principal: t.principal, Model: digest})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err // the caller has left, so there is nothing to report
	case err != nil:
		return nil, t.traces.report(err)
	}
	begin := trace.Begin{Run: t.run, Consent: t.consent, Principal: t.principal, Model: run.Model,
		ModelKey: run.Key, ModelDigest: digest}
	if err = describe(&begin, run.Request); err == nil {
		var to *trace.Recorder
		if to, err = trace.NewRecorder(w, begin, t.traces.cfg.Clock); err == nil {
			return &recorder{traces: t.traces, to: to, writer: w, digest: run.Digest}, nil
		}
	}
	return nil, t.traces.report(errors.Join(err, w.Abandon()))
}

// recorder records one run. After an error it records nothing more.
type recorder struct {
	traces *Traces
	to     *trace.Recorder
	writer *store.Writer
	digest func() string // of the model
	err    error
}

// Record implements [generation.Recorder].
func (r *recorder) Record(e reasoning.Event) {
	if r.err == nil {
		r.err = r.to.Event(e)
	}
}

// Flush implements [generation.Recorder].
func (r *recorder) Flush() {
	if r.err == nil {
		r.err = r.to.Flush()
	}
}

// End implements [generation.Recorder].
func (r *recorder) End(why error) (string, error) {
	if r.err == nil {
		end := endOf(why)
		if !errors.Is(why, generation.ErrChanged) {
			end.ModelDigest = r.digest()
		}
		end.ModelUnknown = end.ModelDigest == ""
		r.writer.SetModel(end.ModelDigest)
		r.err = r.to.End(end)
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

// errStore replaces errors that name files and other internals.
var errStore = errors.New("the store failed")

// report passes an error to Config.Report and returns the part that the caller may see.
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
