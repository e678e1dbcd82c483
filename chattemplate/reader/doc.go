// Package reader is what the readers of all families share. A reader turns a model's tokens into events, segment by
// segment: reasoning, preamble, tool call, answer.
//
// A family's own reader embeds a [Core] and is the core's [Parser]: it finds the marks in the tokens that the core
// takes. The core sends events through a [Sink], reads the objects of the strategies json and tool with [Object],
// and sends warnings.
//
// Two rules hold for every reader. Whatever a model writes, no text is lost. The text of a delta never splits a rune.
package reader
