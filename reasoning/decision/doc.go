// Package decision explains why a run went as it did. [Tracer] turns a run's events into a trace, which is JSON
// lines of a few kinds. [Debrief] sums up a trace, for people as text or Markdown and for programs as JSON. Both
// have the format of Reactive Agents, whose traces can be read too.
//
// The package finds no reasons itself. They come with the events, from the filter for rationales in package filter and
// from the runner. It does not store or seal traces.
//
// Rules: A reason that was not stated stays empty and is counted; none is invented. Give a tracer only what the
// visibility policy lets through. The same events give the same trace, except for its times and the run's id, and the
// same debrief, except for the id.
package decision
