package cli

import (
	"net/http"
	"time"

	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/server/agui"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
	"runner/server/wire"
)

// lines writes a run as the messages of a protocol, one a line. It implements [render.Renderer].
type lines struct {
	streams render.Streams
	// push encodes an event, and end completes the messages of a run that began. done says that it is complete.
	push func(e *reasoning.Event) error
	end  func(done bool) error
	// begin writes what comes before the first event. It may be nil.
	begin       func() error
	begun, done bool
}

// Render implements [render.Renderer].
func (l *lines) Render(e reasoning.Event) error {
	l.streams.Spinner.Stop()
	if !l.begun && l.begin != nil {
		if err := l.begin(); err != nil {
			return err
		}
	}
	l.begun, l.done = true, l.done || e.Kind == reasoning.Done
	return l.push(&e)
}

// Close implements [render.Renderer].
func (l *lines) Close() error { return l.end(l.done) }

// newAGUILines returns a renderer that writes AG-UI events, which an AG-UI server sends as the data of its frames. A
// run that ended early gets a RUN_ERROR; cancelled reports whether it was cancelled. For a run that never began nothing
// is written.
func newAGUILines(s render.Streams, model, run string, cancelled func() bool) *lines {
	enc := agui.NewEncoder(agui.EncoderConfig{
		ThreadID: wire.NewID(nil, "thread_"), RunID: run, ProtocolVersion: agui.ProtocolVersion, Model: model,
		Clock: time.Now,
		NewID: func(prefix string) string { return wire.NewID(nil, prefix) },
	}, wire.NewJSON(s.Out).Encode)
	l := &lines{streams: s, push: func(e *reasoning.Event) error { return enc.Push(0, e) }}
	l.end = func(done bool) error {
		switch {
		case !l.begun || done:
			return nil
		case cancelled():
			return enc.Fail(wire.Errorf(wire.StatusClientClosed, wire.CodeClientCancelled, "the run was interrupted"))
		}
		return enc.Fail(wire.Errorf(http.StatusInternalServerError, wire.CodeInternal, "the run failed"))
	}
	return l
}

// newMEWLines returns a renderer that writes MEW envelopes: the prompt as a chat message from user, then the messages
// from runner. It concludes the reasoning of a run whose calls nobody answers, and of one that ended early; cancelled
// reports whether that was cancelled.
func newMEWLines(s render.Streams, prompt string, cancelled func() bool) *lines {
	body, _ := envelope.Pack(envelope.ChatText{Text: prompt, Format: "plain"}) // packing a text cannot fail
	question := &envelope.Envelope{ID: space.NewID(), Time: time.Now(), From: "user", Kind: envelope.Chat, Payload: body}
	var line []byte
	write := func(e *envelope.Envelope) (err error) {
		if line, err = e.Append(line[:0]); err == nil {
			_, err = s.Out.Write(append(line, '\n')) // the next envelope overwrites the line
		}
		return err
	}
	enc := encoder.New(encoder.Config{From: "runner", Trigger: question.ID, Clock: time.Now, NewID: space.NewID}, write)
	return &lines{streams: s, push: enc.Push, begin: func() error { return write(question) }, end: func(done bool) error {
		switch {
		case done:
			return enc.End()
		case cancelled():
			return enc.Cancel("cancelled", "")
		}
		return enc.Cancel("error", "")
	}}
}
