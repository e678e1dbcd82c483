package wiretest

import (
	"iter"
	"slices"
	"strings"

	"runner/reasoning"
)

// Canary stands in everything of a recording that is reasoning, also what only visibility full shows: the reasons
// for calls, what is assumed, a specialist's prompt and text, the error of an engine that quotes what it worked on.
// SummaryCanary stands in every summary.
const (
	Canary        = "marigold-7f3a91"
	SummaryCanary = "periwinkle-44c0d2"
)

// Recording is a run as the runner has it before the visibility policy, between Started and Done.
type Recording struct {
	// Name says what the recording shows.
	Name   string
	Events []reasoning.Event
	// Result is what Done carries; it is left out where Err ends the run.
	Result reasoning.Result
	// Err ends the run after its events, and Refused says that it does so before Started.
	Err     error
	Refused bool
}

// Thoughts is the run's reasoning, the specialists' included.
func (r *Recording) Thoughts() string {
	var b strings.Builder
	for _, e := range r.Events {
		if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Reasoning {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// Play is the run with a visibility, through the policy, as [wire.Model] gives it. seal gets the run's
// reasoning, whatever is visible; nil seals nothing. A summary is there only with visibility summary.
func (r *Recording) Play(v reasoning.Visibility, seal func(thoughts string, calls bool) (string,
	error)) iter.Seq2[reasoning.Event, error] {
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
			if thoughts := r.Thoughts(); seal != nil && thoughts != "" {
				calls := slices.ContainsFunc(r.Events, func(e reasoning.Event) bool { return e.Segment == reasoning.ToolCall })
				sealed, err := seal(thoughts, calls)
				if err != nil {
					yield(reasoning.Event{}, err)
					return
				}
				result.Sealed = sealed
			}
			events = append(events, reasoning.Event{Kind: reasoning.Done, Result: &result})
		}
		for _, e := range events {
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
		}
		if r.Err != nil {
			yield(reasoning.Event{}, r.Err)
		}
	}
}

// opened is the events of a segment up to where it would be closed.
func opened(events []reasoning.Event) []reasoning.Event {
	return events[: len(events)-1 : len(events)-1]
}

// by makes events of a segment those of the specialist with an id.
func by(id string, events []reasoning.Event) []reasoning.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Specialist = id
	}
	return events
}
