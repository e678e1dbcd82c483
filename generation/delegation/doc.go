// Package delegation lets a conversation hand its reasoning to a specialist and take control back.
//
// While a specialist is active, its prompt serves as the conversation's system prompt; [Compose] limits what it
// replaces. What it writes is intermediate: it is reasoning, and the visibility policy governs it. The package holds
// the three instructions that a message can carry ([Delegate], [Return], [Intermediate]), each in its forms for
// storage, for people and for the model. It also holds the [State] that they lead to, and the two functions that let a
// model delegate.
//
// It generates nothing, knows no events and writes no wire format. Package runner/delegate drives the steps.
//
// # Rules
//
//   - Only one delegation is active at a time.
//   - A run has at most [MaxSteps] steps.
//   - A specialist ranks below the operator's system prompt, and replaces no text that is marked as fixed.
//   - The conversation itself is never changed. So a delegation can be given up at any time by using the conversation
//     without it.
package delegation
