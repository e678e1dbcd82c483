// Package filter changes the events of a run between the reader of a model's output and everybody else.
//
// [StopFilter] ends text at stop strings, [RationaleFilter] takes a model's reasons for its calls out of the text, and
// [Guard] is the token mask that keeps a summary from quoting the reasoning. What they hold back is never lost.
//
// A filter belongs to one goroutine. Package reasoning says what the events are and who may see them.
package filter

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
