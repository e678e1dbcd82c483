package render

import "runner/reasoning"

// summaryFirst puts a run's summary before the rest of it: the model writes summary and answer side by side, and
// where both end up in one place they would be mixed. Without a summary nothing is held.
type summaryFirst struct {
	holding bool
	held    []reasoning.Event
}

// start notes what a run shows.
func (o *summaryFirst) start(info *reasoning.Info) {
	o.holding = info != nil && info.Visibility == reasoning.VisibilitySummary
}

// pass shows an event of a segment, now or when the summary is complete, and reports whether it was held.
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

// release shows what is held.
func (o *summaryFirst) release(show func(reasoning.Event)) {
	o.holding = false
	for _, e := range o.held {
		show(e)
	}
	o.held = nil
}
