// Package decision explains afterwards why a run went as it did. [Tracer] makes a trace of a run's events, JSON lines
// of a few kinds. [Debrief] is what a trace adds up to, for people as text or Markdown and for programs as JSON. Both
// have the form that Reactive Agents gives them; traces of earlier versions are read, too.
//
// The package finds no reasons itself. They come in the events, from [reasoning.RationaleFilter] and from the runner.
// It does not store or seal traces.
//
// Rules: A reason that was not stated stays empty and is counted; none is made up. A tracer sees only what the
// visibility policy lets through. The same events give the same trace, except for its times and the run's id, and the
// same debrief, except for the id.
package decision
