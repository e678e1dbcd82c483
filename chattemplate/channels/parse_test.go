package channels

import (
	"strings"

	"runner/backend"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// Message is one message in the output of a model.
type Message struct {
	// Role, Name, Channel, Recipient and ContentType are from the header. A content type that followed <|constrain|>
	// begins with that token. A message of a tool has role "tool" and the name of the function.
	Role, Name, Channel, Recipient, ContentType string
	// Segment is the segment that the message was read as, and Content its text.
	Segment reasoning.Segment
	Content string
}

// parser collects messages while a Reader reads.
type parser struct {
	reader   *Reader
	messages []Message
	content  strings.Builder
	// separator is what the reader sends first in a segment of a kind that came before. It belongs to no message.
	// spoken holds the kinds that came. apart says that the next text is the separator.
	separator string
	spoken    [reasoning.Answer + 1]bool
	apart     bool
}

// take adds the text of an event to the current message.
func (p *parser) take(e *reasoning.Event) {
	if e.Kind == reasoning.SegmentDelta && !p.apart {
		p.content.WriteString(e.Text)
	}
	p.apart = false
	if e.Kind == reasoning.SegmentStart && e.Segment != reasoning.ToolCall {
		p.apart = p.separator != "" && p.spoken[e.Segment]
		p.spoken[e.Segment] = true
	}
}

// step reads on. At most one message begins in a step, and it begins only if none was open.
func (p *parser) step(read func()) {
	h := &p.reader.h
	if h.phase != inContent {
		h.segment = reasoning.Header // the next message changes it
	}
	before := h.segment
	read()
	if before == reasoning.Header && h.segment != reasoning.Header {
		p.begin(h.of, h.segment)
	}
	if n := len(p.messages); n > 0 {
		p.messages[n-1].Content += p.content.String()
	}
	p.content.Reset()
}

func (p *parser) begin(r reading, seg reasoning.Segment) {
	m := Message{Channel: r.channel, Recipient: r.recipient, ContentType: r.contentType, Segment: seg}
	if r.constrained {
		m.ContentType = "<|constrain|>" + m.ContentType
	}
	role, name, _ := strings.Cut(r.role, ":")
	switch {
	case role == "":
		m.Role = assistant
	case isRole(role):
		m.Role, m.Name = role, name
	default:
		m.Role, m.Name = "tool", r.role
	}
	p.messages = append(p.messages, m)
}

// Parse reads a whole output into messages. The output may begin with the <|start|> of its first message and may
// continue after the end of the turn. cfg.Emit may be nil. The other fields of cfg work as they do in NewReader.
func Parse(cfg reader.Config, tokens []backend.Token) ([]Message, error) {
	p := &parser{separator: cfg.Separator}
	emit := cfg.Emit
	cfg.Emit = func(e reasoning.Event) {
		p.take(&e)
		if emit != nil {
			emit(e)
		}
	}
	s, err := NewReader(cfg)
	if err != nil {
		return nil, err
	}
	p.reader = s
	if s.h.phase == inContent {
		p.begin(s.h.of, s.h.segment)
	} else if len(tokens) > 0 && tokens[0] == s.h.ids.Start {
		s.h.phase = inBetween // the prompt has not opened the first message
	}
	for _, t := range tokens {
		p.step(func() { s.Push(t) })
	}
	p.step(s.Finish)
	return p.messages, nil
}

// HeaderOf returns the channel, the recipient and the content type in the header of the current message.
func HeaderOf(s *Reader) (channel, recipient, contentType string) {
	return s.h.of.channel, s.h.of.recipient, s.h.of.contentType
}
