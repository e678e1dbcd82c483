// Package openai is the wire format of OpenAI's API: chat completions, completions, embeddings and models, as the
// official clients speak it, with the reasoning contract on top.
//
// It decodes requests into [generation.Request] and encodes events; it has no models, keys or limits of its own and is
// mounted by package server. The Responses API is a package of its own below this one.
//
// # Fields
//
// The request types say which fields are honoured. Ignored is what asks for nothing that would show in the answer:
// user, metadata, service_tier, prompt_cache_key, prompt_cache_retention, safety_identifier, prediction,
// cache_prompt, and what no API has. Refused with its path is what cannot be honoured: images, audio and files in
// messages, modalities and audio, web_search_options, reasoning_encrypt on a server without a store,
// continue_final_message, suffix, best_of other than n, more dimensions than the model has. Tools of unknown
// types, a verbosity, store, and mirostat, ignore_eos and a chat's echo are left out with a warning in the
// answer.
//
// # Reasoning
//
// content is the answer. Reasoning comes in reasoning and reasoning_content, a summary in reasoning_summary, and
// only as far as the request asked for it. What a model tells the user before a call (its preamble) is meant
// for the user, and comes back as the content of a message with calls, so it is content too, with an empty line
// between it and an answer that follows. Where the answer has a form (response_format and its like), content is
// that alone, and a preamble comes in the field preamble.
//
// A stream and an answer in one piece are two encodings of the same events: put together, the chunks give the same
// message.
//
// # Choices
//
// The choices of a request run side by side, choice i with the seed of the request plus i. Usage counts the prompt
// once and adds up the rest. reasoning_info and timings are those of the first choice, in a stream of each choice
// in its last chunk; warnings of later choices carry their index in choice.
package openai
