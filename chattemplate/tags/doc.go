// Package tags is the family of models whose turn is one text. Tags stand around the reasoning, where the model marks
// it at all, and calls of functions are written in the text, in one of the known styles.
//
// What a model's tags and calls look like is read off its chat template. A new model with tags takes no code.
package tags
