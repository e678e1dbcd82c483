package runner

import "runner/chattemplate"

// iteration counts the turns since the last message of the user, from 1, where decisions are traced.
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

// droppedTokens says how many tokens of earlier reasoning the format leaves out of the prompt, where decisions are
// traced.
func (t *turn) droppedTokens() int {
	if !t.req.Rationale || t.conv.KeepReasoning {
		return 0
	}
	conv := t.conv
	conv.KeepReasoning = true
	whole, err := t.r.family.Render(conv)
	if err != nil {
		return 0 // a template that cannot keep it drops nothing by choice
	}
	cut, err := t.r.family.Render(t.conv)
	if err != nil {
		return 0
	}
	return max(0, len(whole.Tokens)-len(cut.Tokens))
}
