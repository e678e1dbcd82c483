package reader

import (
	"strings"

	"runner/reasoning"
)

// isReport reports whether a harmony message is a call of report_reasoning.
func (s *harmonyReader) isReport(r reading) bool {
	return s.cfg.Report && strings.TrimPrefix(r.recipient, "functions.") == reasoning.ReportReasoningName
}

// report takes text of a harmony message that is a call of report_reasoning.
func (s *harmonyReader) report(text string) {
	r := &s.object
	text = text[r.feed(text):]
	if !r.ended() {
		return
	}
	text = string(r.left) + text
	rest := strings.TrimLeft(text, " \t\r\n")
	r.left = r.left[:0]
	r.drop(len(text) - len(rest))
	if rest != "" {
		r.warn(CodeMalformedObject)
		r.plain()
		r.text(rest)
	}
}

// endReport ends a call of report_reasoning.
func (s *core) endReport() {
	s.object.finish()
	s.out.reported = true
}
