package render

import "runner/reasoning"

// summaryFirst shows a run's summary before its answer. The model writes the two at the same time, so they would mix
// in one output. Without a summary nothing is held back.
type summaryFirst struct {
	holding bool
	held    []reasoning.Event
}

// start begins to hold events if the run shows a summary.
func (o *summaryFirst) start(info *reasoning.Info) {
	o.holding = info != nil && info.Visibility == reasoning.VisibilitySummary
}

// pass shows an event of a segment now, or holds it until the summary is complete. It reports whether it held it.
func (o *summaryFirst) pass(e reasoning.Event, show func(reasoning.Event)) (held bool) {
	if o.holding && e.Segment != reasoning.Summary && e.Segment != reasoning.Reasoning {
		o.held = append(o.held, e)
		return true
	}
	show(e)
	if o.holding && e.Kind == reasoning.SegmentEnd && e.Segment == reasoning.Summary {
		o.release(show)
	}
	return false
}

// release shows the held events.
func (o *summaryFirst) release(show func(reasoning.Event)) {
	o.holding = false
	for _, e := range o.held {
		show(e)
	}
	o.held = nil
}
