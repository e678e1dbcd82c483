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
	place  blockPlace
	// buf holds what is not taken yet. Its first bytes are the opening mark if that was spelled, skip of them.
	buf  []byte
	skip int
	// begun says that the block's first call has begun.
	begun bool
	args  argumentReader
}

// blockPlace is where in a block the reader stands.
type blockPlace uint8

const (
	atHead   blockPlace = iota // before a call's arguments
	inWhole                    // in a block that must be read whole
	inObject                   // in arguments that are a JSON object
	inBroken                   // in arguments that are no JSON any more
	inReport                   // in the arguments of report_reasoning, which is read more leniently
	atParams                   // between arguments that are written one by one
	inValue                    // in the value of one
	atTail                     // between a call's arguments and its end
	atNext                     // after a call
	atClose                    // after the end of a list
)

// style returns the style of the block.
func (b *block) style() *CallStyle { return b.styles[0] }

// enter begins to read a block. opening is its mark, if that is text.
func (b *block) enter(g *callGroup, opening string) {
	b.styles, b.open, b.place, b.begun = append(b.styles[:0], g.styles...), g.open, atHead, false
	b.buf, b.skip = append(b.buf[:0], opening...), len(opening)
	b.active = true
}

// opened reports whether the block is certain to be one: an answer that begins as a call is only one when the call
// has begun.
func (b *block) opened() bool { return b.open != "" || b.begun }

// inArguments reports whether the next text is of a call's arguments, and not of what stands around them.
func (b *block) inArguments() bool {
	switch b.place {
	case inObject, inBroken, inReport, inValue:
		return true
	}
	return false
}

// push takes a token in a block, and returns its text that follows the block.
func (b *block) push(piece string, control, special bool) string {
	if (control || special) && !b.takeMark(piece, control) {
		return ""
	}
	for piece != "" && b.active {
		piece = piece[b.takeText(piece):]
	}
	return piece
}

// takeMark takes a token that may be a mark, and reports whether its text counts.
func (b *block) takeMark(piece string, control bool) bool {
	if b.inArguments() {
		switch {
		case b.place == inValue && piece == b.args.stop:
			return true
		case hasMark(b.style().Tail, piece):
			b.cutArguments()
			b.place = atTail
			return true
		case hasMark(b.style().Close, piece):
			b.cutArguments()
			b.endCall()
			return true
		}
	} else {
		for _, s := range b.styles {
			if hasMark(s.Head, piece) || hasMark(s.Tail, piece) || hasMark(s.Close, piece) || hasMark(s.Param, piece) {
				return true
			}
		}
	}
	if control {
		b.core.Warn(reader.CodeStrayControl)
		b.core.Out.Drop(len(piece), reader.UseForeign)
	}
	return !control
}

// hasMark reports whether a mark stands in a pattern.
func hasMark(tokens []CallToken, mark string) bool {
	return slices.ContainsFunc(tokens, func(t CallToken) bool {
		return t.Place == NoPlace && strings.Contains(t.Text, mark)
	})
}

// takeText takes text and returns how much of it, at least a byte.
func (b *block) takeText(text string) int {
	switch b.place {
	case inObject:
		return b.objectArguments(text)
	case inBroken, inReport:
		b.takeUntilStop(text)
		return len(text)
	case inValue:
		return b.valueText(text)
	default:
		b.buf = append(b.buf, text[0])
		switch b.place {
		case atHead:
			b.headByte(text[1:])
		case inWhole:
			b.wholeByte()
		case atParams:
			b.paramsByte()
		case atTail:
			b.tailByte()
		default:
			b.betweenByte()
		}
		return 1
	}
}

// drop takes the first n bytes of what is held, which are nobody's text.
func (b *block) drop(n int) {
	b.core.Out.Drop(n, reader.UseForeign)
	b.buf = b.buf[:copy(b.buf, b.buf[n:])]
	b.skip = 0
}

// unread takes all that is held, for another reader.
func (b *block) unread() string {
	text := string(b.buf)
	b.buf = b.buf[:0]
	return text
}

// headByte looks whether a call's arguments begin. rest is what follows in the token.
func (b *block) headByte(rest string) {
	text := b.buf[b.skip:]
	waits := false
	for _, s := range b.styles {
		var at found
		n, r := matchHead(s, text, !b.begun, &at)
		if r == matchYes && !b.mayBegin(string(at[NamePlace]), rest) {
			r = matchNo
		}
		if waits = waits || r == matchWait; r == matchYes {
			b.beginCall(s, string(at[NamePlace]), b.skip+n)
			return
		}
	}
	switch {
	case waits:
	case b.whole() != nil && mayBeJSON(text):
		b.place = inWhole
		b.wholeByte()
	default:
		b.reject()
	}
}

func (b *block) knows(name string) bool {
	return slices.Contains(b.core.Cfg.Tools, name) || b.core.Cfg.Report && name == reasoning.ReportReasoningName
}

// mayBegin reports whether what begins as a call of name is one: with no mark before it, it must be a function of
// the request.
func (b *block) mayBegin(name, rest string) bool {
	if b.opened() {
		return true
	}
	opens := b.core.Cfg.Opens
	return b.knows(name) && (opens == nil || opens(string(b.buf)+rest))
}

