package cli

import (
	"net/http"
	"time"

	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/server/agui"
	"runner/server/wire"
)

// aguiLines writes a run as AG-UI events, one a line. An AG-UI server sends the same events as the data of its frames.
type aguiLines struct {
	streams render.Streams
	enc     *agui.Encoder
	line    []byte
	// begun is set when the run has started, and done when it is complete.
	begun, done bool
	cancelled   func() bool
}

// newAGUILines returns a renderer that writes to s.Out. If the run ends early, cancelled reports whether it was
// cancelled.
func newAGUILines(s render.Streams, model, run string, cancelled func() bool) *aguiLines {
	l := &aguiLines{streams: s, cancelled: cancelled}
	l.enc = agui.NewEncoder(agui.EncoderConfig{
		ThreadID: wire.NewID(nil, "thread_"), RunID: run, ProtocolVersion: agui.ProtocolVersion, Model: model,
		Clock: time.Now,
		NewID: func(prefix string) string { return wire.NewID(nil, prefix) },
	}, l.write)
	return l
}

func (l *aguiLines) write(event []byte) error {
	l.line = append(append(l.line[:0], event...), '\n')
	_, err := l.streams.Out.Write(l.line)
	return err
}

// Render implements [render.Renderer].
func (l *aguiLines) Render(e reasoning.Event) error {
	l.streams.Spinner.Stop()
	l.begun, l.done = true, l.done || e.Kind == reasoning.Done
	return l.enc.Push(&e)
}

// Close implements [render.Renderer]. A run that ended early gets a RUN_ERROR. For a run that never began nothing is
// written.
func (l *aguiLines) Close() error {
	switch {
	case !l.begun || l.done:
		return nil
	case l.cancelled():
		return l.enc.Fail(wire.Errorf(wire.StatusClientClosed, wire.CodeClientCancelled, "the run was interrupted"))
	}
	return l.enc.Fail(wire.Errorf(http.StatusInternalServerError, wire.CodeInternal, "the run failed"))
}
