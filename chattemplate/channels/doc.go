// Package channels is the family of models that write messages with channels, as harmony (gpt-oss) does: reasoning on
// analysis, calls and words before them on commentary, the answer on final. Marks are read by token id.
package channels
