package channels

import (
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// control is a kind of control token.
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
	ctlOther // a control token without a meaning here
)

// machine is the state of reading harmony messages.
type machine struct {
	ids    harmony.Tokens
	header header
	phase  phase
	// of is the header of the current message. This field and the next four are valid in its content only.
	of      reading
	segment reasoning.Segment
	call    reasoning.Call
	report  bool // the message is a call of report_reasoning
	held    bool // the message is a preamble that is held back
}

// phase is a part of a message.
type phase uint8

const (
	inBetween phase = iota // before <|start|>
	inHeader               // before <|message|>
	inContent
)

// Reader reads messages with channels. It finds their marks by token id, never in the text. Text without a header is
// the answer. Text on an unknown or empty channel is reasoning.
type Reader struct {
	reader.Core
	// marked finds markers and objects in the text of answers and preambles.
	marked markup.Text
	h      machine
	// shut says that the model may not reason on its channel. A preamble is then held back until it is known whether a
	// call follows. If none does, the preamble is reasoning: a model that may not reason works there.
	shut bool
	// cut says that the output has ended inside a message.
	cut bool
}

// NewReader returns a reader of messages with channels. It fails if cfg is incomplete or if the vocabulary lacks the
// format's tokens.
func NewReader(cfg reader.Config) (*Reader, error) {
	s := &Reader{}
	if err := s.Init(cfg, s); err != nil {
		return nil, err
	}
	var err error
	if s.h.ids, err = harmony.Find(cfg.Vocab); err != nil {
		return nil, err
	}
	if cfg.Markers {
		s.marked.Init(&s.Core, []markup.Format{markup.Markers}, nil, false)
	} else if cfg.JSON != nil {
		s.marked.Init(&s.Core, nil, nil, false)
	}
	s.h.phase = inHeader
	s.h.header.tools = s.Cfg.Tools
	s.h.header.reset(true, true)
	switch s.Cfg.Start {
	case chattemplate.StartReasoning:
		s.message(reading{channel: harmony.Analysis})
	case chattemplate.StartAnswer:
		s.message(reading{channel: harmony.Final})
	}
	return s, nil
}

// State implements reader.Reader.
func (s *Reader) State() reader.State {
	h := &s.h
	if h.phase != inContent {
		return reader.State{Place: reader.PlaceHeader, Segment: reasoning.Header, Reported: s.Out.Reported, Steering: true,
			Ended: s.Ended}
	}
	st := reader.State{
		Segment: h.segment, Call: h.call, InObject: h.report, Reported: s.Out.Reported, Ended: s.Ended,
	}
	searched := s.searched()
	if searched {
		st.Segment, st.InObject, st.Steering = s.marked.Segment(), s.marked.InObject(), s.marked.Steering()
	}
	switch {
	case st.Segment == reasoning.ToolCall || st.Call.Name != "" || st.InObject && h.of.recipient != "":
		st.Place, st.Marked = reader.PlaceCall, s.Out.Marked()
	case st.Segment == reasoning.Reasoning && !st.InObject:
		st.Place = reader.PlaceReasoning
		if searched {
			st.Marked = s.marked.Marked()
		}
	case h.segment == reasoning.Preamble:
		st.Place = reader.PlacePreamble
		if h.held && st.Segment == reasoning.Preamble {
			st.Segment = reasoning.Reasoning
		}
	default:
		st.Place = reader.PlaceAnswer
	}
	return st
}

// BeginAnswer implements reader.Reader.
func (s *Reader) BeginAnswer() { s.marked.BeginAnswer() }

// Shut says that from the next message on the model may not reason on its channel.
func (s *Reader) Shut() { s.shut = true }

