package reader

import (
	"fmt"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
)

// controls are the ids of harmony's own tokens.
type controls struct {
	start, end, message, channel, constrain, ret, call backend.Token
}

// control is one of harmony's own tokens.
type control uint8

const (
	noControl control = iota // text
	ctlStart
	ctlEnd
	ctlMessage
	ctlChannel
	ctlConstrain
	ctlReturn
	ctlCall
	ctlEOG   // another token that ends generation
	ctlOther // a control token of no meaning here
)

func findControls(v *backend.Vocab) (controls, error) {
	c := controls{constrain: backend.NoToken, ret: backend.NoToken, call: backend.NoToken}
	for _, x := range []struct {
		id       *backend.Token
		name     string
		required bool
	}{
		{&c.start, "<|start|>", true}, {&c.end, "<|end|>", true}, {&c.message, "<|message|>", true},
		{&c.channel, "<|channel|>", true}, {&c.constrain, "<|constrain|>", false}, {&c.ret, "<|return|>", false},
		{&c.call, "<|call|>", false},
	} {
		t, ok := v.Special(x.name)
		if !ok && x.required {
			return c, fmt.Errorf("vocabulary of a harmony model has no token %s", x.name)
		}
		if ok {
			*x.id = t
		}
	}
	return c, nil
}

// harmony is the state of reading harmony messages.
type harmony struct {
	ids    controls
	header header
	phase  phase
	// of is the header of the message that is being read.
	of      reading
	segment reasoning.Segment
	call    reasoning.Call
	report  bool // it is a call of report_reasoning
}

// phase is the place in a message.
type phase uint8

const (
	inBetween phase = iota // before <|start|>
	inHeader               // before <|message|>
	inContent
)

// harmonyReader reads messages with channels. Their marks are read by token id, never by text. Text without a header
// is the answer, and text on an unknown or empty channel is reasoning.
type harmonyReader struct {
	Core
	// tags looks for markers and objects in the text of answers.
	tags Text
	h    harmony
}

func newHarmony(cfg Config) (*harmonyReader, error) {
	s := &harmonyReader{}
	s.init(cfg)
	var err error
	if s.h.ids, err = findControls(cfg.Vocab); err != nil {
		return nil, err
	}
	if cfg.Markers {
		s.tags.init(&s.Core, []chattemplate.Format{MarkersFormat}, false)
	} else if cfg.JSON != nil {
		s.tags.init(&s.Core, nil, false)
	}
	s.h.phase = inHeader
	s.h.header.tools = s.cfg.Tools
	s.h.header.reset(true, true)
	switch s.cfg.Start {
	case chattemplate.StartReasoning:
		s.message(reading{channel: channelAnalysis})
	case chattemplate.StartAnswer:
		s.message(reading{channel: channelFinal})
	}
	return s, nil
}

// State returns where the next token stands.
func (s *harmonyReader) State() State {
	h := &s.h
	if h.phase != inContent {
		return State{Segment: reasoning.Header, Reported: s.out.reported, Steering: true, Ended: s.ended}
	}
	st := State{
		Segment: h.segment, Call: h.call, Role: h.of.role, Channel: h.of.channel, Recipient: h.of.recipient,
		ContentType: h.of.contentType, InObject: h.report, Reported: s.out.reported,
		Ended: s.ended,
	}
	if s.taggedAnswer() {
		st.Segment, st.InObject, st.Steering = s.tags.segment(), s.tags.inObject(), s.tags.steering()
	}
	return st
}

// Push takes the next token.
func (s *harmonyReader) Push(t backend.Token) error { return s.PushOutput(t, nil) }

// PushOutput is Push for a token with the log probabilities of the step that sampled it.
func (s *harmonyReader) PushOutput(t backend.Token, out *backend.Output) error {
	if s.err != nil || s.done {
		return s.err
	}
	s.ended = false
	s.push(t, out)
	s.pos++
	return s.err
}

// Begin says that the next token belongs to the answer that is held to a form.
func (s *harmonyReader) Begin() { s.tags.begin() }

// CloseReasoning returns the text that would end the reasoning in an object.
func (s *harmonyReader) CloseReasoning() (text string, ok bool) {
	if !s.State().InObject {
		return "", false
	}
	return s.object.closing()
}

// Finish ends the output.
func (s *harmonyReader) Finish() error {
	if s.err == nil && !s.done {
		s.finish()
		s.out.origin.finish(s.out.emit)
		s.done = true
	}
	return s.err
}

// control says what t means.
func (s *harmonyReader) control(t backend.Token) control {
	ids, v := &s.h.ids, s.cfg.Vocab
	kind := v.Kind(t)
	if kind == backend.Normal && !v.EndsGeneration(t) {
		return noControl
	}
	switch t {
	case ids.start:
		return ctlStart
	case ids.end:
		return ctlEnd
	case ids.message:
		return ctlMessage
	case ids.channel:
		return ctlChannel
	case backend.NoToken:
		return ctlOther
	case ids.constrain:
		return ctlConstrain
	case ids.ret:
		return ctlReturn
	case ids.call:
		return ctlCall
	}
	if v.EndsGeneration(t) {
		return ctlEOG
	}
	if kind == backend.Control || kind == backend.Unused && (!v.Valid(t) || v.Piece(t) == "") {
		return ctlOther
	}
	return noControl
}

