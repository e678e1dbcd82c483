// Package encoder writes the events of a run as MEW envelopes.
//
// It generates nothing and sends nothing itself: envelopes go to a function. One [Encoder] makes one reasoning: a
// reasoning/start, whose id is the context of what follows; the thoughts; a reasoning/conclusion or
// reasoning/cancel; and after a conclusion the answer, as a chat without a context. If the model calls functions,
// the reasoning consists of several runs, one after another.
//
//	visibility  what is in the context
//	none        nothing; start and conclusion have no content
//	summary     the summary, as one thought
//	full        the reasoning, each sentence as a thought; reasons for decisions and assumptions, as thoughts with
//	            metadata
//
// A specialist (package delegation) has its own reasoning inside the model's, with its own start and conclusion. The
// conclusion says how it ended.
//
// What the model says before a call is a chat in the context. A call is an mcp/request, or an mcp/proposal if only that
// is allowed. The conclusion repeats the beginning of the answer. The warnings of a run are in the metadata of the
// answer.
//
// # Rules
//
//   - The encoder passes on only what the run's visibility shows, even if it is given more.
//   - It sends nothing that its participant may not send.
//   - Thoughts are whole sentences. Thoughts that a limit held back are counted in the next one that is sent, or in the
//     conclusion.
package encoder
