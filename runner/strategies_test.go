package runner

import (
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
)

func TestThinkTags(t *testing.T) {
	turn := "q<|im_end|>\n<|im_start|>assistant\n"
	f := start(t, thinkModel(), Config{},
		fake.Reply{After: turn, Say: "<think>\n" + thought + "\n</think>\n\nfour<|im_end|>"},
		fake.Reply{After: turn + "<think>\n\n</think>\n\n", Say: "quick<|im_end|>"},
		fake.Reply{After: reasoning.BudgetV1 + "\n</think>\n\n", Say: "hurried<|im_end|>"},
		fake.Reply{After: reasoning.SummaryConciseV1 + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", Say: "Added them up.<|im_end|>"})
	req := user("q")
	req.Visibility = reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	if !strings.Contains(g.text[reasoning.Reasoning], thought) {
		t.Errorf("reasoning %q", g.text[reasoning.Reasoning])
	}
	req.Budget = 5
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "hurried")
	if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning != 5 {
		t.Errorf("%+v", g.result)
	}
	req.Budget, req.Effort = 0, chattemplate.EffortNone
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "quick")
	g.want(t, reasoning.Reasoning, "")
	req.Effort, req.Visibility = "", reasoning.VisibilitySummary
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Summary, "Added them up.")
}

func TestMarkersStrategy(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?") + finalTag,
		Say: "<<REASONING>>\n" + thought + "\n<</REASONING>>\nfour<|return|>"},
		fake.Reply{After: ask("bare") + finalTag, Say: "just four<|return|>"})
	req := user("2+2?")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
	g := f.must(t, req)
	if !strings.Contains(g.text[reasoning.Reasoning], thought) || strings.TrimSpace(g.text[reasoning.Answer]) != "four" {
		t.Errorf("%q", g.text)
	}
	req.Visibility = reasoning.VisibilityNone
	g = f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	if strings.Contains(g.text[reasoning.Answer], "two") || strings.Contains(g.text[reasoning.Answer], "<<") {
		t.Errorf("answer %q", g.text[reasoning.Answer])
	}
	req = user("bare")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "just four")
	if !g.result.ReasoningUnavailable || len(g.switched) != 1 || g.switched[0] != reasoning.StrategyPosthoc {
		t.Errorf("%+v %v", g.result, g.switched)
	}
}

func TestMarkersInsteadOfTheChannelAreUnderstood(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: finalTag + "<<REASONING>>" + thought + "<</REASONING>>four<|return|>"})
	req := user("2+2?")
	req.Visibility = reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, thought)
	g.want(t, reasoning.Answer, "four")
	if len(g.switched) != 1 || g.switched[0] != reasoning.StrategyMarkers || g.result.ReasoningUnavailable {
		t.Errorf("%v %+v", g.switched, g.result)
	}
}

func TestPosthocExplainsAnAnswerAndSaysSo(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?") + finalTag, Say: "four<|return|>"}, summaryReply(reasoning.PosthocV1, "It follows by adding."))
	req := user("2+2?")
	req.Strategy, req.Visibility = reasoning.StrategyPosthoc, reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Summary, "It follows by adding.")
	if g.result.SummarySource != "posthoc" || !g.result.ReasoningUnavailable {
		t.Errorf("%+v", g.result)
	}
}
