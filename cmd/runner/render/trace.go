package render

import (
	"encoding/json"

	"runner/reasoning"
	"runner/reasoning/decision"
)

// Trace writes the trace of a run's decisions as JSON lines.
type Trace struct {
	streams   Streams
	tracer    *decision.Tracer
	cancelled func() bool
	err       error
}

// NewTrace returns a renderer that writes to s.Out. If the run ends early, cancelled reports whether it was
// cancelled.
func NewTrace(s Streams, cfg decision.Config, cancelled func() bool) *Trace {
	t := &Trace{streams: s, cancelled: cancelled}
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	t.tracer = decision.NewTracer(cfg, func(e decision.Event) {
		if t.err == nil {
			t.err = enc.Encode(e)
		}
	})
	return t
}

// Render implements [Renderer].
func (t *Trace) Render(e reasoning.Event) error {
	t.streams.Spinner.Stop()
	t.tracer.Push(e)
	return t.err
}

// Close implements [Renderer].
func (t *Trace) Close() error {
	t.tracer.End(t.cancelled())
	return t.err
}
