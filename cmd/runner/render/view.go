package render

import "runner/reasoning"

// view shows the segments of a run to people: the summary before the answer, and the warnings at the end.
type view struct {
	streams Streams
	s       sections
	// show shows an event of a segment, and end what comes after the last one; it may be nil.
	show func(e reasoning.Event)
	end  func()
	// waits is what the spinner says while events are held; empty for no spinner.
	waits string

	posthoc  bool
	order    reasoning.SummaryFirst
	event    reasoning.Event
	warnings warnings
	err      error
}

// Render implements [Renderer].
func (v *view) Render(e reasoning.Event) error {
	if v.order.To == nil {
		v.order.To = v.take
	}
	v.event = e
	if v.order.Push(&v.event); v.order.Holds() && v.waits != "" {
		v.streams.Spinner.Set(v.waits)
	}
	return v.failed()
}

// take takes an event whose turn it is.
func (v *view) take(e *reasoning.Event) {
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil {
			v.posthoc = e.Info.Strategy == reasoning.StrategyPosthoc
		}
	case reasoning.Warning:
		v.warnings.add(*e)
	case reasoning.Done:
	default:
		v.show(*e)
	}
}

// failed returns the first write error.
func (v *view) failed() error {
	if v.err != nil {
		return v.err
	}
	return v.s.err
}

// Close implements [Renderer].
func (v *view) Close() error {
	v.order.Release()
	v.streams.Spinner.Stop()
	v.s.end()
	if v.end != nil {
		v.end()
	}
	if err := v.failed(); err != nil {
		return err
	}
	return v.warnings.write(v.streams.Err, v.streams.ErrTerminal)
}
