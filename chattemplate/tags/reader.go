package tags

import (
	"fmt"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// Reader reads turns that are one text, in which tags stand around the reasoning and marks around calls. It makes no
// difference how the text is cut into tokens.
type Reader struct {
	reader.Core
	text markup.Text
}

// NewReader returns a reader for a format. It fails if the format has only one tag around the reasoning, or if cfg is
// not valid.
func NewReader(f markup.Format, cfg reader.Config) (*Reader, error) {
	if (f.Open == "") != (f.Close == "") {
		return nil, fmt.Errorf("a format needs both tags around the reasoning, or none")
	}
	s := &Reader{}
	if err := s.Init(cfg, s); err != nil {
		return nil, err
	}
	var formats []markup.Format
	if f.Open != "" {
		formats = append(formats, f)
	}
	if cfg.Markers {
		formats = append(formats, markup.Markers)
	}
	s.text.Init(&s.Core, formats, f.Calls, len(cfg.Tools) > 0 || cfg.Report)
	s.text.Start(cfg.Start)
	return s, nil
}

// State implements reader.Reader.
func (s *Reader) State() reader.State {
	st := reader.State{
		Place: reader.PlaceAnswer, Segment: s.text.Segment(), Call: s.text.Call(), InObject: s.text.InObject(),
		Reported: s.Out.Reported, Steering: s.text.Steering(), Early: s.text.Early(), Ended: s.Ended,
	}
	switch {
	case st.Segment == reasoning.ToolCall || st.Call.Name != "":
		st.Place, st.Marked = reader.PlaceCall, s.Out.Marked()
	case st.InObject:
	case st.Segment == reasoning.Reasoning:
		st.Place, st.Marked = reader.PlaceReasoning, s.text.Marked()
	}
	return st
}

// Read implements reader.Parser.
func (s *Reader) Read(t backend.Token, out *backend.Output) {
	v := s.Cfg.Vocab
	if v.EndsGeneration(t) {
		s.Ended = true
		s.text.Finish()
		s.text.Start(chattemplate.StartTurn) // what follows is another turn
		return
	}
	kind := v.Kind(t)
	if kind == backend.Unused && !v.Valid(t) {
		s.Warn(reader.CodeStrayControl)
		return
	}
	control := kind == backend.Control || kind == backend.Unused
	if control && !s.text.TakesControl() {
		s.Warn(reader.CodeStrayControl)
		return
	}
	s.Out.Ledger.Add(v, t, out)
	s.text.Push(v.Piece(t), control, kind == backend.UserDefined)
}

// BeginAnswer implements reader.Reader.
func (s *Reader) BeginAnswer() { s.text.BeginAnswer() }

// End implements reader.Parser.
func (s *Reader) End() { s.text.Cut() }
