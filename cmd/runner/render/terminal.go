package render

import (
	"fmt"
	"io"
	"strings"

	"runner/reasoning"
)

// Terminal shows a run to a person: reasoning dimmed and labelled, then the answer.
//
// Under visibility summary it holds the answer back until the summary is complete: the two are generated at the same
// time, but a person reads one after the other.
type Terminal struct {
	view
	labelled bool // something precedes the answer, so without colour the answer needs a label
}

// NewTerminal returns a renderer for s.Out, a terminal. After the run it writes warnings to s.Err, one line each.
// Without colour the answer is labelled as well.
func NewTerminal(s Streams) *Terminal {
	t := &Terminal{view: view{streams: s, s: sections{w: s.Out, terminal: true, color: s.Color, width: s.Width},
		waits: "summarising"}}
	t.show = t.segment
	return t
}

func (t *Terminal) segment(e reasoning.Event) {
	if e.Segment == reasoning.Header {
		return
	}
	switch e.Kind {
	case reasoning.SegmentStart:
		t.streams.Spinner.Stop()
		switch e.Segment {
		case reasoning.Answer:
			name := ""
			if t.labelled && !t.streams.Color {
				name = label(reasoning.Answer, false)
			}
			t.s.begin(name, false)
		case reasoning.ToolCall:
			t.s.begin(label(e.Segment, false), false)
			t.s.verbatim()
			t.s.text(fmt.Sprintf("  %s ", e.Call.Name))
			t.labelled = true
		default:
			t.s.begin(labelOf(&e, t.posthoc), e.Segment != reasoning.Preamble)
			t.labelled = true
		}
	case reasoning.SegmentDelta:
		t.s.text(e.Text)
	case reasoning.SegmentEnd:
		t.s.end()
	}
}

// warnings collects warnings, so that they do not interrupt the text.
type warnings []reasoning.Event

func (w *warnings) add(e reasoning.Event) { *w = append(*w, e) }

func (w *warnings) write(to io.Writer, terminal bool) error {
	for _, e := range *w {
		if _, err := fmt.Fprintln(to, WarningLine(e.Code, e.Text, terminal)); err != nil {
			return err
		}
	}
	*w = nil
	return nil
}

// WarningLine formats a warning as one line for standard error.
func WarningLine(code, text string, terminal bool) string {
	line := fmt.Sprintf("runner: warning: %s (%s)", text, code)
	if terminal {
		return CleanLine(line)
	}
	return strings.ReplaceAll(line, "\n", " ")
}
