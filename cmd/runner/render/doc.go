// Package render writes the events of a run for people and programs: to a terminal, to pipes, as one JSON object,
// as JSON lines.
//
// A renderer receives the events that a run's visibility lets through and decides only how they look: it holds no
// model logic and hides nothing that an event carries. Text that goes to a terminal is cleaned of control
// characters, so that a model's output cannot steer it; text that goes to a pipe is passed byte for byte.
//
// A renderer belongs to one run and one goroutine.
package render

import (
	"io"

	"runner/reasoning"
)

// Streams is where a renderer writes.
type Streams struct {
	Out, Err io.Writer
	// OutTerminal and ErrTerminal say that they are terminals, and Color that terminals may be styled.
	OutTerminal, ErrTerminal, Color bool
	// Spinner, when not nil, is stopped before the first text.
	Spinner *Spinner
}

// Renderer writes one run.
type Renderer interface {
	// Render writes what an event adds. An error is one of writing.
	Render(e reasoning.Event) error
	// Close completes the output, after Done or when the run ended early. It leaves a terminal at the start of a
	// line in its normal style.
	Close() error
}
