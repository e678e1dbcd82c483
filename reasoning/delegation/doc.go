// Package delegation lets a conversation hand its reasoning to a specialist and take control back.
//
// While a specialist is active its prompt is the conversation's system prompt, as far as [Compose] lets it, and
// what it writes is intermediate: reasoning, which the visibility policy governs. The package holds the three
// instructions that a message can carry ([Delegate], [Return], [Intermediate]) with their forms for storage, for
// people and for the model; the [State] that they lead to; and the two functions with which a model delegates by
// itself.
//
// It generates nothing, knows no events and writes no wire format: package runner drives the steps.
//
// Rules: one delegation at a time, and at most [MaxSteps] steps in a run; a specialist ranks below the operator's
// system prompt and replaces no text that is marked as fixed; the conversation itself is never changed, so that
// giving up a delegation, however it ends, is to look at the conversation without it.
package delegation
