// Package anthropic serves the Messages API of Anthropic, in its versions 2023-06-01 and 2026-10-21, from local models.
//
// It decodes requests into [generation.Request] and encodes events as content blocks; it generates nothing, and asks no
// one for keys. Images, documents and the tools that Anthropic's own servers run are not for local models: the
// first two are refused with their place in the request, the tools are left out with a warning. Nothing is kept
// between requests, so a thread is refused in the way that makes clients send the whole conversation.
//
// # Thinking
//
// Reasoning travels in thinking blocks, and only where the request has the field thinking:
//
//	thinking                            visibility  what comes
//	(absent), disabled                  none        nothing; disabled also skips the reasoning
//	enabled, adaptive                   full        thinking blocks, each with its signature
//	... with display "summarized"       summary     one thinking block with the summary, then the sealed reasoning
//	... with display "omitted"          none        the sealed reasoning alone, as a redacted_thinking block
//
// A signature is a sealed value (package seal) that holds the block's reasoning; that of a summary holds none. It
// opens beside the calls of its turn. In a message without calls it opens after the user message that it was made
// after. Neighbouring messages of one role are one message, as the API has it.
//
// A client sends blocks back as they came. The reasoning that a signature or a redacted block holds is restored,
// whatever the text beside it says, and the model's format decides where it enters the prompt: while calls are
// pending. A thinking block without a signature is the client's own text and counts for pending calls only. A block
// whose value does not open is left out with the warning sealed_dropped. Under Config.StrictSeal it is a 400 in
// Anthropic's words, which clients know, with the code of package seal.
//
// # Order
//
// Blocks come one after the other. A summary is generated beside the answer, so the answer is held until the
// summary is complete. Where reasoning is sealed but not shown, its block comes when the run is over, and calls are
// held so that they stand behind it. A call's input comes whole and is valid JSON, unless its tool asks for
// eager_input_streaming; what a model wrote instead of JSON comes as a JSON string.
package anthropic
