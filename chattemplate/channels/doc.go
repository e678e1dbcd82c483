// Package channels is the family of models that write a turn as messages with channels, in the harmony format of
// gpt-oss. A message has a header, which names its channel and its recipient, and a text. Reasoning is on the channel
// analysis, calls and the words before them are on commentary, and the answer is on final.
//
// The family's three jobs are in these files:
//
//   - Render: native.go writes a conversation as messages, with package harmony.
//   - Read: reader.go turns tokens into segments, and header.go reads headers. Marks are found by token id, never in
//     the text. Malformed headers are read as what they most likely mean.
//   - Hold: turn.go chooses the constraint for each place of the turn. headers.go lists the headers that the model may
//     write.
//
// What is special about gpt-oss, such as its built-in tools, is in names.go.
package channels
