package tags

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// callReader takes a block of calls apart as it arrives. What is not sent yet stands in buf, so that a block that
// turns out to be none becomes text of the answer again. Everything but arguments and values is looked at byte by
// byte: how the text is cut into tokens makes no difference.
type callReader struct {
	// styles are those that the block may be of; once its first call has begun there is one.
	styles []*CallStyle
	open   string
	place  callPlace
	// buf holds what is not taken yet. Its first bytes are the opening mark if that was spelled, skip of them.
	buf  []byte
	skip int
	// begun says that the block's first call has begun.
	begun bool
	args  argumentReader
}

// callPlace is where in a block the reader stands.
type callPlace uint8

const (
	callHead    callPlace = iota // before a call's arguments
	callWhole                    // in a block that must be read whole
	callObject                   // in arguments that are a JSON object
	callBroken                   // in arguments that are no JSON any more
	callReport                   // in the arguments of report_reasoning, which is read more leniently
	callParams                   // between arguments that are written one by one
	callValue                    // in the value of one
	callTail                     // between a call's arguments and its end
	callBetween                  // after a call
	callClosing                  // after the end of a list
)

// style returns the style of the block.
func (c *callReader) style() *CallStyle { return c.styles[0] }

// enterCall begins to read a block. opening is its mark, if that is text.
func (m *Text) enterCall(g *callGroup, opening string) {
	c := &m.call
	c.styles, c.open, c.place, c.begun = append(c.styles[:0], g.styles...), g.open, callHead, false
	c.buf, c.skip = append(c.buf[:0], opening...), len(opening)
	m.state, m.mode = 0, modeCall
}

// opened reports whether the block is certain to be one: an answer that begins as a call is only one when the call
// has begun.
func (m *Text) opened() bool { return m.call.open != "" || m.call.begun }

// inArguments reports whether the next text is of a call's arguments, and not of what stands around them.
func (c *callReader) inArguments() bool {
	switch c.place {
	case callObject, callBroken, callReport, callValue:
		return true
	}
	return false
}

// pushCall takes a token in a block.
func (m *Text) pushCall(piece string, control, special bool) {
	if (control || special) && !m.callMark(piece, control) {
		return
	}
	for piece != "" && m.mode == modeCall {
		piece = piece[m.callText(piece):]
	}
	m.Push(piece, control, special)
}

// callMark takes a token that may be a mark, and reports whether its text counts.
func (m *Text) callMark(piece string, control bool) bool {
	switch c := &m.call; c.place {
	case callObject, callBroken, callReport, callValue:
		switch {
		case c.place == callValue && piece == c.args.stop:
			return true
		case holds(c.style().Tail, piece):
			m.cutArguments()
			c.place = callTail
			return true
		case holds(c.style().Close, piece):
			m.cutArguments()
			m.endCall()
			return true
		}
	default:
		for _, s := range c.styles {
			if holds(s.Head, piece) || holds(s.Tail, piece) || holds(s.Close, piece) || holds(s.Param, piece) {
				return true
			}
		}
	}
	if control {
		m.s.Warn(reader.CodeStrayControl)
		m.s.Out.Drop(len(piece), reader.UseForeign)
	}
	return !control
}

// holds reports whether a mark stands in a pattern.
func holds(tokens []CallToken, mark string) bool {
	return slices.ContainsFunc(tokens, func(t CallToken) bool {
		return t.Place == NoPlace && strings.Contains(t.Text, mark)
	})
}

// callText takes text and returns how much of it, at least a byte.
func (m *Text) callText(text string) int {
	switch c := &m.call; c.place {
	case callObject:
		return m.objectArguments(text)
	case callBroken, callReport:
		m.takeUntilStop(text)
		return len(text)
	case callValue:
		return m.valueText(text)
	default:
		c.buf = append(c.buf, text[0])
		switch c.place {
		case callHead:
			m.headByte(text[1:])
		case callWhole:
			m.wholeByte()
		case callParams:
			m.paramsByte()
		case callTail:
			m.tailByte()
		default:
			m.betweenByte()
		}
		return 1
	}
}

// takeCall takes the first n bytes of what is held, which are nobody's text.
func (m *Text) takeCall(n int) {
	m.s.Out.Drop(n, reader.UseForeign)
	m.call.buf = m.call.buf[:copy(m.call.buf, m.call.buf[n:])]
	m.call.skip = 0
}

