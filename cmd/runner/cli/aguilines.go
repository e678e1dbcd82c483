package cli

import (
	"net/http"
	"time"

	"runner/cmd/runner/render"
	"runner/reasoning"
	"runner/server/agui"
	"runner/server/wire"
)

// aguiLines writes a run as the events of AG-UI, one a line: what a server of AG-UI sends as the data of its frames.
type aguiLines struct {
	streams render.Streams
	enc     *agui.Encoder
	line    []byte
	// begun and done say that the run has started, and that it came to its end.
	begun, done bool
	cancelled   func() bool
}

// newAGUILines returns a renderer that writes to s.Out. cancelled is asked at the end of a run that broke off.
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

// Close implements [render.Renderer]. A run that broke off ends with RUN_ERROR, one that never began with nothing.
func (l *aguiLines) Close() error {
	switch {
	case !l.begun || l.done:
		return nil
	case l.cancelled():
		return l.enc.Fail(wire.Errorf(wire.StatusClientClosed, wire.CodeClientCancelled, "the run was interrupted"))
	}
	return l.enc.Fail(wire.Errorf(http.StatusInternalServerError, wire.CodeInternal, "the run failed"))
}
