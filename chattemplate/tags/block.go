package tags

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// host is the text that a block of calls stands in.
type host interface {
	// resume begins an answer after a block.
	resume()
	// stray begins an answer with text that stood in a block and does not belong there.
	stray(text string)
	// refuse goes on with the answer, to which literal belongs, and reads rest. There was no block.
	refuse(literal, rest string)
	// read takes text that is in no block.
	read(text string)
}

// block takes a block of calls apart as it arrives. What is not sent yet stands in buf, so that a block that
// turns out to be none becomes text of the answer again. Everything but arguments and values is looked at byte by
// byte: how the text is cut into tokens makes no difference.
type block struct {
	core *reader.Core
	in   host
	// active says that the text is in a block, and report that the open call is one of report_reasoning.
	active, report bool
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
func (c *block) style() *CallStyle { return c.styles[0] }

// enter begins to read a block. opening is its mark, if that is text.
func (c *block) enter(g *callGroup, opening string) {
	c.styles, c.open, c.place, c.begun = append(c.styles[:0], g.styles...), g.open, callHead, false
	c.buf, c.skip = append(c.buf[:0], opening...), len(opening)
	c.active = true
}

// opened reports whether the block is certain to be one: an answer that begins as a call is only one when the call
// has begun.
func (c *block) opened() bool { return c.open != "" || c.begun }

// inArguments reports whether the next text is of a call's arguments, and not of what stands around them.
func (c *block) inArguments() bool {
	switch c.place {
	case callObject, callBroken, callReport, callValue:
		return true
	}
	return false
}

// push takes a token in a block, and returns its text that follows the block.
func (c *block) push(piece string, control, special bool) string {
	if (control || special) && !c.callMark(piece, control) {
		return ""
	}
	for piece != "" && c.active {
		piece = piece[c.callText(piece):]
	}
	return piece
}

// callMark takes a token that may be a mark, and reports whether its text counts.
func (c *block) callMark(piece string, control bool) bool {
	switch c.place {
	case callObject, callBroken, callReport, callValue:
		switch {
		case c.place == callValue && piece == c.args.stop:
			return true
		case holds(c.style().Tail, piece):
			c.cutArguments()
			c.place = callTail
			return true
		case holds(c.style().Close, piece):
			c.cutArguments()
			c.endCall()
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
		c.core.Warn(reader.CodeStrayControl)
		c.core.Out.Drop(len(piece), reader.UseForeign)
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
func (c *block) callText(text string) int {
	switch c.place {
	case callObject:
		return c.objectArguments(text)
	case callBroken, callReport:
		c.takeUntilStop(text)
		return len(text)
	case callValue:
		return c.valueText(text)
	default:
		c.buf = append(c.buf, text[0])
		switch c.place {
		case callHead:
			c.headByte(text[1:])
		case callWhole:
			c.wholeByte()
		case callParams:
			c.paramsByte()
		case callTail:
			c.tailByte()
		default:
			c.betweenByte()
		}
		return 1
	}
}

// takeCall takes the first n bytes of what is held, which are nobody's text.
func (c *block) takeCall(n int) {
	c.core.Out.Drop(n, reader.UseForeign)
	c.buf = c.buf[:copy(c.buf, c.buf[n:])]
	c.skip = 0
}

// headByte looks whether a call's arguments begin. rest is what follows in the token.
func (c *block) headByte(rest string) {
	text := c.buf[c.skip:]
	waits := false
	for _, s := range c.styles {
		var at found
		n, r := matchHead(s, text, !c.begun, &at)
		if r == matchYes && !c.mayBegin(string(at[NamePlace]), rest) {
			r = matchNo
		}
		if waits = waits || r == matchWait; r == matchYes {
			c.beginCall(s, string(at[NamePlace]), c.skip+n)
			return
		}
	}
	switch {
	case waits:
	case c.whole() != nil && mayBeJSON(text):
		c.place = callWhole
		c.wholeByte()
	default:
		c.rejectCall()
	}
}

// mayBegin reports whether what begins as a call of name is one: with no mark before it, it must be a function of
// the request.
func (c *block) mayBegin(name, rest string) bool {
	if c.opened() {
		return true
	}
	opens := c.core.Cfg.Opens
	return c.knows(name) && (opens == nil || opens(string(c.buf)+rest))
}

// whole returns the style in which a block may be JSON in another form, or nil. A call that is held to a form has
// that form.
func (c *block) whole() *CallStyle {
	if c.core.Cfg.Opens != nil {
		return nil
	}
	for _, s := range c.styles {
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
func (c *block) wholeByte() {
	if len(c.buf) > maxCall {
		c.rejectCall()
		return
	}
	s := c.whole()
	if s.Close == nil || !bytes.HasSuffix(c.buf, []byte(s.Close[0].Text)) {
		return
	}
	c.endWhole(len(c.buf) - len(s.Close[0].Text))
}

// endWhole reads a block whose text ends at n.
func (c *block) endWhole(n int) {
	text := string(c.buf[c.skip:n])
	if s := c.whole(); c.begun && s.List != nil {
		text = "[" + text
	}
	if c.wholeCalls(text) {
		c.endBlock()
	} else {
		c.rejectCall()
	}
}

// beginCall begins a call whose arguments begin at byte n of what is held.
func (c *block) beginCall(s *CallStyle, name string, n int) {
	out := &c.core.Out
	out.End()
	c.styles = append(c.styles[:0], s)
	c.begun = true
	rest := string(c.buf[n:])
	c.takeCall(len(c.buf) - len(rest))
	c.buf = c.buf[:0]
	c.report = c.core.Cfg.Report && name == reasoning.ReportReasoningName
	if c.report {
		c.core.Object.Reset(true, false)
	} else {
		if !c.knows(name) {
			c.core.Warn(reader.CodeUnknownFunction)
		}
		out.Begin(reasoning.ToolCall, c.core.Call(name))
	}
	c.args = argumentReader{function: name, stop: stopOf(s)}
	switch {
	case s.Param != nil:
		c.argument("{")
		c.place = callParams
	case c.report && c.core.Cfg.Opens == nil:
		c.place = callReport
	default:
		c.place = callObject
	}
	c.readOn(rest)
}

// readOn takes text that was held.
func (c *block) readOn(text string) {
	for text != "" && c.active {
		text = text[c.callText(text):]
	}
	c.in.read(text)
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
func (c *block) endCall() {
	c.endReport()
	c.core.Out.End()
	switch s := c.style(); {
	case s.Close == nil && s.List == nil:
		c.endBlock()
	default:
		c.place = callBetween
	}
}

// tailByte looks whether a call is complete.
func (c *block) tailByte() {
	if c.style().JSON {
		c.objectTail()
		return
	}
	switch begins(c.buf, c.style().Tail) {
	case matchYes:
		c.takeCall(len(c.buf))
		c.endCall()
	case matchNo:
		c.endReport()
		c.core.Out.End()
		c.strayText()
	}
}

// objectTail looks whether a call that is an object is complete. Of the members after the arguments only a
// rationale counts; what is no member is part of the answer.
func (c *block) objectTail() {
	if !c.args.over && c.args.restOfObject(c.buf[len(c.buf)-1]) == matchYes {
		c.args.over = true
		if object := append([]byte(`{"":0`), c.buf...); json.Valid(object) {
			reported := c.report
			c.takeCall(len(c.buf))
			c.endCall()
			if !reported {
				c.core.Rationale(object)
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
	c.endReport()
	c.core.Out.End()
	if closed {
		c.core.Out.Drop(len(closing), reader.UseForeign)
		c.buf = c.buf[:len(c.buf)-len(closing)]
	}
	c.strayText()
}

// betweenByte looks what follows a call, or the end of a list.
func (c *block) betweenByte() {
	s := c.style()
	rest := trimSpace(c.buf)
	if len(rest) == 0 {
		return
	}
	switch end := begins(rest, s.Close); {
	case end == matchYes:
		c.takeCall(len(c.buf))
		c.endBlock()
	case end == matchWait && (c.place == callClosing || s.List != nil):
	case c.place == callClosing:
		c.strayText()
	case s.List == nil:
		if _, head := matchHead(s, rest, false, new(found)); head == matchNo && end == matchNo {
			c.strayText()
		} else if end == matchNo {
			c.takeCall(len(c.buf) - len(rest))
			c.place = callHead
		}
	case rest[0] == s.List[1].Text[0]:
		c.takeCall(len(c.buf))
		c.place = callHead
	case rest[0] == s.List[2].Text[0]:
		c.takeCall(len(c.buf))
		if c.place = callClosing; s.Close == nil {
			c.endBlock()
		}
	default:
		c.strayText()
	}
}

// endBlock goes back to the answer.
func (c *block) endBlock() {
	c.active = false
	c.in.resume()
}

// strayText ends a block in which something follows that does not belong there. It is part of the answer.
func (c *block) strayText() {
	c.core.Warn(reader.CodeMalformedToolCall)
	text := string(c.buf)
	c.buf, c.active = c.buf[:0], false
	c.in.stray(text)
}

// rejectCall makes what has been held part of the answer.
func (c *block) rejectCall() {
	if c.open != "" {
		c.core.Warn(reader.CodeMalformedToolCall)
	}
	if c.begun {
		c.strayText()
		return
	}
	text, n := string(c.buf), c.skip
	if c.open == "" || c.place == callWhole {
		n = len(text)
	}
	c.buf, c.active = c.buf[:0], false
	c.in.refuse(text[:n], text[n:])
}

// finish ends a block at the end of the turn.
func (c *block) finish() {
	switch c.place {
	case callHead:
		if c.whole() != nil {
			c.endWhole(len(c.buf))
		} else if len(c.buf) > 0 || !c.begun {
			c.rejectCall()
		}
	case callWhole:
		c.endWhole(len(c.buf))
	case callObject, callBroken, callReport, callParams, callValue:
		c.cutArguments()
	default:
		if len(trimSpace(c.buf)) > 0 && c.place != callTail {
			c.strayText()
		}
	}
	c.endReport()
}