// control returns the kind of t.
func (s *Reader) control(t backend.Token) control {
	ids, v := &s.h.ids, s.Cfg.Vocab
	kind := v.Kind(t)
	if kind == backend.Normal && !v.EndsGeneration(t) {
		return noControl
	}
	switch t {
	case ids.Start:
		return ctlStart
	case ids.End:
		return ctlEnd
	case ids.Message:
		return ctlMessage
	case ids.Channel:
		return ctlChannel
	case backend.NoToken:
		return ctlOther
	case ids.Constrain:
		return ctlConstrain
	case ids.Return:
		return ctlReturn
	case ids.Call:
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

// Read implements reader.Parser.
func (s *Reader) Read(t backend.Token, out *backend.Output) {
	c := s.control(t)
	if c == noControl {
		s.Out.Ledger.Add(s.Cfg.Vocab, t, out)
		piece := s.Cfg.Vocab.Piece(t)
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
	if s.Ended {
		s.Out.Settle(false)
	}
}

// body adds text to the message.
func (s *Reader) body(piece string) {
	switch {
	case s.searched():
		s.marked.Push(piece, false, false)
	case s.h.report:
		s.report(piece)
	default:
		s.Out.Text(piece)
	}
}

// searched reports whether markers or an object are looked for in the message. The caller sees answers and preambles.
func (s *Reader) searched() bool {
	return (s.h.segment == reasoning.Answer || s.h.segment == reasoning.Preamble) &&
		(s.Cfg.Markers || s.Cfg.JSON != nil)
}

func (s *Reader) controlInContent(c control) {
	switch c {
	case ctlEnd, ctlReturn, ctlCall, ctlEOG:
		if c == ctlCall && s.h.segment != reasoning.ToolCall && !s.h.report {
			s.Warn(reader.CodeCallWithoutRecipient)
		}
		s.closeMessage()
		s.Ended = c != ctlEnd
	case ctlStart, ctlChannel:
		s.Warn(reader.CodeMissingEnd)
		s.closeMessage()
		s.controlInBetween(c)
	default:
		s.Warn(reader.CodeStrayControl)
	}
}

func (s *Reader) controlInBetween(c control) {
	switch c {
	case ctlStart:
		s.h.phase = inHeader
		s.h.header.reset(false, false)
	case ctlChannel:
		s.Warn(reader.CodeMissingStart)
		s.h.phase = inHeader
		s.h.header.reset(true, false)
		s.h.header.open(channelPart)
	case ctlMessage:
		s.Warn(reader.CodeMissingStart)
		s.bareMessage()
	case ctlReturn, ctlCall:
		s.Warn(reader.CodeStrayControl)
		s.Ended = true
	case ctlEOG:
		s.Ended = true
	default:
		s.Warn(reader.CodeStrayControl)
	}
}

func (s *Reader) controlInHeader(c control) {
	h := &s.h.header
	switch c {
	case ctlStart:
		s.startAgain()
	case ctlChannel, ctlConstrain:
		if h.bare && !h.given {
			s.Warn(reader.CodeMissingStart)
		}
		if len(h.parts) >= maxHeaderParts {
			s.Warn(reader.CodeMalformedHeader)
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
		s.Ended = c != ctlEnd
	default:
		s.Warn(reader.CodeStrayControl)
	}
}

// startAgain takes <|start|> inside a header.
func (s *Reader) startAgain() {
	h := &s.h.header
	r := h.read(false, true)
	switch {
	case h.fragment():
		s.Warn(reader.CodeMalformedHeader)
	case r.body >= 0:
		s.Warn(reader.CodeMissingMessage)
		s.beginBody(r)
		s.closeMessage()
	case h.blank() && h.bare && !h.given: // white space between messages
	default:
		s.Warn(reader.CodeDoubledStart)
	}
	s.dropHeader()
	s.h.phase = inHeader
	h.reset(false, false)
}

// headerText takes text before <|message|>.
func (s *Reader) headerText(piece string) {
	h := &s.h.header
	if s.h.phase == inBetween {
		s.h.phase = inHeader
		h.reset(false, true)
	}
	h.text = append(h.text, piece...)
	s.reviewHeader()
}

// reviewHeader checks whether the text so far can still be a header. If not, the rest of it is the message's text.
func (s *Reader) reviewHeader() {
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
		s.Warn(reader.CodeMissingMessage)
	}
	s.beginBody(r)
}

// confirmHeader takes <|message|>.
func (s *Reader) confirmHeader() {
	h := &s.h.header
	r := h.read(true, false)
	if r.body >= 0 { // a word could have become part of a header but did not
		s.Warn(reader.CodeMalformedHeader)
		s.beginBody(r)
		return
	}
	if h.bare && !h.given {
		s.Warn(reader.CodeMissingStart)
	}
	if r.odd != "" {
		s.Warn(r.odd)
	}
	s.dropHeader()
	s.message(r)
}

// abandonHeader takes the end of a message or of the turn inside a header.
func (s *Reader) abandonHeader(eog bool) {
	h := &s.h.header
	r := h.read(false, true)
	if r.body < 0 && r.channel == "" && r.recipient == "" && !h.hasChannel() {
		if !eog {
			s.Warn(reader.CodeMissingMessage)
		}
		s.dropHeader()
		s.h.phase = inBetween
		return
	}
	s.Warn(reader.CodeMissingMessage)
	if r.body < 0 {
		r.body = len(h.text)
	} else if h.blankBefore(r.body) {
		r.body = 0
	}
	s.beginBody(r)
	s.closeMessage()
}

// beginBody opens the message whose header ends at r.body, with the text from there on.
func (s *Reader) beginBody(r reading) {
	h := &s.h.header
	s.Out.Drop(r.body, reader.UseForeign)
	text := string(h.text[r.body:])
	s.message(r)
	h.text = h.text[:0]
	if text != "" {
		s.body(text)
	}
}

// dropHeader drops the header's text.
func (s *Reader) dropHeader() {
	s.Out.Drop(len(s.h.header.text), reader.UseForeign)
	s.h.header.text = s.h.header.text[:0]
}

func (s *Reader) bareMessage() {
	s.h.header.reset(true, true)
	s.message(reading{body: -1, soft: -1})
}

// message opens the message with a complete header.
func (s *Reader) message(r reading) {
	h := &s.h
	h.phase, h.of = inContent, r
	h.segment, h.call, h.report = s.classify(r), reasoning.Call{}, s.isReport(r)
	if h.segment == reasoning.ToolCall {
		h.call = s.Call(strings.TrimPrefix(r.recipient, functions))
	}
	s.Out.Settle(h.segment == reasoning.ToolCall && (s.Cfg.Inner == nil || !s.Cfg.Inner(h.call.Name)))
	if h.held = s.shut && h.segment == reasoning.Preamble; h.held {
		s.Out.Withhold()
	}
	if s.Shown = reasoning.Answer; h.segment == reasoning.Preamble {
		s.Shown = reasoning.Preamble
	}
	switch {
	case s.searched():
		s.marked.Start(chattemplate.StartTurn)
	case h.report:
		s.Object.Reset(true, false)
	case h.segment == reasoning.Reasoning:
		s.Out.Reason(reasoning.StrategyNative)
	default:
		s.Out.Begin(h.segment, h.call)
	}
}

func (s *Reader) closeMessage() {
	switch {
	case s.searched() && s.cut:
		s.marked.Cut()
	case s.searched():
		s.marked.Finish()
	case s.h.report:
		s.EndReport()
	}
	s.Out.End()
	s.h.phase = inBetween
}

// classify returns the segment of a message with a header.
func (s *Reader) classify(r reading) reasoning.Segment {
	if r.role != "" && r.role != assistant && !strings.HasPrefix(r.role, assistant+":") {
		s.Warn(reader.CodeForeignRole)
		return reasoning.Reasoning
	}
	switch {
	case r.recipient == "":
	case isPerson(r.recipient):
		s.Warn(reader.CodeUnknownRecipient)
	default:
		if r.channel == harmony.Final {
			s.Warn(reader.CodeRecipientInFinal)
		}
		if s.isReport(r) {
			return reasoning.Reasoning
		}
		s.checkFunction(r.recipient)
		return reasoning.ToolCall
	}
	switch r.channel {
	case harmony.Analysis:
		return reasoning.Reasoning
	case harmony.Commentary:
		return reasoning.Preamble
	case harmony.Final:
		return reasoning.Answer
	case "":
		if s.h.header.hasChannel() {
			s.Warn(reader.CodeEmptyChannel)
			return reasoning.Reasoning
		}
		s.Warn(reader.CodeBareBody)
		return reasoning.Answer
	}
	s.Warn(reader.CodeUnknownChannel)
	return reasoning.Reasoning
}

// checkFunction warns about a call of a function that the request does not have.
func (s *Reader) checkFunction(recipient string) {
	name := strings.TrimPrefix(recipient, functions)
	if s.Cfg.Tools != nil && !slices.Contains(s.Cfg.Tools, name) && !callsBuiltin(recipient) {
		s.Warn(reader.CodeUnknownFunction)
	}
}

// End implements reader.Parser.
func (s *Reader) End() {
	s.cut = true
	defer s.Out.Settle(false)
	switch s.h.phase {
	case inContent:
		s.closeMessage()
	case inHeader:
		h := &s.h.header
		if h.blank() && h.bare {
			return
		}
		s.Warn(reader.CodeUnfinishedHeader)
		if !s.Ended && !h.hasChannel() && h.read(false, false).body < 0 {
			s.dropHeader() // the output was cut, and what there is may be the beginning of a header
			return
		}
		r := h.read(false, true)
		if r.body < 0 {
			return
		}
		s.beginBody(r)
		s.closeMessage()
	}
}

// isReport reports whether a message is a call of report_reasoning.
func (s *Reader) isReport(r reading) bool {
	return s.Cfg.Report && strings.TrimPrefix(r.recipient, functions) == reasoning.ReportReasoningName
}

// report takes text of a message that is a call of report_reasoning.
func (s *Reader) report(text string) {
	r := &s.Object
	text = text[r.Feed(text):]
	if !r.Ended() {
		return
	}
	text = string(r.Left) + text
	rest := strings.TrimLeft(text, " \t\r\n")
	r.Left = r.Left[:0]
	r.Drop(len(text) - len(rest))
	if rest != "" {
		r.Warn(reader.CodeMalformedObject)
		r.Plain()
		r.Text(rest)
	}
}
