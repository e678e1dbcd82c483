package runner

import "runner/reasoning"

// limits say how long a turn may be.
type limits struct {
	// tokens is the maximum number of tokens to generate. reserve of them are kept for the answer.
	tokens, reserve int
	// budget is the maximum number of reasoning tokens; 0 means no such limit.
	budget int
	// context is the maximum length of the sequence. closing is the maximum number of tokens that end the reasoning.
	context, closing int
}

// limitsOf returns the limits of the turn. left is the number of tokens that the prompt leaves in the context.
func (t *turn) limitsOf(left int) limits {
	if t.of.Specialist != "" {
		left = max(1, left/2) // leaves room for the turns that follow
	}
	if t.req.MaxTokens > 0 {
		left = min(left, t.req.MaxTokens)
	}
	return limits{
		tokens: left, reserve: t.req.Reserve(left), budget: t.req.Budget,
		context: t.r.info.ContextSize, closing: t.r.closing.cost,
	}
}

// endReasoning returns the reason if the reasoning has to end now: its budget is used up, or the rest is kept for the
// answer. Otherwise it returns "". length is the length of the sequence.
func (m *limits) endReasoning(used *reasoning.Usage, length int) (detail string) {
	switch {
	case m.budget > 0 && used.Reasoning >= m.budget:
		return reasoning.DetailReasoningBudget
	case m.reserve > 0 && (used.Completion >= m.tokens-m.reserve || length+m.closing+m.reserve >= m.context):
		return reasoning.DetailAnswerReserve
	}
	return ""
}
