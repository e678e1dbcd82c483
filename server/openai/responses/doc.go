// Package responses serves OpenAI's Responses API: POST /v1/responses and the endpoints for stored responses.
//
// It decodes requests into [generation.Request] and collects a run's events into a [Response]. It keeps past
// responses of each principal in a bounded store in memory.
//
// # Output and events
//
// Each segment of a run is an output item: reasoning (visibility full), messages (phase commentary before calls,
// final_answer for the answer) and function calls. An item finishes before the next begins. A summary is generated at
// the same time as the answer, so the answer and the calls wait until the summary is settled.
//
// A summary and a sealed value belong to the reasoning item before what follows. Of several stretches of reasoning each
// has a value. With visibility none and no sealed value there is no reasoning item. A summary that explains the answer
// is an item after it.
//
// A stream ends with response.completed, response.incomplete or response.failed, which contain the whole response.
// It has no [DONE]. The API has no event for a cancelled response; it ends with response.incomplete and the status
// cancelled. Clients that collect a stream get the same response as without a stream, because one encoder makes
// both.
//
// # What requests say
//
// The fields of [CreateRequest] are supported, with these exceptions:
//
//   - Ignored, because they have no meaning here: max_tool_calls, text.verbosity, user, safety_identifier,
//     prompt_cache_key, service_tier, stream_options, and others that [wire.Unread] lists.
//   - Left out with a warning: unknown fields, tools and tool records of types that this server does not run, and
//     unknown names in include.
//   - Refused by name: conversation, prompt, context_management, moderation, reasoning_encrypt on a server without a
//     trace store, input that is not text, and unknown types of items, tool choices and formats.
//
// # Stored responses and sealed values
//
// A response is stored unless store is false. All its reasoning is sealed with the server's keys: the reasoning
// that GET shows with visibility full, the events of a run in the background, and the reasoning of the turn for the
// next turn, whether it was shown or not. A principal can only use its own ids. A deleted response is gone. The
// responses that continue it stay, but previous_response_id refuses them, because a turn of their conversation is
// missing.
//
// Sealed values (encrypted_content) are bound to principal, model and, in a chain of previous_response_id, to its
// first response. They open only together with the calls of their turn, or, without calls, after the same user
// message. A value that does not open is left out with the warning sealed_dropped; with Config.StrictSeal the
// request is refused. The reasoning in a value is restored to its turn. It enters the prompt where the model's
// format has a place for it, which is while calls are pending, or always with keep_reasoning. If a conversation
// continues with another model, the stored reasoning of the earlier model is not used. Reasoning in plain text is
// used only while calls are pending and if there is no sealed value. Summaries never become reasoning.
package responses