// headByte looks whether a call's arguments begin. rest is what follows in the token.
func (m *Text) headByte(rest string) {
	c := &m.call
	text := c.buf[c.skip:]
	waits := false
	for _, s := range c.styles {
		var at found
		n, r := matchHead(s, text, !c.begun, &at)
		if r == matchYes && !m.mayBegin(string(at[NamePlace]), rest) {
			r = matchNo
		}
		if waits = waits || r == matchWait; r == matchYes {
			m.beginCall(s, string(at[NamePlace]), c.skip+n)
			return
		}
	}
	switch {
	case waits:
	case m.whole() != nil && mayBeJSON(text):
		c.place = callWhole
		m.wholeByte()
	default:
		m.rejectCall()
	}
}

// mayBegin reports whether what begins as a call of name is one: with no mark before it, it must be a function of
// the request.
func (m *Text) mayBegin(name, rest string) bool {
	if m.opened() {
		return true
	}
	opens := m.s.Cfg.Opens
	return m.knows(name) && (opens == nil || opens(string(m.call.buf)+rest))
}

// whole returns the style in which a block may be JSON in another form, or nil. A call that is held to a form has
// that form.
func (m *Text) whole() *CallStyle {
	if m.s.Cfg.Opens != nil {
		return nil
	}
	for _, s := range m.call.styles {
		if s.JSON {
			return s
		}
	}
	return nil
}

