package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// TestSummariesQuoteAShareOfTheReasoning checks a summary pass that repeats the reasoning, for many lengths and every
// strategy.
func TestSummariesQuoteAShareOfTheReasoning(t *testing.T) {
	for _, n := range []int{2, 3, 4, 6, 9, 12, 13, 15, 24, 36, 48} {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprintf("%c%c", 'a'+i%26, 'a'+i/26)
		}
		thoughts := strings.Join(words, " ")
		limit := min(12, max(3, n/3))
		f := start(t, fake.Config{}, Config{},
			fake.Reply{Prompt: prompts.JSONV1, After: ask("q") + finalTag,
				Say: `{"reasoning": "` + thoughts + `", "answer": "yes"}<|return|>`},
			fake.Reply{Prompt: prompts.ReportV1, After: ask("q"),
				Say: `<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>` +
					`{"reasoning":"` + thoughts + `"}<|call|>`},
			fake.Reply{Prompt: prompts.ReportV1, After: "{}<|end|>" + again, Say: finalTag + "yes<|return|>"},
			fake.Reply{Prompt: prompts.MarkersV1, After: ask("q") + finalTag,
				Say: "<<REASONING>>" + thoughts + "<</REASONING>>yes<|return|>"},
			fake.Reply{After: ask("q"), Say: think(thoughts, "yes")},
			summaryReply(prompts.SummaryConciseV1, "It is "+thoughts))
		for _, strategy := range []reasoning.Strategy{
			reasoning.StrategyNative, reasoning.StrategyJSON, reasoning.StrategyTool, reasoning.StrategyMarkers,
		} {
			req := user("q")
			req.Strategy, req.Visibility, req.MaxTokens = strategy, reasoning.VisibilitySummary, 600
			g := f.must(t, req)
			g.want(t, reasoning.Answer, "yes")
			summary, quoted := g.text[reasoning.Summary], 0
			for from := range words {
				for to := from + 1; to <= n; to++ {
					if strings.Contains(" "+summary+" ", " "+strings.Join(words[from:to], " ")+" ") {
						quoted = max(quoted, to-from)
					}
				}
			}
			if quoted > limit || quoted < min(n, limit)-1 {
				t.Errorf("%s: %d of %d words are quoted, at most %d may be: %q", strategy, quoted, n, limit, summary)
			}
		}
	}
}

// TestTheSummaryIsSettledOnce checks that a reader who waits with the answer for the summary learns when it need not
// wait any more: after the summary, or at the beginning of an answer that has none before it.
func TestTheSummaryIsSettledOnce(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("thinks"), Say: think("I think of it", "yes, it is so and will stay so for a very long time")},
		fake.Reply{After: ask("knows"), Say: think("", "yes")},
		fake.Reply{After: prompts.PosthocV1 + "<|end|><|start|>assistant" + finalTag, Say: "It is known.<|return|>"},
		summaryReply(prompts.SummaryConciseV1, "It was thought of."))
	for _, c := range []struct {
		question   string
		visibility reasoning.Visibility
		want       []string
	}{
		{"thinks", reasoning.VisibilitySummary, []string{"summary", "settled"}},
		{"knows", reasoning.VisibilitySummary, []string{"settled", "answer", "summary"}},
		{"thinks", reasoning.VisibilityNone, []string{"answer"}},
		{"thinks", reasoning.VisibilityFull, []string{"answer"}},
	} {
		req := user(c.question)
		req.Visibility = c.visibility
		var order []string
		for _, e := range f.must(t, req).events {
			switch {
			case e.Kind == reasoning.SummarySettled:
				order = append(order, "settled")
			case e.Kind == reasoning.SegmentStart && slices.Contains(c.want, e.Segment.String()):
				order = append(order, e.Segment.String())
			}
		}
		if !slices.Equal(order, c.want) {
			t.Errorf("%s with %s: %q, want %q", c.question, c.visibility, order, c.want)
		}
	}
}
