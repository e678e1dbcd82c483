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
	streams  Streams
	s        sections
	order    summaryFirst
	posthoc  bool
	midline  bool // the answer's last byte was not a newline
	call     strings.Builder
	warnings warnings
	err      error
}

// NewPipe returns a renderer for streams whose Out is not a terminal.
func NewPipe(s Streams) *Pipe {
	return &Pipe{streams: s, s: sections{w: s.Err, terminal: s.ErrTerminal, color: s.Color && s.ErrTerminal}}
}

// Render implements [Renderer].
func (p *Pipe) Render(e reasoning.Event) error {
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Kind == reasoning.Started {
			p.order.start(e.Info)
		}
		p.posthoc = e.Info != nil && e.Info.Strategy == reasoning.StrategyPosthoc
	case reasoning.Warning:
		p.warnings.add(e)
	case reasoning.Done:
		p.order.release(p.segment)
	default:
		p.order.pass(e, p.segment)
	}
	if p.err != nil {
		return p.err
	}
	return p.s.err
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

// Close implements [Renderer].
func (p *Pipe) Close() error {
	p.order.release(p.segment)
	p.streams.Spinner.Stop()
	p.s.end()
	if p.midline {
		p.midline = false
		p.write("\n")
	}
	if p.err != nil {
		return p.err
	}
	if p.s.err != nil {
		return p.s.err
	}
	return p.warnings.write(p.streams.Err, p.streams.ErrTerminal)
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
