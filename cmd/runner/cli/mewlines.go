package cli

import (
	"time"

	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// mewLines writes a run as MEW envelopes, one a line: the prompt as a chat message from user, then the messages from
// runner.
type mewLines struct {
	streams  render.Streams
	question *envelope.Envelope
	enc      *encoder.Encoder
	line     []byte
	// begun is set when the run has started, and done when it is complete.
	begun, done bool
	cancelled   func() bool
}

// newMEWLines returns a renderer that writes to s.Out. If the run ends early, cancelled reports whether it was
// cancelled.
func newMEWLines(s render.Streams, prompt string, cancelled func() bool) *mewLines {
	l := &mewLines{streams: s, cancelled: cancelled}
	body, _ := envelope.Pack(envelope.ChatText{Text: prompt, Format: "plain"}) // packing a text cannot fail
	l.question = &envelope.Envelope{ID: space.NewID(), Time: time.Now(), From: "user", Kind: envelope.Chat, Payload: body}
	l.enc = encoder.New(encoder.Config{From: "runner", Trigger: l.question.ID, Clock: time.Now, NewID: space.NewID},
		l.write)
	return l
}

func (l *mewLines) write(e *envelope.Envelope) (err error) {
	if l.line, err = e.Append(l.line[:0]); err == nil {
		_, err = l.streams.Out.Write(append(l.line, '\n'))
	}
	return err
}

// Render implements [render.Renderer].
func (l *mewLines) Render(e reasoning.Event) error {
	l.streams.Spinner.Stop()
	if !l.begun {
		l.begun = true
		if err := l.write(l.question); err != nil {
			return err
		}
	}
	l.done = l.done || e.Kind == reasoning.Done
	return l.enc.Push(&e)
}

// Close implements [render.Renderer]. It concludes the reasoning of a run whose calls nobody answers.
func (l *mewLines) Close() error {
	switch {
	case l.done:
		return l.enc.End()
	case l.cancelled():
		return l.enc.Cancel("cancelled", "")
	}
	return l.enc.Cancel("error", "")
}
