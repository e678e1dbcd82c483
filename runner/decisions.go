package runner

import "runner/chattemplate"

// iteration returns the number of the current turn since the last message of the user, counted from 1. Without
// Rationale it is 0.
func (t *turn) iteration() int {
	if !t.req.Rationale {
		return 0
	}
	n := 1
	for _, m := range t.req.Messages {
		switch {
		case m.Role == chattemplate.User:
			n = 1
		case m.Role == chattemplate.Assistant && len(m.ToolCalls) > 0:
			n++
		}
	}
	return n
}

// droppedTokens returns how many tokens of earlier reasoning the format leaves out of the prompt, which was rendered
// to so many tokens. Without Rationale it is 0.
func (t *turn) droppedTokens(rendered int) int {
	if !t.req.Rationale || t.conv.KeepReasoning {
		return 0
	}
	conv := t.conv
	conv.KeepReasoning = true
	whole, err := t.r.family.Render(conv)
	if err != nil {
		return 0 // the template cannot keep reasoning, so nothing is reported as dropped
	}
	return max(0, len(whole.Tokens)-rendered)
}
