package markup

import (
	"slices"

	"runner/reasoning"
)

// Format is how one model marks the parts of its turn. The zero value marks nothing.
type Format struct {
	// Open and Close are the marks around the reasoning, without white space. They are empty if the model does not mark
	// its reasoning. Most are special tokens of the vocabulary, and some are plain text.
	Open, Close string
	// AnswerOpen and AnswerClose are the marks around the answer. They are empty if the model does not mark it.
	AnswerOpen, AnswerClose string
	// CanSkip says that the template has a switch that skips reasoning. Without one, reasoning is skipped by closing it
	// as soon as it opens.
	CanSkip bool
	// Tools says that the template shows tools to the model.
	Tools bool
	// Calls is the style in which the model writes calls; nil if it is unknown.
	Calls *CallStyle
}

// Markers is the format of strategy markers, for models that do not mark their reasoning.
var Markers = Format{Open: reasoning.MarkerOpen, Close: reasoning.MarkerClose}

// Texts returns the fixed texts of the format, which hold all of its marks.
func (f *Format) Texts() []string {
	texts := []string{f.Open, f.Close, f.AnswerOpen, f.AnswerClose}
	s := f.Calls
	if s == nil {
		return texts
	}
	tokens := slices.Concat(s.Close, s.Head, s.Tail, s.Param)
	if s.List != nil {
		tokens = append(tokens, s.List[:]...)
	}
	texts = append(texts, s.Open)
	for _, t := range tokens {
		if t.Place == NoPlace {
			texts = append(texts, t.Text)
		}
	}
	return texts
}
