// Package envelope reads and writes the messages of MEW v0.4, the Multi-Entity Workspace protocol
// (https://github.com/rjcorwin/mew-protocol): envelopes, the frame that joins a space, and the capabilities that say
// what a participant may send.
//
// It knows no connection, no space and no model. It writes v0.4. It also reads older spellings, and turns them into
// v0.4:
//
//	kind            reasoning.start for reasoning/start, likewise all of reasoning and mcp; reasoning/step for
//	                reasoning/thought
//	correlation_id  correlationId, and a string for a list of one; the same for to
//	chat            {message} for {text}
//
// # Rules
//
//   - Input is hostile, so everything has a limit.
//   - An object with the same key twice is refused, because readers may disagree on which value counts.
//   - Fields that v0.4 does not have are dropped.
//   - An error contains nothing of the input except the names of v0.4's fields.
package envelope
