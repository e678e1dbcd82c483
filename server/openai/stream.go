package openai

import (
	"net/http"

	"runner/reasoning"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// reply is an answer that grows with the events of its choices. It is streamed as chunks, or complete at the end.
type reply interface {
	// push takes the next event of a choice; Done is the last.
	push(choice int, e *reasoning.Event) error
	// last returns the chunk with the usage, which comes after all choices.
	last() any
	// complete returns the whole answer. It must not have been streamed.
	complete() any
}

// respond carries out the runs of the choices and answers. begin makes the answer, see [chatOrder.reply].
func (a *API) respond(w http.ResponseWriter, r *http.Request, m wire.Model, d *order, runs []wire.Run,
	begin func(send func(chunk any) error) reply) (err error) {
	if d.stream {
		err = wire.Streamed(w, r, m, runs, wire.NewEvents, func(to *wire.Stream) wire.Encoder {
			return &stream{to, begin(func(chunk any) error { return to.Send("", chunk) }), d}
		})
	} else {
		whole := begin(nil)
		if err = wire.Generate(r.Context(), m, runs, func() {}, whole.push); err == nil {
			return wire.Answer(w, whole.complete())
		}
	}
	if err != nil {
		return wireError(err, d.form)
	}
	return nil
}

// stream is an answer as server-sent events.
type stream struct {
	to *wire.Stream
	reply
	order *order
}

// Push implements [wire.Encoder].
func (s *stream) Push(choice int, e *reasoning.Event) error { return s.push(choice, e) }

// End implements [wire.Encoder].
func (s *stream) End(err error) {
	switch {
	case err != nil:
		_ = s.to.Send("", apierror.New(wireError(err, s.order.form)))
	case s.order.usage:
		_ = s.to.Send("", s.last())
	}
	_ = s.to.SendLine("", []byte("[DONE]"))
}
