package markup

import "runner/reasoning"

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
