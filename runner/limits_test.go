package runner

import (
	"testing"

	"runner/generation"
	"runner/reasoning"
)

// TestLimitsOfATurn checks how many tokens a turn may generate and how many of them are kept for the answer.
func TestLimitsOfATurn(t *testing.T) {
	for _, c := range []struct {
		name                  string
		left                  int // of the context
		specialist            string
		maxTokens, reserve    int
		wantTokens, wantKeeps int
	}{
		{"the context alone", 10000, "", 0, 0, 10000, 1024},
		{"a small context", 100, "", 0, 0, 100, 25},
		{"a limit", 10000, "", 200, 0, 200, 50},
		{"a limit over the context", 100, "", 200, 0, 100, 25},
		{"a reserve", 10000, "", 200, 80, 200, 80},
		{"a reserve over the limit", 10000, "", 200, 300, 200, 200},
		{"no reserve", 10000, "", 200, -1, 200, 0},
		{"a specialist leaves half", 100, "s", 0, 0, 50, 12},
		{"a specialist without room", 1, "s", 0, 0, 1, 0},
	} {
		turn := &turn{r: &Runner{}, of: &generation.Turn{Specialist: c.specialist},
			req: &generation.Request{MaxTokens: c.maxTokens, AnswerReserve: c.reserve}}
		if got := turn.limitsOf(c.left); got.tokens != c.wantTokens || got.reserve != c.wantKeeps {
			t.Errorf("%s: %d tokens with a reserve of %d, want %d and %d", c.name, got.tokens, got.reserve, c.wantTokens,
				c.wantKeeps)
		}
	}
}

// TestWhenReasoningEnds checks each limit of reasoning on both sides of its boundary.
func TestWhenReasoningEnds(t *testing.T) {
	for _, c := range []struct {
		name                          string
		limits                        limits
		reasoning, completion, length int
		want                          string
	}{
		{"no limit", limits{tokens: 100, context: 1000}, 99, 99, 500, ""},
		{"the budget's last token", limits{tokens: 100, budget: 10, context: 1000}, 9, 9, 50, ""},
		{"a spent budget", limits{tokens: 100, budget: 10, context: 1000}, 10, 10, 50, reasoning.DetailReasoningBudget},
		{"before the reserve", limits{tokens: 100, reserve: 25, context: 1000}, 74, 74, 200, ""},
		{"at the reserve", limits{tokens: 100, reserve: 25, context: 1000}, 75, 75, 200, reasoning.DetailAnswerReserve},
		{"other text counts too", limits{tokens: 100, reserve: 25, context: 1000}, 1, 75, 200, reasoning.DetailAnswerReserve},
		{"a context with room to close", limits{tokens: 900, reserve: 25, context: 1000, closing: 15}, 5, 5, 959, ""},
		{"a context without", limits{tokens: 900, reserve: 25, context: 1000, closing: 15}, 5, 5, 960,
			reasoning.DetailAnswerReserve},
		{"a full context without a reserve", limits{tokens: 900, context: 1000, closing: 15}, 5, 5, 999, ""},
		{"the budget comes first", limits{tokens: 100, reserve: 25, budget: 75, context: 1000}, 75, 75, 200,
			reasoning.DetailReasoningBudget},
	} {
		used := &reasoning.Usage{Reasoning: c.reasoning, Completion: c.completion}
		if got := c.limits.endReasoning(used, c.length); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
