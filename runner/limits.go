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

// maxReserve is the maximum number of tokens that are kept for an answer by default.
const maxReserve = 1024

// reserveOf returns how many of the tokens are kept for the answer. asked is the number in the request: 0 means the
// default, and a negative number means none.
func reserveOf(asked, tokens int) int {
	switch {
	case asked < 0:
		return 0
	case asked > 0:
		return min(asked, tokens)
	}
	return min(tokens/4, maxReserve)
}

// limitsOf returns the limits of the turn. left is the number of tokens that the prompt leaves in the context.
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