func (s *harmonyReader) push(t backend.Token, out *backend.Output) {
	c := s.control(t)
	if c == noControl {
		s.out.ledger.add(s.cfg.Vocab, t, out)
		piece := s.cfg.Vocab.Piece(t)
		if s.h.phase == inContent {
			s.body(piece)
			return
		}
		s.headerText(piece)
		return
	}
	switch s.h.phase {
	case inContent:
		s.controlInContent(c)
	case inHeader:
		s.controlInHeader(c)
	default:
		s.controlInBetween(c)
	}
}

// body adds text to the message.
func (s *harmonyReader) body(piece string) {
	switch {
	case s.taggedAnswer():
		s.tags.push(piece, false, false)
	case s.h.report:
		s.report(piece)
	default:
		s.out.text(piece)
	}
}

// taggedAnswer reports whether the message is an answer in which markers or an object are looked for.
func (s *harmonyReader) taggedAnswer() bool {
	return s.h.segment == reasoning.Answer && (s.cfg.Markers || s.cfg.JSON != nil)
}

func (s *harmonyReader) controlInContent(c control) {
	switch c {
	case ctlEnd, ctlReturn, ctlCall, ctlEOG:
		if c == ctlCall && s.h.segment != reasoning.ToolCall && !s.h.report {
			s.warn(CodeCallWithoutRecipient)
		}
		s.closeMessage()
		s.ended = c != ctlEnd
	case ctlStart, ctlChannel:
		s.warn(CodeMissingEnd)
		s.closeMessage()
		s.controlInBetween(c)
	default:
		s.warn(CodeStrayControl)
	}
}

func (s *harmonyReader) controlInBetween(c control) {
	switch c {
	case ctlStart:
		s.h.phase = inHeader
		s.h.header.reset(false, false)
	case ctlChannel:
		s.warn(CodeMissingStart)
		s.h.phase = inHeader
		s.h.header.reset(true, false)
		s.h.header.open(channelPart)
	case ctlMessage:
		s.warn(CodeMissingStart)
		s.bareMessage()
	case ctlReturn, ctlCall:
		s.warn(CodeStrayControl)
		s.ended = true
	case ctlEOG:
		s.ended = true
	default:
		s.warn(CodeStrayControl)
	}
}

func (s *harmonyReader) controlInHeader(c control) {
	h := &s.h.header
	switch c {
	case ctlStart:
		s.startAgain()
	case ctlChannel, ctlConstrain:
		if h.bare && !h.given {
			s.warn(CodeMissingStart)
		}
		if len(h.parts) >= maxHeaderParts {
			s.warn(CodeMalformedHeader)
			return
		}
		kind := channelPart
		if c == ctlConstrain {
			kind = constrainPart
		}
		h.open(kind)
		s.reviewHeader()
	case ctlMessage:
		s.confirmHeader()
	case ctlEnd, ctlReturn, ctlCall, ctlEOG:
		s.abandonHeader(c == ctlEOG)
		s.ended = c != ctlEnd
	default:
		s.warn(CodeStrayControl)
	}
}

// startAgain takes a <|start|> inside a header.
func (s *harmonyReader) startAgain() {
	h := &s.h.header
	r := h.read(false, true)
	switch {
	case h.fragment():
		s.warn(CodeMalformedHeader)
	case r.body >= 0:
		s.warn(CodeMissingMessage)
		s.beginBody(r)
		s.closeMessage()
	case h.blank() && h.bare && (!h.given || s.out.parse != nil && s.pos == 0):
		// White space between messages, or a whole that begins with its first header.
	default:
		s.warn(CodeDoubledStart)
	}
	s.dropHeader()
	s.h.phase = inHeader
	h.reset(false, false)
}

// headerText takes text before <|message|>.
func (s *harmonyReader) headerText(piece string) {
	h := &s.h.header
	if s.h.phase == inBetween {
		s.h.phase = inHeader
		h.reset(false, true)
	}
	h.text = append(h.text, piece...)
	s.reviewHeader()
}

// reviewHeader looks whether what has come can still be a header; if not, the rest of it is text.
func (s *harmonyReader) reviewHeader() {
	h := &s.h.header
	r := h.read(false, false)
	if r.body < 0 && len(h.text) > maxHeader {
		if r = h.read(false, true); r.body < 0 {
			r.body = len(h.text)
		}
	}
	if r.body < 0 {
		return
	}
	if h.blankBefore(r.body) {
		r.body = 0
	} else {
		s.warn(CodeMissingMessage)
	}
	s.beginBody(r)
}

