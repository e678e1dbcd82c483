// Package envelope reads and writes the messages of MEW v0.4, the Multi-Entity Workspace protocol
// (https://github.com/rjcorwin/mew-protocol): envelopes, the frame that joins a space, and the capabilities that
// say what a participant may send.
//
// It knows no connection, no space and no model. What it writes is v0.4 as it stands. On input it takes older
// spellings too, and makes them v0.4:
//
//	kind            reasoning.start for reasoning/start, likewise all of reasoning and mcp; reasoning/step for reasoning/thought
//	correlation_id  correlationId, and a string for a list of one; the same for to
//	chat            {message} for {text}
//
// Rules: input is hostile, so everything has a limit; an object with a key twice is refused, because two readers
// may take different ones for it; fields that v0.4 does not have are dropped. An error holds nothing of what was
// read but the names of v0.4's fields.
package envelope
