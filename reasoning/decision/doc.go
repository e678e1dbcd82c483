// Package decision tells afterwards why a run went as it did: [Tracer] makes a trace of a run's events, JSON lines of a few kinds, and
// [Debrief] is what a trace adds up to, for people as text or Markdown and for programs as JSON.
//
// It finds no reasons itself; those come in the events, from [reasoning.RationaleFilter] and from the runner. It does not store or seal traces.
//
// Rules: what nobody stated stays empty and is counted, never made up; a tracer sees what the visibility policy lets through, and no more;
// the same events give the same trace but for its times and the run's id, and the same debrief but for the id.
package decision
