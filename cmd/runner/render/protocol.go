package render

import "runner/reasoning"

// Protocol writes a run as the messages of a protocol, one a line. It implements [Renderer].
type Protocol struct {
	Streams Streams
	// Begin writes what comes before the first event. It may be nil.
	Begin func() error
	// Push encodes an event.
	Push func(e *reasoning.Event) error
	// End completes the messages of a run that began. done says that it is complete.
	End func(done bool) error

	begun, done bool
}

// Render implements [Renderer].
func (p *Protocol) Render(e reasoning.Event) error {
	p.Streams.Spinner.Stop()
	if !p.begun && p.Begin != nil {
		if err := p.Begin(); err != nil {
			return err
		}
	}
	p.begun, p.done = true, p.done || e.Kind == reasoning.Done
	return p.Push(&e)
}

// Close implements [Renderer]. For a run that never began nothing is written.
func (p *Protocol) Close() error {
	if !p.begun {
		return nil
	}
	return p.End(p.done)
}
