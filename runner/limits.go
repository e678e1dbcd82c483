package runner

import "runner/reasoning"

// limits say how long a turn may be.
type limits struct {
	// tokens is the most tokens to generate. reserve of them are kept for the answer.
	tokens, reserve int
	// budget is the most tokens of reasoning; 0 has no limit of its own.
	budget int
	// context is the most tokens of the sequence, and closing the most that it takes to end the reasoning.
	context, closing int
}

// maxReserve is the most tokens that are kept for an answer if the request does not say how many.
const maxReserve = 1024

// reserveOf returns how many of the tokens are kept for the answer. asked is what the request says: 0 is the default,
// and a negative number keeps none.
func reserveOf(asked, tokens int) int {
	switch {
	case asked < 0:
		return 0
	case asked > 0:
		return min(asked, tokens)
	}
	return min(tokens/4, maxReserve)
}

// limitsOf returns the limits of a turn whose prompt leaves so many tokens of the context.
func (t *turn) limitsOf(left int) limits {
	if t.kind != turnMain {
		left = max(1, left/2) // leaves room for the main agent
	}
	if t.req.MaxTokens > 0 {
		left = min(left, t.req.MaxTokens)
	}
	return limits{
		tokens: left, reserve: reserveOf(t.req.AnswerReserve, left), budget: t.req.Budget,
		context: t.r.info.ContextSize, closing: t.r.closing.cost,
	}
}

// endReasoning returns why the reasoning has to end now: its budget is spent, or it would use what is kept for the
// answer. It returns nothing if the reasoning may go on. length is that of the sequence.
func (m *limits) endReasoning(used *reasoning.Usage, length int) (detail string) {
	switch {
	case m.budget > 0 && used.Reasoning >= m.budget:
		return reasoning.DetailReasoningBudget
	case m.reserve > 0 && (used.Completion >= m.tokens-m.reserve || length+m.closing+m.reserve >= m.context):
		return reasoning.DetailAnswerReserve
	}
	return ""
}
