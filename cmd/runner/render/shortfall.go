package render

import (
	"runner/generation"
	"runner/reasoning"
)

// The codes of Shortfall.
const (
	// CodeNoAnswer means that a limit was reached before any answer or call.
	CodeNoAnswer = "no_answer"
	// CodeCutOff means that a limit cut off the answer or a call.
	CodeCutOff = "answer_cut_off"
)

// Shortfall explains why a limit cut a reply off, and which flag helps. ok is false if no limit was reached.
func Shortfall(r generation.Reply) (code, text string, ok bool) {
	if r.Result == nil || r.Result.Finish != reasoning.FinishLength {
		return "", "", false
	}
	reached, reasoned, flag := "--max-tokens was reached", "the reasoning used up --max-tokens", "--max-tokens"
	if r.Result.Detail == reasoning.DetailContextFull {
		reached, reasoned, flag = "the context was full", "the reasoning filled the context", "--ctx-size"
	}
	advice := "; use a larger " + flag
	switch {
	case len(r.Calls) > 0:
		return CodeCutOff, "the call is cut off: " + reached + advice, true
	case r.Answer != "":
		return CodeCutOff, "the answer is cut off: " + reached + advice, true
	case r.Result.Usage.Reasoning > 0:
		return CodeNoAnswer, "no answer was given: " + reasoned + advice + " or --reasoning-effort low", true
	}
	return CodeNoAnswer, "no answer was given: " + reached + " before it" + advice, true
}
