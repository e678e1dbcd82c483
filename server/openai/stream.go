package openai

import (
	"net/http"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// stream is an answer as server-sent events.
type stream struct {
	reqs []generation.Request
	// form is the field with the answer's form.
	form string
	// encoder makes the encoder of a choice.
	encoder func(choice int, send func(frame []byte) error) encoder
	// last makes the frame after all choices; nil if there is none.
	last func([]*reasoning.Result) []byte
}

// encoder turns the events of a choice into frames.
type encoder interface {
	Push(e reasoning.Event) error
	// outcome returns the choice's result after its end.
	outcome() *reasoning.Result
}

// streamEnd is the last frame of every stream.
var streamEnd = []byte("[DONE]")

// serve generates and streams. It writes nothing until all choices have started, so that an error until then gets its
// HTTP status. A later error is sent as a frame.
func (a *API) serve(w http.ResponseWriter, r *http.Request, m wire.Model, s *stream) error {
	var out *wire.Stream
	defer func() { out.End() }()
	send := func(frame []byte) error { return out.Send("", frame) }
	encoders := make([]encoder, len(s.reqs))
	for i := range encoders {
		encoders[i] = s.encoder(i, send)
	}
	begin := func() { out = wire.NewEvents(w) }
	if len(s.reqs) == 1 {
		begin = func() { out = wire.NewEvents(w).Hold() }
		s.reqs[0].Idle = func() { out.Flush() }
	}
	err := generate(r.Context(), m, s.reqs, begin, func(choice int, e reasoning.Event) error {
		return encoders[choice].Push(e)
	})
	if out == nil {
		return wireError(err, s.form)
	}
	switch {
	case err != nil:
		_ = send(appendJSON(nil, apierror.New(wireError(err, s.form)))) // the client may be gone
	case s.last != nil:
		results := make([]*reasoning.Result, len(encoders))
		for i, e := range encoders {
			results[i] = e.outcome()
		}
		_ = send(s.last(results))
	}
	_ = send(streamEnd)
	return nil
}
