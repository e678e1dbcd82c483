package reasoning

import "strings"

// reportState is how far a call in text is known to be one of report_reasoning.
type reportState uint8

const (
	reportNone   reportState = iota // it is another, or must be read whole
	reportSought                    // its beginning has not come
	reportStreams
	reportDone // its arguments have been sent
)

// reportForms are the beginnings of calls of report_reasoning, up to their arguments, with white space allowed between the parts.
var reportForms = [][]string{
	{"{", `"name"`, ":", `"` + ReportReasoningName + `"`, ",", `"arguments"`, ":", "{"},
	{"{", `"name"`, ":", `"` + ReportReasoningName + `"`, ",", `"parameters"`, ":", "{"},
	{"[", "{", `"name"`, ":", `"` + ReportReasoningName + `"`, ",", `"arguments"`, ":", "{"},
	{ReportReasoningName, "[ARGS]", "{"},
}

// reportArguments returns where in the beginning of a call the arguments of report_reasoning begin; 0 where that cannot be told yet,
// -1 where the call is another, or in a form that must be read whole.
func reportArguments(text string) int {
	at := -1
	for _, form := range reportForms {
		at = max(at, matchForm(text, form))
	}
	return at
}

func matchForm(text string, form []string) int {
	rest := text
	for _, part := range form {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if len(rest) < len(part) && strings.HasPrefix(part, rest) {
			return 0
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, part); !ok {
			return -1
		}
	}
	return len(text) - len(rest) - 1
}

// seekReport looks whether the call that is being collected is one of report_reasoning. If so, its arguments are sent as they come, and
// {} takes their place in the call.
func (m *tagMachine) seekReport() {
	text := m.call.String()
	at := reportArguments(text)
	switch {
	case at < 0:
		m.report = reportNone
	case at > 0:
		m.call.Reset()
		m.call.WriteString(text[:at])
		m.call.WriteString("{}")
		m.sent = m.call.Len()
		m.beginReport(text[at:])
	}
}

func (m *tagMachine) beginReport(arguments string) {
	m.report = reportStreams
	m.s.object.reset(true, false)
	m.reportText(arguments)
}

// reportText reads arguments, whose bytes have left the ledger before.
func (m *tagMachine) reportText(text string) {
	s, on := m.s, m.s.out.ledger.on
	s.out.ledger.on = false
	n := s.object.feed(text)
	s.out.ledger.on = on
	if s.object.ended() {
		m.report = reportDone
		s.endReport()
		m.call.WriteString(text[n:])
	}
}

// endStreamed ends arguments that broke off.
func (m *tagMachine) endStreamed() {
	if m.report == reportStreams {
		m.report = reportDone
		on := m.s.out.ledger.on
		m.s.out.ledger.on = false
		m.s.endReport()
		m.s.out.ledger.on = on
	}
}

// isReport reports whether a harmony message is a call of report_reasoning.
func (s *Splitter) isReport(r reading) bool {
	return s.cfg.Report && strings.TrimPrefix(r.recipient, "functions.") == ReportReasoningName
}

// report takes text of a harmony message that is a call of report_reasoning.
func (s *Splitter) report(text string) {
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
func (s *Splitter) endReport() {
	s.object.finish()
	s.out.reported = true
}
