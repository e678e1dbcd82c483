// Package markup reads text with marks in it: tags around the reasoning and the answer, tool calls, and the object of
// strategy json. Families of models use it for the text that their models write.
//
// [Text] takes a text in pieces and finds the marks, wherever the pieces are cut. [Format] says which tags there are.
// marks.go says what a mark does at its place, mention.go tells marks from mentions of marks, and early.go holds text
// at the beginning of a turn that may be reasoning without an opening mark. calls.go has a table of the styles of
// calls, and block.go reads calls in these styles.
package markup
