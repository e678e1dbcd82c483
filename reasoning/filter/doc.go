// Package filter changes the events of a run on their way from the reader of the model's output.
//
// [StopFilter] ends text at stop strings. [RationaleFilter] takes the model's reasons for its calls out of the text.
// [Guard] is the token mask that keeps a summary from quoting the reasoning. Text that a filter holds back is never
// lost.
//
// A filter is for one goroutine at a time. Package reasoning defines the events and who may see them.
package filter

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
