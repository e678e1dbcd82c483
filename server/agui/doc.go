// Package agui serves AG-UI, the Agent-User Interaction Protocol, in version 1.0 (https://ag-ui.com/spec/1.0/schema.json): POST /agui
// runs one turn of a local model for the protocol's HttpAgent.
//
// It decodes RunAgentInput into [runner.Request] and encodes events as server-sent events; it generates nothing, keeps nothing between requests
// and asks no one for keys. Tools are the client's: a turn that calls some ends, and names the calls that wait for the client. Specialists
// (package delegation) are told as subagents, each with messages of its own, to clients that say that they speak 1.0. There are no interrupts, so
// nothing can be resumed; the client's state is not the model's and is not read; and nothing but text can be read.
//
// # Reasoning
//
// forwardedProps says what is asked of the reasoning, with the fields of OpenAI's formats: reasoning (none, summary, full or an object),
// reasoning_effort, reasoning_budget, reasoning_strategy, keep_reasoning, rationale, delegation, reasoning_seal
// and their other names.
//
//	visibility  what comes
//	full        a reasoning message with the reasoning, before the answer
//	summary     a reasoning message with the summary; it is made beside the answer, so the events of both may interleave
//	none        nothing
//
// A run has one message of each kind: reasoning, what the model says before its calls, and the answer. A message that goes on after
// something else is opened again under its id; no two kinds share one. chunks sends REASONING_MESSAGE_CHUNK in place of the three events
// of a reasoning message. legacy_thinking sends the events THINKING_* of clients up to 0.0.45, which name no message. The list of the calls
// that wait goes only to clients that say which version they speak: those before 1.0 refuse it.
//
// With rationale the model's reasons for its calls and what it assumes come as CUSTOM events, with visibility full.
//
// # Sealed values
//
// With reasoning_seal the reasoning comes as a sealed value too (package seal), in REASONING_ENCRYPTED_VALUE when the run is over: on the
// reasoning message, or on the assistant's where there is none, or on an empty reasoning message where there is neither; and on each call,
// for clients that keep only those. All hold the same. A value is bound to the thread, and to the calls of its message; without calls, to the nearest user
// message before it.
//
// A client sends messages back as they came. A value that was moved or altered is left out with the warning sealed_dropped. Under
// Config.StrictSeal it ends the run with RUN_ERROR and the code of package seal. A reasoning message without a value is the client's own text and
// counts for pending calls only, a summary never. What clients with legacy_thinking send back may be either, and does not count.
//
// # Errors
//
// A request that is refused before it runs is answered with its HTTP status and an [ErrorResponse], for which HttpAgent rejects the run with
// the status and the body. For RUN_ERROR its runAgent resolves, and who does not listen for the event takes the run for a success. Two
// things are RUN_ERROR: a sealed value that Config.StrictSeal refuses, as the only event, because a client gets on by leaving the value out; and
// whatever ends a run that has started. A stream ends with RUN_FINISHED or RUN_ERROR, once, and nothing after it.
package agui
