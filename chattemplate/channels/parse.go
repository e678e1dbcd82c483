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

func (p *parser) end() {
	if n := len(p.messages); n > 0 {
		p.messages[n-1].Content = p.content.String()
	}
	p.content.Reset()
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
	s.parse = p
	if s.h.phase == inContent {
		p.begin(s.h.of, s.h.segment)
	}
	for _, t := range tokens {
		s.Push(t)
	}
	s.Finish()
	return p.messages, nil
}
