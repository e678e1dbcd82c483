// Package wire is what the wire formats of the server share: who makes a request, which models there are, how an
// error is told, how a body is read and how a stream is written.
//
// It serves nothing by itself. A format is a package beside this one that decodes requests into [generation.Request]
// and encodes events; it lists its [Route] values, and package server puts authentication, limits and metrics
// around them.
//
// Rules: an error is answered in the shape of the format whose route it is; nothing of a prompt, of reasoning, of
// an answer or of a key gets into an error's log line; a stream consists of whole frames, each of which leaves at
// once.
package wire
