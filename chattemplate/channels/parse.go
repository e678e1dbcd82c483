package channels

import (
	"strings"

	"runner/backend"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// Message is one message of a model's output, taken apart.
type Message struct {
	// Role, Name, Channel, Recipient and ContentType are a harmony header's; a content type that came
	// after <|constrain|> begins with it. Role and Name are the function's role and name in a tool's message.
	Role, Name, Channel, Recipient, ContentType string
	// Segment is what the message was taken for, and Content its text.
	Segment reasoning.Segment
	Content string
}

// parser collects messages while a splitter reads.
type parser struct {
	messages []Message
	content  strings.Builder
	// separator comes before the text of a segment of a kind that had one already, and belongs to none. apart says
	// that it comes next.
	separator string
	spoken    [reasoning.Answer + 1]bool
	apart     bool
}

// take adds the text of an event to the open message.
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
		m.Role = "assistant"
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

// Parse takes a whole harmony output apart at once. It may begin with its first message's <|start|>, and may hold
// messages after the turn's end. Emit may be nil; CallID and Separator work as they do for a Splitter.
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
