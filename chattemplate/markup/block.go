package markup

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// host is the text around a block of calls.
type host interface {
	// resume begins an answer after the block.
	resume()
	// stray begins an answer with text that stood in the block and does not belong there.
	stray(text string)
	// refuse continues the answer: what looked like a block was not one. In literal no call begins. rest is read again.
	refuse(literal, rest string)
	// read takes text after the block.
	read(text string)
	// thinks reports whether a token is a mark around reasoning, and whether it is the opening one.
	thinks(piece string) (opens, is bool)
}

// block reads a block of calls as it arrives. Text that is not sent yet is held in buf: if this turns out not to be a
// block, the text goes back to the answer. All but arguments and values is read byte by byte, so that it makes no
// difference how the text is cut into tokens.
type block struct {
	core *reader.Core
	in   host
	// active says that the text is in a block. report says that the open call is one of report_reasoning.
	active, report bool
	// styles are the styles that the block may have. Only one is left when the first call has begun.
	styles []*CallStyle
	open   string
	place  blockPlace
	// buf holds what is not taken yet. Its first skip bytes are the opening mark, if that was spelled out.
	buf  []byte
	skip int
	// begun says that the first call of the block has begun. thinking says that reasoning stands in its arguments.
	begun, thinking bool
	args            argumentReader
}

// blockPlace is a place in a block.
type blockPlace uint8

const (
	atHead   blockPlace = iota // before the arguments of a call
	inWhole                    // in a block that is read when it is complete
	inObject                   // in arguments that are a JSON object so far
	inBroken                   // in arguments that turned out not to be JSON
	inReport                   // in arguments of report_reasoning, which have a more lenient reader
	atParams                   // between arguments that are written one by one
	inValue                    // in the value of such an argument
	atTail                     // between the arguments of a call and its end
	atNext                     // after a call
	atClose                    // after the end of a list
)

// style returns the style of the block.
func (b *block) style() *CallStyle { return b.styles[0] }

// enter begins to read a block. opening is its mark, or empty if the mark was a token.
func (b *block) enter(g *callGroup, opening string) {
	b.styles, b.open, b.place, b.begun = append(b.styles[:0], g.styles...), g.open, atHead, false
	b.thinking = false
	b.buf, b.skip = append(b.buf[:0], opening...), len(opening)
	b.active = true
}

// opened reports whether this is surely a block. Without a mark that is known only when the first call has begun.
func (b *block) opened() bool { return b.open != "" || b.begun }

// inArguments reports whether the next text belongs to the arguments of a call. Text between arguments that are written
// one by one does not.
func (b *block) inArguments() bool {
	switch b.place {
	case inObject, inBroken, inReport, inValue:
		return true
	}
	return false
}

// push takes a token and returns the part of its text that follows the block.
func (b *block) push(piece string, control, special bool) string {
	if (control || special) && !b.takeMark(piece, control) {
		return ""
	}
	for piece != "" && b.active {
		piece = piece[b.takeText(piece):]
	}
	return piece
}

// takeMark takes a token that may be a mark. It reports whether the text of the token is still to be read.
//
// A mark around reasoning takes the reasoning out of arguments if it is a control token. No other mark ends that
// reasoning. Anywhere else in the block it ends the block.
func (b *block) takeMark(piece string, control bool) bool {
	opens, thinks := b.in.thinks(piece)
	switch {
	case thinks && !b.inArguments():
		b.interrupt()
		return true
	case thinks && control && b.place != inReport:
		b.core.Out.Drop(len(piece), reader.UseForeign)
		b.core.Out.Think(opens)
		b.thinking = b.core.Out.Marked()
		return false
	case b.thinking && control:
		b.core.Out.Drop(len(piece), reader.UseForeign)
		return false
	case b.thinking:
		return true
	}
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

// interrupt ends the block before reasoning.
func (b *block) interrupt() {
	switch b.place {
	case atNext, atClose:
		b.active = false
		b.in.stray(b.unread())
	case atParams, atTail:
		if b.place == atParams {
			b.send("}")
		}
		b.endReport()
		b.core.Out.End()
		b.breakOff()
	default:
		b.reject()
	}
}

// hasMark reports whether a pattern contains a mark.
func hasMark(tokens []CallToken, mark string) bool {
	return slices.ContainsFunc(tokens, func(t CallToken) bool {
		return t.Place == NoPlace && strings.Contains(t.Text, mark)
	})
}

// takeText takes at least one byte of text and returns how many it took.
func (b *block) takeText(text string) int {
	if b.thinking {
		b.core.Out.Drop(len(text), reader.UseForeign)
		b.send(text)
		return len(text)
	}
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

// drop takes the first n held bytes, which are not text of any segment.
func (b *block) drop(n int) {
	b.core.Out.Drop(n, reader.UseForeign)
	b.buf = b.buf[:copy(b.buf, b.buf[n:])]
	b.skip = 0
}

// unread takes all held text out of the block, so that it can be read elsewhere.
func (b *block) unread() string {
	text := string(b.buf)
	b.buf = b.buf[:0]
	return text
}

// headByte checks whether the arguments of a call begin here. rest is what follows in the token.
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

// mayBegin reports whether text that begins like a call of name is one. Without a mark before it, it must call a
// function of the request.
func (b *block) mayBegin(name, rest string) bool {
	if b.opened() {
		return true
	}
	opens := b.core.Cfg.Opens
	return b.knows(name) && (opens == nil || opens(string(b.buf)+rest))
}

// whole returns the style whose block may be JSON in another form than the usual one, or nil. Calls that are held to a
// form are never written in another.
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

// wholeByte checks whether the block is complete and can be read.
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

// endWhole reads a whole block whose text ends at byte n.
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

// beginCall begins a call whose arguments begin at byte n of the held text.
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

// readOn reads text that was held before.
func (b *block) readOn(text string) {
	b.in.read(b.push(text, false, false))
}

// stopOf returns the mark that ends arguments which are not JSON, or "" if the style has none.
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

// tailByte checks whether the call is complete.
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

// objectTail checks whether a call that is a JSON object is complete. Of the members after the arguments only a
// rationale counts. Anything but members is text of the answer.
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

// betweenByte checks what follows a call or the end of a list.
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

// endBlock returns to the answer.
func (b *block) endBlock() {
	b.active = false
	b.in.resume()
}

// breakOff ends the block because the held text does not belong in it. That text becomes part of the answer.
func (b *block) breakOff() {
	b.core.Warn(reader.CodeMalformedToolCall)
	b.active = false
	b.in.stray(b.unread())
}

// reject makes the held text part of the answer.
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

// finish ends the block at the end of the turn.
func (b *block) finish() {
	b.active, b.thinking = false, false
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
