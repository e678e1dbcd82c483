// Package openai serves OpenAI's API for its official clients: chat completions, completions, embeddings and models. It
// adds the fields of the reasoning contract.
//
// It decodes requests into [generation.Request] and encodes events. Models, keys and limits are the server's. The
// Responses API is in package responses.
//
// # Fields
//
// The request types list the supported fields. The others fall into three groups:
//
//   - Ignored, because they would not change the answer: user, metadata, service_tier, prompt_cache_key,
//     prompt_cache_retention, safety_identifier, prediction, cache_prompt, and others that [wire.Unread] lists.
//   - Refused with their path: images, audio and files in messages, modalities and audio, web_search_options,
//     reasoning_encrypt on a server without a trace store, best_of other than n, a suffix for a model without tokens
//     for gaps, and more dimensions than the model has.
//   - Ignored with a warning in the answer: tools of unknown types, verbosity, store, mirostat, unknown fields, and
//     ignore_eos and echo in a chat.
//
// # Reasoning
//
// The field content has the answer. Reasoning is in reasoning and in reasoning_content, a summary in
// reasoning_summary, and only if the request asks for it. A preamble is what the model tells the user before a
// call. Clients send it back as the content of a message with calls, so it is in content too, with an empty line
// before an answer that follows. If the answer has a form (response_format and similar fields), content has only
// the answer, and the preamble is in the field preamble.
//
// The chunks of a stream, put together, give the same message as an answer without a stream.
//
// # Choices
//
// The choices of a request run at the same time. Choice i has the seed of the request plus i. Usage counts the prompt
// once, and adds up the rest. The fields reasoning_info and timings are about the first choice; in a stream each choice
// has them in its last chunk. If there are several choices, each has its own warnings and reasoning_unavailable; those
// of the answer are about the request.
package openai
