package tags

import "runner/reasoning"

// Format is how one model marks the parts of its turn. The zero value marks nothing.
type Format struct {
	// Open and Close stand around the reasoning, without white space around them; empty where the model does not mark
	// its reasoning. Most are special tokens of the vocabulary, some are plain text.
	Open, Close string
	// AnswerOpen and AnswerClose stand around the answer where a model marks it too; empty where it does not.
	AnswerOpen, AnswerClose string
	// CanSkip says that the template has a switch that skips reasoning. Without one, reasoning is skipped by closing it
	// as soon as it opens.
	CanSkip bool
	// Tools says that the template shows tools to the model.
	Tools bool
	// Calls is how the model writes calls in its text; nil where that is not known.
	Calls *CallStyle
}

// Markers is the format of strategy markers, for models that do not mark reasoning themselves.
var Markers = Format{Open: reasoning.MarkerOpen, Close: reasoning.MarkerClose}
