// Package anthropic serves the Messages API of Anthropic, in its versions 2023-06-01 and 2026-10-21, from local models.
//
// It decodes requests into [generation.Request] and encodes events as content blocks. Images and documents are refused
// with their place in the request. Tools that Anthropic's own servers run are left out with a warning. Nothing is kept
// between requests, so a thread is refused with the error that makes clients send the whole conversation.
//
// # Thinking
//
// Reasoning is in thinking blocks, and only if the request has the field thinking:
//
//	thinking                            visibility  answer
//	(absent), disabled                  none        nothing; disabled also skips the reasoning
//	enabled, adaptive                   full        thinking blocks, each with its signature
//	... with display "summarized"       summary     one thinking block with the summary and the signature
//	... with display "omitted"          none        thinking blocks without text, each with its signature
//
// A signature has the sealed values (package seal) of the reasoning up to its block. It opens only together with the
// calls of its turn. In a message without calls it opens only after the same user message as before. Neighbouring
// messages of one role count as one message, as in Anthropic's API.
//
// A client sends blocks back unchanged. The reasoning in a signature is restored, and also in the redacted_thinking
// blocks of Anthropic's API; the text of the block does not matter. It enters the prompt where the model's format has a
// place for it, which is while calls are pending. A thinking block without a signature is the client's own text and is
// used for pending calls only. A block whose value does not open is left out with the warning sealed_dropped. With
// Config.StrictSeal the request is refused with status 400, Anthropic's words, which clients look for, and the code of
// package seal.
//
// # Order
//
// Blocks are sent one after the other. A summary is generated at the same time as the answer, so the answer and the
// calls are held back until the summary is complete. A call's input is sent as a whole and is valid JSON, unless its
// tool asks for eager_input_streaming. If the model wrote something else than JSON, the input is that text as a JSON
// string.
package anthropic
