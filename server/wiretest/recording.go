package wiretest

import (
	"iter"
	"slices"
	"strings"

	"runner/generation"
	"runner/reasoning"
)

// Canary is in every text of a recording that is reasoning or that only visibility full shows: the reasons for calls,
// assumptions, a specialist's prompt and text, and the error of an engine that quotes its input. SummaryCanary is in
// every summary.
const (
	Canary        = "marigold-7f3a91"
	SummaryCanary = "periwinkle-44c0d2"
)

// Recording has the events of a run between Started and Done, before the visibility policy.
type Recording struct {
	// Name says what the recording shows.
	Name   string
	Events []reasoning.Event
	// Result is the result in Done; left out if Err ends the run.
	Result reasoning.Result
	// Err ends the run after its events. Refused says that it ends the run before Started.
	Err     error
	Refused bool
}

// Thoughts returns the run's reasoning, that of specialists included.
func (r *Recording) Thoughts() string {
	var b strings.Builder
	for _, e := range r.Events {
		if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Reasoning {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// Play yields the run with a request's visibility, as [wire.Model] would after the policy. The observer seals the run's
// reasoning if the request asks for it. A summary is included only with visibility summary.
func (r *Recording) Play(req *generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error] {
	v := req.Visibility
	return func(yield func(reasoning.Event, error) bool) {
		if r.Refused {
			yield(reasoning.Event{}, r.Err)
			return
		}
		info := reasoning.Info{Model: "demo", Visibility: v, Effort: "low", Strategy: reasoning.StrategyNative, Seed: 7,
			Prompt: Usage.Prompt}
		events := append([]reasoning.Event{{Kind: reasoning.Started, Info: &info}}, r.Events...)
		if r.Err == nil {
			result := r.Result
			if v != reasoning.VisibilitySummary {
				result.SummarySource, result.Usage.Summary = "", 0
			}
			events = append(events, reasoning.Event{Kind: reasoning.Done, Result: &result})
		}
		var thoughts strings.Builder
		settles := r.settles()
		for _, e := range events {
			if e.Segment == reasoning.Reasoning && req.Seal {
				if thoughts.WriteString(e.Text); e.Kind == reasoning.SegmentEnd && thoughts.Len() > 0 {
					value, err := o.Seal(thoughts.String())
					if err != nil {
						yield(reasoning.Event{}, err)
						return
					}
					if thoughts.Reset(); !yield(reasoning.Event{Kind: reasoning.Sealed, Text: value, Specialist: e.Specialist}, nil) {
						return
					}
				}
			}
			if e.Segment == reasoning.Summary && v != reasoning.VisibilitySummary || !v.Shows(&e) {
				continue
			}
			if e.Kind == reasoning.StrategySwitched {
				switched := info
				switched.Strategy = e.Info.Strategy
				e.Info = &switched
			}
			if !yield(e, nil) {
				return
			}
			if v == reasoning.VisibilitySummary && settles(&e) {
				settles = func(*reasoning.Event) bool { return false }
				if !yield(reasoning.Event{Kind: reasoning.SummarySettled}, nil) {
					return
				}
			}
		}
		if r.Err != nil {
			yield(reasoning.Event{}, r.Err)
		}
	}
}

// settles returns a function that reports whether the summary is settled after an event: at its end if it begins before
// the answer or call ends, else where that begins.
func (r *Recording) settles() func(e *reasoning.Event) bool {
	at := func(kind reasoning.Kind, segments ...reasoning.Segment) int {
		return slices.IndexFunc(r.Events, func(e reasoning.Event) bool {
			return e.Kind == kind && slices.Contains(segments, e.Segment)
		})
	}
	summary := at(reasoning.SegmentStart, reasoning.Summary)
	said := at(reasoning.SegmentEnd, reasoning.Answer, reasoning.ToolCall)
	if summary >= 0 && (said < 0 || summary < said) {
		return func(e *reasoning.Event) bool {
			return e.Kind == reasoning.SegmentEnd && e.Segment == reasoning.Summary
		}
	}
	return func(e *reasoning.Event) bool {
		return e.Kind == reasoning.SegmentStart && (e.Segment == reasoning.Answer || e.Segment == reasoning.ToolCall)
	}
}

// opened returns the events of a segment without its end.
func opened(events []reasoning.Event) []reasoning.Event {
	return events[: len(events)-1 : len(events)-1]
}

// by makes the events of a segment those of the specialist with an id.
func by(id string, events []reasoning.Event) []reasoning.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Specialist = id
	}
	return events
}
