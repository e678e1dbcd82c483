// Package responses is OpenAI's Responses API over a server's models: POST /v1/responses and what goes with the ids
// that it gives out.
//
// It decodes requests into [generation.Request], folds a run's events into a [Response], and keeps past responses in a
// bounded store in memory, apart for each principal. It does not authenticate, route or generate.
//
// # Output and events
//
// Every segment of a run is an output item of its own, numbered in the order in which the items begin: reasoning
// (visibility full), messages (phase commentary before calls, final_answer for the answer) and function calls.
// Summary and answer are generated side by side, so their events interleave; output_index, item_id, content_index
// and summary_index say what each belongs to, and an item is added before anything of it comes. The first reasoning
// item holds the summary and the sealed value. It stands before the first message or call whenever either was asked
// for and the model reasons, and is done when the summary is, or at the end where it carries a sealed value; it may
// stay empty. With visibility none and nothing sealed there is no reasoning item.
//
// A stream ends with response.completed, response.incomplete or response.failed, which hold the whole response, and
// has no [DONE]. There is no event for a cancelled response in the API; it ends with response.incomplete and the
// status cancelled. Folding a stream as OpenAI's clients do gives the same response as not streaming: both come out
// of one encoder.
//
// # What requests say
//
// Honoured: the fields of [CreateRequest]. Ignored, because they have no meaning here: max_tool_calls,
// text.verbosity, user, safety_identifier, prompt_cache_key, service_tier, stream_options, and whatever is not
// listed. Left out with a warning: tools and tool records of types that this server does not run, unknown names in
// include. Refused by name: conversation, prompt, context_management, moderation, reasoning_encrypt on a server
// without a store of traces, input that is not text, unknown types of items, tool choices and formats.
//
// # What is kept, and what a sealed value restores
//
// A response is stored unless store is false, with all its reasoning sealed under the server's keys: what GET shows
// again with visibility full, the events of a run in the background, and what the model thought in the turn
// whatever was shown of it, for the next turn. Ids of other principals do not exist. What is deleted is gone, also
// for the responses that go on from it: they stay, and previous_response_id refuses them, rather than to leave a
// turn out of the conversation.
//
// Sealed values (encrypted_content) are bound to principal, model and, in a chain of previous_response_id, to its
// first response. They open beside the calls of their turn, and without calls after the user message that they were
// made after. A value that does not open is left out with the warning sealed_dropped; under Config.StrictSeal the
// request is refused. What it restores becomes the reasoning of that turn, which enters the prompt where the
// model's format keeps it, while calls are pending, or where keep_reasoning says so. What the store holds of
// another model's reasoning stays out when a conversation goes on with a new one. Reasoning in plain text counts
// while calls are pending only, and only where nothing sealed is there. Summaries never become reasoning.
package responses