func mayBeJSON(text []byte) bool {
	text = trimSpace(text)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// wholeByte looks whether a block that must be read whole is complete.
func (m *Text) wholeByte() {
	c := &m.call
	if len(c.buf) > maxCall {
		m.rejectCall()
		return
	}
	s := m.whole()
	if s.Close == nil || !bytes.HasSuffix(c.buf, []byte(s.Close[0].Text)) {
		return
	}
	m.endWhole(len(c.buf) - len(s.Close[0].Text))
}

// endWhole reads a block whose text ends at n.
func (m *Text) endWhole(n int) {
	c := &m.call
	text := string(c.buf[c.skip:n])
	if s := m.whole(); c.begun && s.List != nil {
		text = "[" + text
	}
	if m.wholeCalls(text) {
		m.endBlock()
	} else {
		m.rejectCall()
	}
}

// beginCall begins a call whose arguments begin at byte n of what is held.
func (m *Text) beginCall(s *CallStyle, name string, n int) {
	c, out := &m.call, &m.s.Out
	out.End()
	c.styles = append(c.styles[:0], s)
	c.begun = true
	rest := string(c.buf[n:])
	m.takeCall(len(c.buf) - len(rest))
	c.buf = c.buf[:0]
	m.report = m.s.Cfg.Report && name == reasoning.ReportReasoningName
	if m.report {
		m.s.Object.Reset(true, false)
	} else {
		if !m.knows(name) {
			m.s.Warn(reader.CodeUnknownFunction)
		}
		out.Begin(reasoning.ToolCall, m.s.Call(name))
	}
	c.args = argumentReader{function: name, stop: stopOf(s)}
	switch {
	case s.Param != nil:
		m.argument("{")
		c.place = callParams
	case m.report && m.s.Cfg.Opens == nil:
		c.place = callReport
	default:
		c.place = callObject
	}
	m.readOn(rest)
}

// readOn takes text that was held.
func (m *Text) readOn(text string) {
	for text != "" && m.mode == modeCall {
		text = text[m.callText(text):]
	}
	m.Push(text, false, false)
}

// stopOf returns the mark at which arguments end that are no JSON; empty where there is none.
func stopOf(s *CallStyle) string {
	tokens := s.Close
	if !s.JSON && len(s.Tail) > 0 {
		tokens = s.Tail
	}
	if len(tokens) == 0 {
		return ""
	}
	return strings.TrimLeft(tokens[0].Text, "`")
}

// endCall ends a call.
func (m *Text) endCall() {
	c := &m.call
	m.endReport()
	m.s.Out.End()
	switch s := c.style(); {
	case s.Close == nil && s.List == nil:
		m.endBlock()
	default:
		c.place = callBetween
	}
}

// tailByte looks whether a call is complete.
func (m *Text) tailByte() {
	c := &m.call
	if c.style().JSON {
		m.objectTail()
		return
	}
	switch begins(c.buf, c.style().Tail) {
	case matchYes:
		m.takeCall(len(c.buf))
		m.endCall()
	case matchNo:
		m.endReport()
		m.s.Out.End()
		m.strayText()
	}
}

// objectTail looks whether a call that is an object is complete. Of the members after the arguments only a
// rationale counts; what is no member is part of the answer.
func (m *Text) objectTail() {
	c := &m.call
	if !c.args.over && c.args.restOfObject(c.buf[len(c.buf)-1]) == matchYes {
		c.args.over = true
		if object := append([]byte(`{"":0`), c.buf...); json.Valid(object) {
			reported := m.report
			m.takeCall(len(c.buf))
			m.endCall()
			if !reported {
				m.s.Rationale(object)
			}
			return
		}
	}
	var closing []byte
	if s := c.style(); s.Close != nil {
		closing = []byte(s.Close[0].Text)
	}
	closed := closing != nil && bytes.HasSuffix(c.buf, closing)
	if closing != nil && !closed && len(c.buf) < maxHead || closing == nil && !c.args.over && len(c.buf) < maxHead {
		return
	}
	m.endReport()
	m.s.Out.End()
	if closed {
		m.s.Out.Drop(len(closing), reader.UseForeign)
		c.buf = c.buf[:len(c.buf)-len(closing)]
	}
	m.strayText()
}

// betweenByte looks what follows a call, or the end of a list.
func (m *Text) betweenByte() {
	c, s := &m.call, m.call.style()
	rest := trimSpace(c.buf)
	if len(rest) == 0 {
		return
	}
	switch end := begins(rest, s.Close); {
	case end == matchYes:
		m.takeCall(len(c.buf))
		m.endBlock()
	case end == matchWait && (c.place == callClosing || s.List != nil):
	case c.place == callClosing:
		m.strayText()
	case s.List == nil:
		if _, head := matchHead(s, rest, false, new(found)); head == matchNo && end == matchNo {
			m.strayText()
		} else if end == matchNo {
			m.takeCall(len(c.buf) - len(rest))
			c.place = callHead
		}
	case rest[0] == s.List[1].Text[0]:
		m.takeCall(len(c.buf))
		c.place = callHead
	case rest[0] == s.List[2].Text[0]:
		m.takeCall(len(c.buf))
		if c.place = callClosing; s.Close == nil {
			m.endBlock()
		}
	default:
		m.strayText()
	}
}

// endBlock goes back to the answer.
func (m *Text) endBlock() {
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.expect()
}

// strayText ends a block in which something follows that does not belong there. It is part of the answer.
func (m *Text) strayText() {
	m.s.Warn(reader.CodeMalformedToolCall)
	text := string(m.call.buf)
	m.call.buf = m.call.buf[:0]
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.Push(text, false, false)
}

// rejectCall makes what has been held part of the answer.
func (m *Text) rejectCall() {
	c := &m.call
	if c.open != "" {
		m.s.Warn(reader.CodeMalformedToolCall)
	}
	if c.begun {
		m.strayText()
		return
	}
	text, n := string(c.buf), c.skip
	if c.open == "" || c.place == callWhole {
		n = len(text)
	}
	c.buf = c.buf[:0]
	m.mode, m.state = modeAnswer, 0
	m.answerText(text[:n])
	m.Push(text[n:], false, false)
}

// answerText adds text to the answer that is no mark.
func (m *Text) answerText(text string) {
	if text == "" {
		return
	}
	m.trim, m.begun, m.said = false, true, true
	m.s.Out.Text(text)
}

// finishCall ends a block at the end of the turn.
func (m *Text) finishCall() {
	c := &m.call
	switch c.place {
	case callHead:
		if m.whole() != nil {
			m.endWhole(len(c.buf))
		} else if len(c.buf) > 0 || !c.begun {
			m.rejectCall()
		}
	case callWhole:
		m.endWhole(len(c.buf))
	case callObject, callBroken, callReport, callParams, callValue:
		m.cutArguments()
	default:
		if len(trimSpace(c.buf)) > 0 && c.place != callTail {
			m.strayText()
		}
	}
	m.endReport()
}
