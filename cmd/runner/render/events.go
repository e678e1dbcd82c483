package render

import (
	"encoding/json"

	"runner/reasoning"
)

// Events writes every event as one line of JSON as it happens.
type Events struct {
	streams Streams
	enc     *json.Encoder
}

// NewEvents returns a renderer that writes to s.Out.
func NewEvents(s Streams) *Events {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	return &Events{streams: s, enc: enc}
}

// Render implements [Renderer].
func (r *Events) Render(e reasoning.Event) error {
	r.streams.Spinner.Stop()
	return r.enc.Encode(e)
}

// Close implements [Renderer].
func (r *Events) Close() error { return nil }
