package reader

import (
	"fmt"

	"runner/backend"
	"runner/chattemplate"
)

// tagsReader reads turns that are one text: reasoning and answer are told apart by tags, and calls by marks of their
// own. Tags are found in the text however it is cut into tokens.
type tagsReader struct {
	Core
	tags Text
}

func newTags(cfg Config) (*tagsReader, error) {
	s := &tagsReader{}
	s.init(cfg)
	var formats []chattemplate.Format
	if cfg.Format.Family == chattemplate.ThinkTags {
		if cfg.Format.Open == "" || cfg.Format.Close == "" {
			return nil, fmt.Errorf("format of think tags without an opening and a closing tag")
		}
		formats = append(formats, cfg.Format)
	}
	if cfg.Markers {
		formats = append(formats, MarkersFormat)
	}
	s.tags.init(&s.Core, formats, len(cfg.Tools) > 0 || cfg.Report)
	s.tags.start(cfg.Start)
	return s, nil
}

// State returns where the next token stands.
func (s *tagsReader) State() State {
	return State{
		Segment: s.tags.segment(), Call: s.tags.current(), InObject: s.tags.inObject(), Reported: s.out.reported,
		Steering: s.tags.steering(), Ended: s.ended,
	}
}

// Push takes the next token.
func (s *tagsReader) Push(t backend.Token) error { return s.PushOutput(t, nil) }

// PushOutput is Push for a token with the log probabilities of the step that sampled it.
func (s *tagsReader) PushOutput(t backend.Token, out *backend.Output) error {
	if s.err != nil || s.done {
		return s.err
	}
	s.ended = false
	s.push(t, out)
	s.pos++
	return s.err
}

func (s *tagsReader) push(t backend.Token, out *backend.Output) {
	v := s.cfg.Vocab
	if v.EndsGeneration(t) {
		s.tags.finish()
		s.tags.start(chattemplate.StartTurn) // whatever follows is another turn
		s.ended = true
		return
	}
	kind := v.Kind(t)
	if kind == backend.Unused && !v.Valid(t) {
		s.warn(CodeStrayControl)
		return
	}
	control := kind == backend.Control || kind == backend.Unused
	if control && s.tags.mode == modeObject && !s.object.ended() {
		s.warn(CodeStrayControl)
		return
	}
	s.out.ledger.add(v, t, out)
	s.tags.push(v.Piece(t), control, kind == backend.UserDefined)
}

// Begin says that the next token belongs to the answer that is held to a form.
func (s *tagsReader) Begin() { s.tags.begin() }

// CloseReasoning returns the text that would end the reasoning in an object.
func (s *tagsReader) CloseReasoning() (text string, ok bool) {
	if !s.State().InObject {
		return "", false
	}
	return s.object.closing()
}

// Finish ends the output.
func (s *tagsReader) Finish() error {
	if s.err == nil && !s.done {
		s.tags.finish()
		s.out.origin.finish(s.out.emit)
		s.done = true
	}
	return s.err
}
