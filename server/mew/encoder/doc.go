// Package encoder writes the events of a run as MEW envelopes.
//
// It sends nothing itself and generates nothing: envelopes go to a function. One [Encoder] makes one reasoning: a
// reasoning/start, whose id is the context of all that follows, what comes in between, a reasoning/conclusion or a
// reasoning/cancel, and after a conclusion the answer as a chat without a context. A reasoning that calls functions
// is made of several runs, one after the other.
//
//	visibility  what is in the context
//	none        nothing; start and conclusion have no content
//	summary     the summary, as one thought
//	full        the reasoning, each sentence as a thought; the reasons for decisions and what is assumed, as thoughts with metadata
//
// What a specialist reasons (package delegation) is a reasoning inside of the model's, with its own start and
// conclusion, which says how it ended.
//
// What the model tells before a call is a chat in the context, and a call an mcp/request or, where only that is
// allowed, an mcp/proposal. The conclusion repeats the beginning of the answer. What a run warns of is in the
// metadata of its answer.
//
// Rules: the encoder passes on what the run's visibility shows, and nothing else even if it is given more; it sends
// nothing that its participant may not send; thoughts are whole sentences, and what a limit holds back is counted
// in the next one that passes, or in the conclusion.
package encoder