// confirmHeader takes <|message|>.
func (s *harmonyReader) confirmHeader() {
	h := &s.h.header
	r := h.read(true, false)
	if r.body >= 0 { // a word that could have grown into part of a header has not
		s.warn(CodeMalformedHeader)
		s.beginBody(r)
		return
	}
	if h.bare && !h.given {
		s.warn(CodeMissingStart)
	}
	if r.odd != "" {
		s.warn(r.odd)
	}
	s.dropHeader()
	s.message(r)
}

// abandonHeader takes the end of a message, or of everything, inside a header.
func (s *harmonyReader) abandonHeader(eog bool) {
	h := &s.h.header
	r := h.read(false, true)
	if r.body < 0 && r.channel == "" && r.recipient == "" && !h.hasChannel() {
		if !eog {
			s.warn(CodeMissingMessage)
		}
		s.dropHeader()
		s.h.phase = inBetween
		return
	}
	s.warn(CodeMissingMessage)
	if r.body < 0 {
		r.body = len(h.text)
	} else if h.blankBefore(r.body) {
		r.body = 0
	}
	s.beginBody(r)
	s.closeMessage()
}

// beginBody opens the message whose header was left at r.body and gives it the text from there on.
func (s *harmonyReader) beginBody(r reading) {
	h := &s.h.header
	s.out.drop(r.body, useForeign)
	text := string(h.text[r.body:])
	s.message(r)
	h.text = h.text[:0]
	if text != "" {
		s.body(text)
	}
}

// dropHeader takes the header's text out of the stream.
func (s *harmonyReader) dropHeader() {
	s.out.drop(len(s.h.header.text), useForeign)
	s.h.header.text = s.h.header.text[:0]
}

func (s *harmonyReader) bareMessage() {
	s.h.header.reset(true, true)
	s.message(reading{body: -1, soft: -1})
}

// message opens the message with a header that is complete.
func (s *harmonyReader) message(r reading) {
	h := &s.h
	h.phase, h.of = inContent, r
	h.segment, h.call, h.report = s.classify(r), reasoning.Call{}, s.isReport(r)
	if s.out.parse != nil {
		s.out.parse.begin(r, h.segment)
	}
	if h.segment == reasoning.ToolCall {
		h.call = s.call(strings.TrimPrefix(r.recipient, "functions."))
	}
	switch {
	case s.taggedAnswer():
		s.tags.start(chattemplate.StartTurn)
	case h.report:
		s.object.reset(true, false)
	case h.segment == reasoning.Reasoning:
		s.out.reason(reasoning.StrategyNative)
	default:
		s.out.begin(h.segment, h.call)
	}
}

func (s *harmonyReader) closeMessage() {
	switch {
	case s.taggedAnswer():
		s.tags.finish()
	case s.h.report:
		s.endReport()
	}
	s.out.end()
	if s.out.parse != nil {
		s.out.parse.end()
	}
	s.h.phase = inBetween
	s.h.of, s.h.call, s.h.segment, s.h.report = reading{}, reasoning.Call{}, reasoning.Header, false
}

// classify says what a message is by its header.
func (s *harmonyReader) classify(r reading) reasoning.Segment {
	if r.role != "" && r.role != "assistant" && !strings.HasPrefix(r.role, "assistant:") {
		s.warn(CodeForeignRole)
		return reasoning.Reasoning
	}
	switch r.recipient {
	case "":
	case "assistant", "user", "all":
		s.warn(CodeUnknownRecipient)
	default:
		if r.channel == channelFinal {
			s.warn(CodeRecipientInFinal)
		}
		if s.isReport(r) {
			return reasoning.Reasoning
		}
		s.checkFunction(r.recipient)
		return reasoning.ToolCall
	}
	switch r.channel {
	case channelAnalysis:
		return reasoning.Reasoning
	case channelCommentary:
		return reasoning.Preamble
	case channelFinal:
		return reasoning.Answer
	case "":
		if s.h.header.hasChannel() {
			s.warn(CodeEmptyChannel)
			return reasoning.Reasoning
		}
		s.warn(CodeBareBody)
		return reasoning.Answer
	}
	s.warn(CodeUnknownChannel)
	return reasoning.Reasoning
}

// checkFunction warns about a call of a function that the request does not have.
func (s *harmonyReader) checkFunction(recipient string) {
	if s.cfg.Tools == nil {
		return
	}
	name := strings.TrimPrefix(recipient, "functions.")
	for _, t := range s.cfg.Tools {
		if t == name {
			return
		}
	}
	if recipient == "python" || strings.HasPrefix(recipient, "browser.") {
		return
	}
	s.warn(CodeUnknownFunction)
}

func (s *harmonyReader) finish() {
	switch s.h.phase {
	case inContent:
		s.closeMessage()
	case inHeader:
		h := &s.h.header
		if h.blank() && h.bare {
			return
		}
		s.warn(CodeUnfinishedHeader)
		r := h.read(false, true)
		if r.body < 0 || s.err != nil {
			return
		}
		s.beginBody(r)
		s.closeMessage()
	}
}

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
