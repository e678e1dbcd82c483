// Package reasoning defines the events that a run emits, and who may see them.
//
// An [Event] is a piece of a run: a segment of text, a call, a warning, a decision or the result. [Visibility.Shows]
// decides which events may leave the process. It is asked once, before any encoder sees an event. [Strategy] and
// [Effort] say where reasoning comes from and how much of it there should be.
//
// The subpackages each have one job: filter changes a stream of events, prompts holds the texts that models get,
// decision writes decisions down, and seal and trace keep reasoning encrypted. The readers that turn tokens into
// events are in package chattemplate, because they belong to the families of models.
//
// Rule: under visibility none, no byte of the reasoning or of its summary passes. Under summary, only the summary
// passes.
package reasoning
