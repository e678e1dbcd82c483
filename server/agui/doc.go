// Package agui serves AG-UI, the Agent-User Interaction Protocol, in version 1.0
// (https://ag-ui.com/spec/1.0/schema.json). POST /agui runs one turn of a local model for the protocol's HttpAgent.
//
// The package decodes RunAgentInput into [generation.Request] and encodes events as server-sent events. It generates
// nothing, keeps nothing between requests and checks no API keys. Tools belong to the client: a turn that calls
// some ends, and lists the calls that wait for the client. Specialists (package delegation) are subagents with
// messages of their own, for clients that say that they speak 1.0. With the option interrupts a turn with calls ends
// with an interrupt for each call, whose id is that of the call, and the next request answers them in resume. Nothing
// else interrupts a run. The client's state and context are in the system prompt for the model to read; the model does
// not change them. Only text can be read. Other parts of results, and of messages before the last, become a note.
//
// # Reasoning
//
// forwardedProps holds the options for the reasoning, with the fields of OpenAI's formats: reasoning (none,
// summary, full or an object), reasoning_effort, reasoning_budget, reasoning_strategy, keep_reasoning, rationale,
// delegation, reasoning_seal and their other names.
//
//	visibility  what is sent
//	full        a reasoning message with the reasoning, before the answer
//	summary     a reasoning message with the summary, before the answer; one that explains the answer is after it
//	none        REASONING_START and REASONING_END if the model reasoned, and nothing between them
//
// So a client's history reads user, reasoning, assistant. The summary is generated at the same time as the answer,
// which waits for it. If no summary comes, nothing waits, and a warning says so.
//
// A run has one message of each kind: reasoning, the text before calls, and the answer. A message that continues after
// something else is opened again under its id. No two kinds share a message. None begins with blank lines, and there is
// no message for reasoning of blank lines alone.
//
// chunks sends REASONING_MESSAGE_CHUNK instead of the three events of a reasoning message. legacy_thinking sends the
// THINKING_* events of clients up to 0.0.45. The list of waiting calls is sent only to clients that say which version
// they speak, because clients before 1.0 refuse it.
//
// With rationale and visibility full, the model's reasons for its calls and its assumptions are sent as CUSTOM events.
//
// # Sealed values
//
// With reasoning_seal the reasoning is also sent as sealed values (package seal), in REASONING_ENCRYPTED_VALUE events.
// A value stands in the phase of its reasoning message, or of the summary. Under visibility none there is no such
// message, and the answer's message has the value; text before a call has none. Each call has it too, after its end,
// for clients that keep only calls. If nothing follows the reasoning, an empty reasoning message has the value. Of
// several stretches of reasoning each value has those before it, joined. A value is bound to the thread and to the
// calls of its message, or, without calls, to the nearest user message before it.
//
// A client sends messages back as it received them. A value that was moved or changed is left out with the warning
// sealed_dropped. With Config.StrictSeal it ends the run with RUN_ERROR and the code of package seal. A reasoning
// message without a value is the client's own text. It counts only for pending calls, and a summary never counts.
// What clients with legacy_thinking send back may be reasoning or a summary, so it does not count.
//
// # Errors
//
// A request that is refused before it runs gets an HTTP status and a [wire.PlainError]. For these, HttpAgent rejects
// the run with the status and the body. RUN_ERROR makes its runAgent resolve, so a client that does not listen for
// the event takes the run for a success. RUN_ERROR has only two uses: for a sealed value that Config.StrictSeal
// refuses, as the only event, because a client can continue without the value; and for an error after the run has
// started. A run that was cancelled ends with RUN_FINISHED and the outcome cancelled, for clients of 1.0. A stream ends
// with exactly one RUN_FINISHED or RUN_ERROR.
package agui
