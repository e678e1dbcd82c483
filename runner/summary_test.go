package runner

import (
	"fmt"
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
