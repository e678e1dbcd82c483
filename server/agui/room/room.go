// Package room adds AG-UI to the commands serve and run.
package room

import (
	"time"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/server/agui"
	"runner/server/wire"
)

func init() {
	cli.Register(cli.Room{Name: "agui", Serve: serve,
		Output: &cli.Output{Name: "agui", Lines: "AG-UI events", Phases: true, New: newLines}})
}

func serve(h *cli.Host) cli.Serving {
	return cli.Serving{Formats: func() ([]wire.Format, error) {
		return []wire.Format{agui.New(h, h.Config)}, nil
	}}
}

// newLines returns a renderer that writes AG-UI events, which an AG-UI server sends as the data of its frames. A run
// that was interrupted has the outcome cancelled, and one that failed gets a RUN_ERROR.
func newLines(s render.Streams, q cli.Asked) render.Renderer {
	enc := agui.NewEncoder(agui.EncoderConfig{
		ThreadID: wire.NewID(nil, "thread_"), RunID: q.Run, ProtocolVersion: agui.ProtocolVersion, Model: q.Model,
		Clock: time.Now,
		NewID: func(prefix string) string { return wire.NewID(nil, prefix) },
	}, wire.NewJSON(s.Out).Encode)
	return &render.Protocol{Streams: s, Push: func(e *reasoning.Event) error { return enc.Push(0, e) },
		End: func(done bool) error {
			switch {
			case done:
				return nil
			case q.Interrupted():
				return enc.Fail(wire.Errorf(wire.CodeClientCancelled, "the run was interrupted"))
			}
			return enc.Fail(wire.Errorf(wire.CodeInternal, "the run failed"))
		}}
}
