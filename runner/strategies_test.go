package runner

import (
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

func TestThinkTags(t *testing.T) {
	turn := "q<|im_end|>\n<|im_start|>assistant\n"
	f := start(t, thinkModel(), Config{},
		fake.Reply{After: turn, Say: "<think>\n" + thought + "\n</think>\n\nfour<|im_end|>"},
		fake.Reply{After: turn + "<think>\n\n</think>\n\n", Say: "quick<|im_end|>"},
		fake.Reply{After: prompts.BudgetV1 + "\n</think>\n\n", Say: "hurried<|im_end|>"},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
			Say: "Added them up.<|im_end|>"})
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
	req.Budget, req.Effort = 0, reasoning.EffortNone
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

// TestMarkersBeforeAForm checks models that would start an answer with a form at once, or reason more than once.
func TestMarkersBeforeAForm(t *testing.T) {
	const answer = `{"name":"Bob","age":4}`
	for name, m := range map[string]struct {
		cfg        fake.Config
		after, end string
	}{
		"harmony": {fake.Config{}, ask("q") + finalTag, "<|return|>"},
		"tags":    {thinkModel(), "q<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_end|>"},
	} {
		for _, say := range []string{
			answer,
			"<<REASONING>>" + thought + "<</REASONING>>\n" + answer,
			"<<REASONING>>\n" + thought + "<|end|>" + again + finalTag + answer,
		} {
			if name == "tags" && strings.Contains(say, finalTag) {
				continue
			}
			for _, budget := range []int{0, 4} {
				f := start(t, m.cfg, Config{}, fake.Reply{After: m.after, Say: say + m.end},
					fake.Reply{After: "<</REASONING>>\n", Say: answer + m.end})
				req := user("q")
				req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
				req.MaxTokens, req.Budget = 400, budget
				req.Form = grammar.JSONSchema([]byte(person))
				g := f.must(t, req)
				thoughts := g.text[reasoning.Reasoning]
				if thoughts == "" || strings.Contains(say, thought) && budget == 0 && strings.TrimSpace(thoughts) != thought {
					t.Errorf("%s, %q, budget %d: the reasoning is %q", name, say, budget, thoughts)
				}
				if g.result.ReasoningUnavailable || len(g.switched) > 0 || budget > 0 && g.result.Usage.Reasoning > budget {
					t.Errorf("%s, %q, budget %d: %+v", name, say, budget, g.result)
				}
				obeys(t, person, g.text[reasoning.Answer])
			}
		}
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
		fake.Reply{After: ask("2+2?") + finalTag, Say: "four<|return|>"},
		summaryReply(prompts.PosthocV1, "It follows by adding."))
	for _, c := range []struct {
		v                         reasoning.Visibility
		effort                    reasoning.Effort
		explanation, source, says string
	}{
		{reasoning.VisibilityNone, "", "", "", ""},
		{reasoning.VisibilitySummary, "", "It follows by adding.", "posthoc",
			"strategy posthoc gives none; the answer is explained afterwards"},
		{reasoning.VisibilityFull, "", "", "", "strategy posthoc gives none; visibility summary has the answer explained"},
		{reasoning.VisibilityFull, reasoning.EffortNone, "", "", "the effort none keeps the model from reasoning"},
	} {
		req := user("2+2?")
		req.Strategy, req.Visibility, req.Effort = reasoning.StrategyPosthoc, c.v, c.effort
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "four")
		g.want(t, reasoning.Summary, c.explanation)
		g.want(t, reasoning.Reasoning, "")
		if g.result.SummarySource != c.source || g.result.ReasoningUnavailable != (c.says != "") {
			t.Errorf("%v: %+v", c.v, g.result)
		}
		said := strings.Join(g.warnings, "; ")
		if c.says != "" && !strings.HasSuffix(said, c.says) || c.says == "" && said != "" {
			t.Errorf("%v: the warnings are %q", c.v, said)
		}
	}
}
