package tags

import (
	"fmt"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
)

// Reader reads turns that are one text: reasoning and answer are told apart by tags, and calls by marks of their
// own. Tags are found in the text however it is cut into tokens.
type Reader struct {
	reader.Core
	tags Text
}

func NewReader(cfg reader.Config) (*Reader, error) {
	s := &Reader{}
	s.Init(cfg)
	var formats []chattemplate.Format
	if cfg.Format.Family == chattemplate.ThinkTags {
		if cfg.Format.Open == "" || cfg.Format.Close == "" {
			return nil, fmt.Errorf("format of think tags without an opening and a closing tag")
		}
		formats = append(formats, cfg.Format)
	}
	if cfg.Markers {
		formats = append(formats, reader.MarkersFormat)
	}
	s.tags.Init(&s.Core, formats, len(cfg.Tools) > 0 || cfg.Report)
	s.tags.Start(cfg.Start)
	return s, nil
}

// State returns where the next token stands.
func (s *Reader) State() reader.State {
	return reader.State{
		Segment: s.tags.Segment(), Call: s.tags.current(), InObject: s.tags.InObject(), Reported: s.Out.Reported,
		Steering: s.tags.Steering(), Ended: s.Ended,
	}
}

// Push takes the next token.
func (s *Reader) Push(t backend.Token) error { return s.PushOutput(t, nil) }

// PushOutput is Push for a token with the log probabilities of the step that sampled it.
func (s *Reader) PushOutput(t backend.Token, out *backend.Output) error {
	if s.Err != nil || s.Done {
		return s.Err
	}
	s.Ended = false
	s.push(t, out)
	s.Pos++
	return s.Err
}

func (s *Reader) push(t backend.Token, out *backend.Output) {
	v := s.Cfg.Vocab
	if v.EndsGeneration(t) {
		s.tags.Finish()
		s.tags.Start(chattemplate.StartTurn) // whatever follows is another turn
		s.Ended = true
		return
	}
	kind := v.Kind(t)
	if kind == backend.Unused && !v.Valid(t) {
		s.Warn(reader.CodeStrayControl)
		return
	}
	control := kind == backend.Control || kind == backend.Unused
	if control && s.tags.mode == modeObject && !s.Object.Ended() {
		s.Warn(reader.CodeStrayControl)
		return
	}
	s.Out.Ledger.Add(v, t, out)
	s.tags.Push(v.Piece(t), control, kind == backend.UserDefined)
}

// Begin says that the next token belongs to the answer that is held to a form.
func (s *Reader) Begin() { s.tags.Begin() }

// CloseReasoning returns the text that would end the reasoning in an object.
func (s *Reader) CloseReasoning() (text string, ok bool) {
	if !s.State().InObject {
		return "", false
	}
	return s.Object.Closing()
}

// Finish ends the output.
func (s *Reader) Finish() error {
	if s.Err == nil && !s.Done {
		s.tags.Finish()
		s.Out.Origin.Finish(s.Out.Emit)
		s.Done = true
	}
	return s.Err
}
