// Package prompts holds what a runner tells models: how to summarize, how to reason where the format has no place for
// it, how to give reasons and plans.
//
// Models are trained on these texts. A name keeps its wording for ever, and a new wording is a new name.
package prompts
