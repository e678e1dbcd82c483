package render

import (
	"io"
	"strings"

	"runner/reasoning"
)

// Select Graphic Rendition codes of ECMA-48.
const (
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

// sections writes labelled sections of text with an empty line between them.
type sections struct {
	w io.Writer
	// terminal says that w is a terminal, so text is cleaned. color allows styles.
	terminal, color bool
	// width is the width of the lines that text is broken into, or 0.
	width int

	open    bool     // a section is open
	styled  bool     // the dim style is on
	any     bool     // something was written
	wrap    *wrapper // breaks the lines of the open section, or nil
	pending bool     // the open section has no text yet, so leading newlines are dropped
	midline bool     // the last byte written was not a newline
	err     error
}

// begin closes the open section and opens a new one. An empty label is not written.
func (s *sections) begin(label string, faint bool) {
	s.end()
	if s.width > 0 {
		s.wrap = &wrapper{width: s.width}
	}
	if s.any {
		s.raw("\n")
	}
	s.open, s.pending = true, true
	if faint && s.color {
		s.style(dim)
		s.styled = true
	}
	if label != "" {
		s.raw(label + "\n")
	}
}

// text adds to the open section.
func (s *sections) text(t string) {
	if s.terminal {
		t = Clean(t)
	}
	if s.pending {
		if t = strings.TrimLeft(t, "\n"); t == "" {
			return
		}
		s.pending = false
	}
	if s.wrap != nil {
		t = s.wrap.add(t)
	}
	s.raw(t)
}

// verbatim leaves the lines of the open section as they are.
func (s *sections) verbatim() { s.wrap = nil }

// end closes the open section and leaves the cursor at the start of a line.
func (s *sections) end() {
	if !s.open {
		return
	}
	s.open = false
	if s.wrap != nil {
		s.raw(s.wrap.flush())
		s.wrap = nil
	}
	if s.styled {
		s.styled = false
		s.style(plain)
	}
	if s.midline {
		s.raw("\n")
	}
}

func (s *sections) raw(t string) {
	if s.err != nil || t == "" {
		return
	}
	_, s.err = io.WriteString(s.w, t)
	s.any = true
	s.midline = !strings.HasSuffix(t, "\n")
}

// style writes a code that takes no space on the terminal.
func (s *sections) style(code string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, code)
	}
}

// labelOf names the segment that an event opens.
func labelOf(e *reasoning.Event, posthoc bool) string {
	if e.Specialist != "" && (e.Segment == reasoning.Reasoning || e.Segment == reasoning.Preamble) {
		return "Specialist:"
	}
	return label(e.Segment, posthoc)
}

// label names a segment for people.
func label(seg reasoning.Segment, posthoc bool) string {
	switch seg {
	case reasoning.Reasoning:
		return "Reasoning:"
	case reasoning.Summary:
		if posthoc {
			return "Explanation, made after the answer (the model gave no reasoning):"
		}
		return "Summary of the reasoning:"
	case reasoning.Preamble:
		return "Before the call:"
	case reasoning.ToolCall:
		return "Tool call:"
	case reasoning.Answer:
		return "Answer:"
	}
	return ""
}
