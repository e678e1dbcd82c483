// Package reader takes a model's output apart, token by token, into segments: reasoning, preamble, tool call, answer.
//
// Harmony is read by token id. Tags and markers are found in the text, wherever it is cut into tokens. The object of
// strategy json and the calls of strategy tool are read as they arrive. It renders nothing and constrains nothing.
//
// Rules: text is never lost, whatever a model writes; a delta never splits a rune.
package reader
