package reasoning

import (
	"encoding/json"
	"slices"
	"strings"
)

// callStyle is a way in which models without channels write tool calls: a JSON object or a list of them, with the keys name
// and arguments (or parameters), after open and up to close or the end of the turn.
type callStyle struct {
	open, close string
	// special says that the style exists only where the vocabulary has open as a token.
	special bool
}

const pythonTag = "<|python_tag|>"

var callStyles = [...]callStyle{
	{open: "<tool_call>", close: "</tool_call>"}, // Hermes, Qwen
	{open: "[TOOL_CALLS]", special: true},        // Mistral
	{open: pythonTag, special: true},             // Llama 3
	bareStyle:                                    {}, // Llama 3: the whole answer
}

const bareStyle = 3

// maxCall is about the most bytes of a tool call in text. A longer one is text of the answer.
const maxCall = 1 << 20

// enterCall begins to collect a call.
func (m *tagMachine) enterCall(style int) {
	m.pair, m.state = style, 0
	m.call.Reset()
	m.report = reportSought
	if !m.s.cfg.Report {
		m.report = reportNone
	}
	m.enter(modeCall)
}

// callText takes text of a call.
func (m *tagMachine) callText(text string) {
	m.s.out.drop(len(text), useForeign)
	if m.report == reportStreams {
		m.reportText(text)
		return
	}
	m.call.WriteString(text)
	if m.report == reportSought {
		m.seekReport()
	}
}

// endCall reads the call that has been collected.
func (m *tagMachine) endCall() {
	m.endStreamed()
	calls, ok := readCalls(m.call.String())
	for _, c := range calls {
		ok = ok && (m.pair != bareStyle || m.knows(c.Name))
	}
	if !ok {
		m.rejectCall()
		return
	}
	streamed := m.report == reportDone
	m.call.Reset()
	out := &m.s.out
	for i, c := range calls {
		if m.s.cfg.Report && c.Name == ReportReasoningName {
			if !streamed || i > 0 {
				m.beginReport(c.Arguments)
				m.endStreamed()
			}
			continue
		}
		if !m.knows(c.Name) {
			m.s.warn(CodeUnknownFunction)
		}
		out.begin(ToolCall, m.s.call(c.Name))
		out.salvage(c.Arguments)
		out.end()
	}
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.expect()
}

// rejectCall makes what has been collected part of the answer.
func (m *tagMachine) rejectCall() {
	text := m.call.String()
	if m.report == reportDone {
		// The reasoning has been sent; brackets that the call should have ended with are nobody's text.
		text = strings.TrimLeft(text[m.sent:], "}] \n")
	}
	if m.pair != bareStyle {
		m.s.warn(CodeMalformedToolCall)
	}
	m.call.Reset()
	m.trim, m.begun, m.said = false, true, m.said || text != ""
	m.enter(modeAnswer)
	m.s.out.salvage(text)
}

func (m *tagMachine) knows(name string) bool {
	return slices.Contains(m.s.cfg.Tools, name) || m.s.cfg.Report && name == ReportReasoningName
}

// textCall is a tool call as models write it in text.
type textCall struct {
	Name      string
	Arguments string
}

// readCalls reads one call, a list of calls, or several after each other. Mistral's newer spelling has the name before the
// arguments, with [ARGS] between.
func readCalls(text string) ([]textCall, bool) {
	text = strings.TrimSpace(text)
	if name, args, ok := strings.Cut(text, "[ARGS]"); ok && isWord(name) && json.Valid([]byte(args)) {
		return []textCall{{name, strings.TrimSpace(args)}}, true
	}
	var raw []json.RawMessage
	if strings.HasPrefix(text, "[") {
		if json.Unmarshal([]byte(text), &raw) != nil {
			return nil, false
		}
	} else {
		for d := json.NewDecoder(strings.NewReader(text)); ; {
			var one json.RawMessage
			if err := d.Decode(&one); err != nil {
				if len(raw) == 0 || d.InputOffset() < int64(len(text)) {
					return nil, false
				}
				break
			}
			raw = append(raw, one)
		}
	}
	var calls []textCall
	for _, r := range raw {
		c, ok := readCall(r)
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
	}
	return calls, len(calls) > 0
}

func readCall(raw json.RawMessage) (textCall, bool) {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
		Function   json.RawMessage `json:"function"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return textCall{}, false
	}
	if c.Name == "" && len(c.Function) > 0 && c.Function[0] == '{' {
		return readCall(c.Function)
	}
	args := c.Arguments
	if args == nil {
		args = c.Parameters
	}
	var quoted string
	switch {
	case c.Name == "":
		return textCall{}, false
	case args == nil || string(args) == "null":
		return textCall{c.Name, "{}"}, true
	case json.Unmarshal(args, &quoted) == nil:
		return textCall{c.Name, quoted}, true
	}
	return textCall{c.Name, string(args)}, true
}
