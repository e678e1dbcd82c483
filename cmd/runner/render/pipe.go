package render

import (
	"encoding/json"
	"io"
	"strings"

	"runner/reasoning"
)

// Pipe writes a run for a program. The answer goes to Out, byte for byte, with a newline at its end. Tool calls also
// go to Out, one JSON object a line. Everything else goes to Err. The summary comes before the answer, because both
// streams may end up in one file.
type Pipe struct {
	view
	midline bool // the answer's last byte was not a newline
	call    strings.Builder
}

// NewPipe returns a renderer for streams whose Out is not a terminal.
func NewPipe(s Streams) *Pipe {
	p := &Pipe{view: view{streams: s, s: sections{w: s.Err, terminal: s.ErrTerminal, color: s.Color && s.ErrTerminal}}}
	p.show = p.segment
	p.end = func() {
		if p.midline {
			p.midline = false
			p.write("\n")
		}
	}
	return p
}

func (p *Pipe) segment(e reasoning.Event) {
	switch e.Segment {
	case reasoning.Header:
	case reasoning.Answer:
		p.answer(e)
	case reasoning.ToolCall:
		p.toolCall(e)
	default:
		p.aside(e)
	}
}

func (p *Pipe) answer(e reasoning.Event) {
	if e.Kind == reasoning.SegmentDelta && e.Text != "" {
		p.streams.Spinner.Stop()
		p.write(e.Text)
		p.midline = !strings.HasSuffix(e.Text, "\n")
	}
}

func (p *Pipe) toolCall(e reasoning.Event) {
	switch e.Kind {
	case reasoning.SegmentStart:
		p.call.Reset()
	case reasoning.SegmentDelta:
		p.call.WriteString(e.Text)
	case reasoning.SegmentEnd:
		p.streams.Spinner.Stop()
		if p.midline {
			p.midline = false
			p.write("\n")
		}
		var line struct {
			Call struct {
				ID        string `json:"id"`
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"tool_call"`
		}
		line.Call.ID, line.Call.Name, line.Call.Arguments = e.Call.ID, e.Call.Name, p.call.String()
		b, err := json.Marshal(line)
		if err != nil {
			p.err = err
			return
		}
		p.write(string(b) + "\n")
	}
}

// aside writes reasoning, summaries and preambles to standard error.
func (p *Pipe) aside(e reasoning.Event) {
	switch e.Kind {
	case reasoning.SegmentStart:
		p.streams.Spinner.Stop()
		p.s.begin(labelOf(&e, p.posthoc), true)
	case reasoning.SegmentDelta:
		p.s.text(e.Text)
	case reasoning.SegmentEnd:
		p.s.end()
	}
}

func (p *Pipe) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.streams.Out, s)
	}
}
