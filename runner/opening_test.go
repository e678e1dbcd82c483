package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/testenv"
)

// TestReasoningOpensWhereTheTemplateMakesTheModelReason asks a model that reasons without the opening mark. The
// template has a switch for reasoning but leaves the mark to the model. Engines in this program get the mark, and the
// text from engines at addresses is held until it is known what it is.
func TestReasoningOpensWhereTheTemplateMakesTheModelReason(t *testing.T) {
	testenv.SkipRaced(t)
	const turn, skipped = "q<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
	const secret = "the secret is seven"
	long := secret + strings.Repeat(" and on", 400)
	for _, c := range []struct {
		name  string
		paced bool
		ask   func(*generation.Request)
		after string
		say   string
		want  string
	}{
		{"default", false, func(*generation.Request) {}, turn + "<think>\n", secret + ".\n</think>\n\nHi.", "Hi."},
		{"low", false, func(r *generation.Request) { r.Effort = reasoning.EffortLow }, turn + "<think>\n",
			long + ".</think>Hi.", "Hi."},
		{"a mention", false, func(*generation.Request) {}, turn + "<think>\n",
			"I write </think> at last. " + secret + ".\n</think>\n\nHi.", "Hi."},
		{"the mark again", false, func(*generation.Request) {}, turn + "<think>\n",
			"<think>\n" + secret + ".\n</think>\n\nHi.", "Hi."},
		{"switched on", false, func(r *generation.Request) { r.TemplateArgs = map[string]any{"enable_thinking": true} },
			turn + "<think>\n", secret + ".\n</think>\n\nHi.", "Hi."},
		{"switched off", false, func(r *generation.Request) { r.TemplateArgs = map[string]any{"enable_thinking": false} },
			turn + skipped, "Hi.", "Hi."},
		{"none", false, func(r *generation.Request) { r.Effort = reasoning.EffortNone }, turn + skipped, "Hi.", "Hi."},
		{"at an address", true, func(*generation.Request) {}, turn, secret + ".\n</think>\n\nHi.", "Hi."},
		{"at an address, with the mark", true, func(*generation.Request) {}, turn,
			"<think>\n" + long + ".\n</think>\n\nHi.", "Hi."},
		{"at an address, an answer", true, func(*generation.Request) {}, turn, "Hi.", "Hi."},
		{"at an address, a long answer", true, func(*generation.Request) {}, turn,
			strings.Repeat("Hi. ", 1000), strings.Repeat("Hi. ", 1000)},
		{"at an address, cut off", true, func(r *generation.Request) { r.MaxTokens = 60 }, turn, long + ".\n</think>\n\nHi.",
			""},
		{"at an address, none", true, func(r *generation.Request) { r.Effort = reasoning.EffortNone }, turn + skipped,
			"Hi.", "Hi."},
	} {
		for _, visibility := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			t.Run(fmt.Sprintf("%s, %s", c.name, visibility), func(t *testing.T) {
				cfg := thinkModel()
				cfg.ContextSize = 16384
				if c.paced {
					cfg.Pace = func(int, int) time.Duration { return 0 }
				}
				f := start(t, cfg, Config{}, fake.Reply{After: c.after, Say: c.say + "<|im_end|>"})
				req := user("q")
				req.Visibility, req.MaxTokens = visibility, 12000
				c.ask(&req)
				g := f.must(t, req)
				if g.text[reasoning.Answer] != c.want {
					t.Errorf("answer %.200q, want %.200q", g.text[reasoning.Answer], c.want)
				}
				thinks := strings.Contains(c.say, secret)
				if shown := strings.Contains(g.text[reasoning.Reasoning], secret); shown !=
					(thinks && visibility == reasoning.VisibilityFull) {
					t.Errorf("reasoning %.200q", g.text[reasoning.Reasoning])
				}
			})
		}
	}
}

// TestBudgetClosesReasoningInCode ends the reasoning in the middle of code, where the model could only mention the
// mark.
func TestBudgetClosesReasoningInCode(t *testing.T) {
	const turn = "q<|im_end|>\n<|im_start|>assistant\n<think>\n"
	for _, thought := range []string{"a `b c d e f g h i j k", "```\na b c d e f g h i j k l", `he said "a b c d e f g`} {
		f := start(t, thinkModel(), Config{}, fake.Reply{After: turn, Say: thought + "<|im_end|>"},
			fake.Reply{After: "\n</think>\n\n", Say: "and so<|im_end|>"})
		req := user("q")
		req.Visibility, req.Budget = reasoning.VisibilityFull, 10
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "and so")
		if !strings.HasPrefix(thought, g.text[reasoning.Reasoning]) || g.text[reasoning.Reasoning] == "" {
			t.Errorf("reasoning %q", g.text[reasoning.Reasoning])
		}
	}
}
