package tags

import (
	"fmt"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// Reader reads turns that are one text: reasoning and answer are told apart by tags, and calls by marks of their
// own. Tags are found in the text however it is cut into tokens.
type Reader struct {
	reader.Core
	tags Text
}

// NewReader returns a reader of turns in a format.
func NewReader(f Format, cfg reader.Config) (*Reader, error) {
	if (f.Open == "") != (f.Close == "") {
		return nil, fmt.Errorf("a format needs both tags around the reasoning, or none")
	}
	s := &Reader{}
	if err := s.Init(cfg); err != nil {
		return nil, err
	}
	var formats []Format
	if f.Open != "" {
		formats = append(formats, f)
	}
	if cfg.Markers {
		formats = append(formats, Markers)
	}
	s.tags.Init(&s.Core, formats, f.Calls, len(cfg.Tools) > 0 || cfg.Report)
	s.tags.Start(cfg.Start)
	return s, nil
}

// State returns where the next token stands.
func (s *Reader) State() reader.State {
	st := reader.State{
		Place: reader.PlaceAnswer, Segment: s.tags.Segment(), Call: s.tags.current(), InObject: s.tags.InObject(),
		Reported: s.Out.Reported, Steering: s.tags.Steering(), Ended: s.Ended,
	}
	switch {
	case st.Segment == reasoning.ToolCall || st.Call.Name != "":
		st.Place = reader.PlaceCall
	case st.InObject:
	case st.Segment == reasoning.Reasoning:
		st.Place, st.Marked = reader.PlaceReasoning, s.Cfg.Markers
	}
	return st
}

// Push takes the next token.
func (s *Reader) Push(t backend.Token) { s.PushOutput(t, nil) }

// PushOutput is Push for a token with the log probabilities of the step that sampled it.
func (s *Reader) PushOutput(t backend.Token, out *backend.Output) {
	if s.Done {
		return
	}
	s.Ended = false
	s.push(t, out)
	s.Pos++
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

// BeginAnswer says that the next token belongs to the answer that is held to a form.
func (s *Reader) BeginAnswer() { s.tags.Begin() }

// CloseReasoning returns the text that would end the reasoning in an object.
func (s *Reader) CloseReasoning() (text string, ok bool) {
	if !s.State().InObject {
		return "", false
	}
	return s.Object.Closing()
}

// Finish ends the output.
func (s *Reader) Finish() {
	if !s.Done {
		s.tags.Finish()
		s.Out.Origin.Finish(s.Out.Emit)
		s.Done = true
	}
}
