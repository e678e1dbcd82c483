// Package agui serves AG-UI, the Agent-User Interaction Protocol, in version 1.0
// (https://ag-ui.com/spec/1.0/schema.json): POST /agui runs one turn of a local model for the protocol's HttpAgent.
//
// It decodes RunAgentInput into [runner.Request] and encodes events as server-sent events; it generates nothing,
// keeps nothing between requests and asks no one for keys. Tools are the client's: a turn that calls some ends, and
// names the calls that wait for the client. Specialists (package delegation) are told as subagents, each with
// messages of its own, to clients that say that they speak 1.0. There are no interrupts, so nothing can be resumed.
// The client's state is for the model to read, in the system prompt, as its context is; the model does not change
// it. Nothing but text can be read.
//
// # Reasoning
//
// forwardedProps says what is asked of the reasoning, with the fields of OpenAI's formats: reasoning (none,
// summary, full or an object), reasoning_effort, reasoning_budget, reasoning_strategy, keep_reasoning, rationale,
// delegation, reasoning_seal and their other names.
//
//	visibility  what comes
//	full        a reasoning message with the reasoning, before the answer
//	summary     a reasoning message with the summary, begun before the answer
//	none        REASONING_START and REASONING_END where the model reasoned, and nothing between them
//
// So a client's history reads user, reasoning, assistant. A summary is made beside the answer, and the events of both
// may interleave. Where no summary comes its message stays empty, and a warning says so.
//
// A run has one message of each kind: reasoning, what the model says before its calls, and the answer. A message
// that goes on after something else is opened again under its id; no two kinds share one. chunks sends
// REASONING_MESSAGE_CHUNK in place of the three events of a reasoning message; the answer then waits for the end of
// the summary, because a chunk belongs to the message that is open. legacy_thinking sends the events THINKING_* of
// clients up to 0.0.45. The list of the calls that wait goes only to clients that say which version they speak:
// those before 1.0 refuse it.
//
// With rationale the model's reasons for its calls and what it assumes come as CUSTOM events, with visibility full.
//
// # Sealed values
//
// With reasoning_seal the reasoning comes as a sealed value too (package seal), in REASONING_ENCRYPTED_VALUE at the end
// of the run: on the reasoning message, which is empty under visibility none, and on each call, for clients that keep
// only those. The message is opened for its value and closed after it; a call has ended before. All hold the same.
// A value is bound to the thread, and to the calls of its message; without calls, to the nearest user
// message before it.
//
// A client sends messages back as they came. A value that was moved or altered is left out with the warning
// sealed_dropped. Under Config.StrictSeal it ends the run with RUN_ERROR and the code of package seal. A reasoning
// message without a value is the client's own text and counts for pending calls only, a summary never. What clients
// with legacy_thinking send back may be either, and does not count.
//
// # Errors
//
// A request that is refused before it runs is answered with its HTTP status and an [ErrorResponse], for which
// HttpAgent rejects the run with the status and the body. For RUN_ERROR its runAgent resolves, and who does not
// listen for the event takes the run for a success. Two things are RUN_ERROR: a sealed value that Config.StrictSeal
// refuses, as the only event, because a client gets on by leaving the value out; and whatever ends a run that has
// started. A stream ends with RUN_FINISHED or RUN_ERROR, once, and nothing after it.
package agui
