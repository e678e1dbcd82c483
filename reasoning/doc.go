// Package reasoning says what a run tells the world and who may see it.
//
// An [Event] is a piece of a run: a segment of text, a call, a warning, a decision, the result. [Visibility.Shows]
// decides which events may leave the process. It is asked once, before any encoder sees an event. [Strategy] and
// [Effort] say where reasoning comes from and how much there is to be.
//
// The subpackages each have one job: filter changes a stream of events, prompts holds what models are told, decision
// writes decisions down, and seal and trace keep reasoning encrypted. The readers that make events from tokens are in
// package chattemplate, because they belong to the families of models.
//
// Rule: under visibility none no byte of reasoning passes, and under summary none but the summary's.
package reasoning
