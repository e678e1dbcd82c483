// Package room adds MEW: the command mew, a space of the command serve, and an output of run.
package room

import (
	"time"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/render"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

func init() {
	cli.Register(cli.Room{Name: "mew", Commands: commands, Serve: serve,
		Output: &cli.Output{Name: "mew", Lines: "MEW envelopes", New: newLines}})
}

// newLines returns a renderer that writes MEW envelopes: the prompt as a chat message from user, then the messages from
// runner. It concludes the reasoning of a run whose calls nobody answers, and of one that ended early.
func newLines(s render.Streams, q cli.Asked) render.Renderer {
	body, _ := envelope.Pack(envelope.ChatText{Text: q.Prompt, Format: "plain"}) // packing a text cannot fail
	question := &envelope.Envelope{ID: space.NewID(), Time: time.Now(), From: "user", Kind: envelope.Chat, Payload: body}
	var line []byte
	write := func(e *envelope.Envelope) (err error) {
		if line, err = e.Append(line[:0]); err == nil {
			_, err = s.Out.Write(append(line, '\n')) // the next envelope overwrites the line
		}
		return err
	}
	enc := encoder.New(encoder.Config{From: "runner", Trigger: question.ID, Clock: time.Now, NewID: space.NewID}, write)
	return &render.Protocol{Streams: s, Push: enc.Push, Begin: func() error { return write(question) },
		End: func(done bool) error {
			switch {
			case done:
				return enc.End()
			case q.Interrupted():
				return enc.Cancel("cancelled", "")
			}
			return enc.Cancel("error", "")
		}}
}
