// Package drafts guesses the next tokens of a text and says how many guesses are worth a try.
//
// The guesses come from the text itself: code that is edited, a JSON object made from a text and a quoted result of a
// tool repeat what is already there. [Lookup] finds the longest end of the text that came before and proposes what
// followed it there. Nothing is asked of the model, and a wrong guess changes no answer: the engine checks every guess
// in the step that feeds it.
//
// A guess costs time, because a step with more tokens takes longer: a little on a dense model, whose weights are read
// once in any case, and much on a mixture of experts, where each token may need other experts, and in a long text,
// which each token attends to. [Costs] learns from real steps what each width takes at each length of a text, and
// before them from test steps. A Lookup learns from the text how often its guesses are right, also while none are fed.
// [Costs.Best] puts the two together. An [Account] makes sure that guesses lose little where both are wrong.
//
// Prompt lookup is from Saxena, "Prompt Lookup Decoding" (2023).
package drafts