// whole returns the style in which a block may be JSON in another form, or nil. A call that is held to a form has
// that form.
func (b *block) whole() *CallStyle {
	if b.core.Cfg.Opens != nil {
		return nil
	}
	for _, s := range b.styles {
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
func (b *block) wholeByte() {
	if len(b.buf) > maxCall {
		b.reject()
		return
	}
	s := b.whole()
	if s.Close == nil || !bytes.HasSuffix(b.buf, []byte(s.Close[0].Text)) {
		return
	}
	b.endWhole(len(b.buf) - len(s.Close[0].Text))
}

// endWhole reads a block whose text ends at n.
func (b *block) endWhole(n int) {
	text := string(b.buf[b.skip:n])
	if s := b.whole(); b.begun && s.List != nil {
		text = "[" + text
	}
	if b.readWhole(text) {
		b.endBlock()
	} else {
		b.reject()
	}
}

// beginCall begins a call whose arguments begin at byte n of what is held.
func (b *block) beginCall(s *CallStyle, name string, n int) {
	out := &b.core.Out
	out.End()
	b.styles = append(b.styles[:0], s)
	b.begun = true
	b.drop(n)
	rest := b.unread()
	b.report = b.core.Cfg.Report && name == reasoning.ReportReasoningName
	if b.report {
		b.core.Object.Reset(true, false)
	} else {
		if !b.knows(name) {
			b.core.Warn(reader.CodeUnknownFunction)
		}
		out.Begin(reasoning.ToolCall, b.core.Call(name))
	}
	b.args = argumentReader{function: name, stop: stopOf(s)}
	switch {
	case s.Param != nil:
		b.send("{")
		b.place = atParams
	case b.report && b.core.Cfg.Opens == nil:
		b.place = inReport
	default:
		b.place = inObject
	}
	b.readOn(rest)
}

// readOn takes text that was held.
func (b *block) readOn(text string) {
	b.in.read(b.push(text, false, false))
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
func (b *block) endCall() {
	b.endReport()
	b.core.Out.End()
	switch s := b.style(); {
	case s.Close == nil && s.List == nil:
		b.endBlock()
	default:
		b.place = atNext
	}
}

// tailByte looks whether a call is complete.
func (b *block) tailByte() {
	if b.style().JSON {
		b.objectTail()
		return
	}
	switch begins(b.buf, b.style().Tail) {
	case matchYes:
		b.drop(len(b.buf))
		b.endCall()
	case matchNo:
		b.endReport()
		b.core.Out.End()
		b.breakOff()
	}
}

// objectTail looks whether a call that is an object is complete. Of the members after the arguments only a
// rationale counts; what is no member is part of the answer.
func (b *block) objectTail() {
	if !b.args.over && b.args.restOfObject(b.buf[len(b.buf)-1]) == matchYes {
		b.args.over = true
		if object := append([]byte(`{"":0`), b.buf...); json.Valid(object) {
			reported := b.report
			b.drop(len(b.buf))
			b.endCall()
			if !reported {
				b.core.Rationale(object)
			}
			return
		}
	}
	var closing []byte
	if s := b.style(); s.Close != nil {
		closing = []byte(s.Close[0].Text)
	}
	closed := closing != nil && bytes.HasSuffix(b.buf, closing)
	if closing != nil && !closed && len(b.buf) < maxHead || closing == nil && !b.args.over && len(b.buf) < maxHead {
		return
	}
	b.endReport()
	b.core.Out.End()
	if closed {
		b.core.Out.Drop(len(closing), reader.UseForeign)
		b.buf = b.buf[:len(b.buf)-len(closing)]
	}
	b.breakOff()
}

// betweenByte looks what follows a call, or the end of a list.
func (b *block) betweenByte() {
	s := b.style()
	rest := trimSpace(b.buf)
	if len(rest) == 0 {
		return
	}
	switch end := begins(rest, s.Close); {
	case end == matchYes:
		b.drop(len(b.buf))
		b.endBlock()
	case end == matchWait && (b.place == atClose || s.List != nil):
	case b.place == atClose:
		b.breakOff()
	case s.List == nil:
		if _, head := matchHead(s, rest, false, new(found)); head == matchNo && end == matchNo {
			b.breakOff()
		} else if end == matchNo {
			b.drop(len(b.buf) - len(rest))
			b.place = atHead
		}
	case rest[0] == s.List[1].Text[0]:
		b.drop(len(b.buf))
		b.place = atHead
	case rest[0] == s.List[2].Text[0]:
		b.drop(len(b.buf))
		if b.place = atClose; s.Close == nil {
			b.endBlock()
		}
	default:
		b.breakOff()
	}
}

// endBlock goes back to the answer.
func (b *block) endBlock() {
	b.active = false
	b.in.resume()
}

// breakOff ends a block in which something follows that does not belong there. It is part of the answer.
func (b *block) breakOff() {
	b.core.Warn(reader.CodeMalformedToolCall)
	b.active = false
	b.in.stray(b.unread())
}

// reject makes what has been held part of the answer.
func (b *block) reject() {
	if b.open != "" {
		b.core.Warn(reader.CodeMalformedToolCall)
	}
	if b.begun {
		b.breakOff()
		return
	}
	n := b.skip
	if b.open == "" || b.place == inWhole {
		n = len(b.buf)
	}
	b.active = false
	text := b.unread()
	b.in.refuse(text[:n], text[n:])
}

// finish ends a block at the end of the turn.
func (b *block) finish() {
	switch b.place {
	case atHead:
		if b.whole() != nil {
			b.endWhole(len(b.buf))
		} else if len(b.buf) > 0 || !b.begun {
			b.reject()
		}
	case inWhole:
		b.endWhole(len(b.buf))
	case inObject, inBroken, inReport, atParams, inValue:
		b.cutArguments()
	default:
		if len(trimSpace(b.buf)) > 0 && b.place != atTail {
			b.breakOff()
		}
	}
	b.endReport()
}
