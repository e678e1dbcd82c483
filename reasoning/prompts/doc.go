// Package prompts holds the texts that tell a model how to summarize, how to reason if its format has no place for
// reasoning, and how to state reasons and plans.
//
// Models are trained on these texts. So a named text never changes; a new wording gets a new name.
package prompts
