// Package render writes the events of a run for people and programs: to a terminal, to pipes, as one JSON object,
// or as JSON lines.
//
// A renderer receives events that the run's visibility has already filtered. It decides only how they look: it has no
// model logic and hides nothing that an event carries. Control characters are removed from text that goes to a
// terminal, so that a model cannot control the terminal. Text that goes to a pipe is passed on byte for byte.
//
// Use a renderer for one run and from one goroutine.
package render

import (
	"io"

	"runner/reasoning"
)

// Streams is where a renderer writes.
type Streams struct {
	Out, Err io.Writer
	// OutTerminal and ErrTerminal report whether Out and Err are terminals. Color allows styles on terminals.
	OutTerminal, ErrTerminal, Color bool
	// Width is the width to which a terminal's lines of text are broken between words, in columns. 0 breaks none.
	Width int
	// Spinner may be nil. Otherwise it is stopped before the first text.
	Spinner *Spinner
}

// Renderer writes one run.
type Renderer interface {
	// Render writes what an event adds. It returns only write errors.
	Render(e reasoning.Event) error
	// Close completes the output, after Done or when the run ended early. It leaves a terminal in its normal style,
	// at the start of a line.
	Close() error
}
