package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/runner"
)

// sums are questions that the bundled model answers in a short sentence if it may reason first.
var sums = []string{
	"What is 17 + 25?", "What is 348 + 276?", "What is 91 - 47?", "What is 13 * 7?", "What is 24 * 12?",
	"What is 156 / 12?",
	"What is 999 + 1?", "What is 502 - 318?", "What is 45 + 67 + 12?", "What is 8 * 9 + 5?",
}

// working matches what the bundled model writes while it calculates, but never in an answer.
var working = regexp.MustCompile(`^I |\d[-+*/]\d+:|, so \d`)

// folded runs a request with a fixed seed and joins its events.
func folded(t *testing.T, r *runner.Runner, req generation.Request) map[reasoning.Segment]string {
	t.Helper()
	seed := uint64(1)
	req.Seed, req.MaxTokens = &seed, 400
	texts := map[reasoning.Segment]string{}
	for e, err := range r.Generate(context.Background(), req, generation.Unobserved{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == reasoning.SegmentDelta {
			texts[e.Segment] += e.Text
		}
	}
	return texts
}

func askDemo(text string) generation.Request {
	return generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}}
}

// TestHiddenWorkingIsNotInTheAnswer: with strategy json, the bundled model reasons in an object that nobody sees.
func TestHiddenWorkingIsNotInTheAnswer(t *testing.T) {
	r := openDemo(t)
	for _, sum := range sums {
		req := askDemo(sum)
		req.Strategy = reasoning.StrategyJSON
		got := folded(t, r, req)
		if answer := got[reasoning.Answer]; answer == "" || working.MatchString(answer) || got[reasoning.Reasoning] != "" {
			t.Errorf("%s: the answer is %q, the reasoning %q", sum, answer, got[reasoning.Reasoning])
		}
	}
}

// numbers matches the numbers in a text, and plainWords its words.
var (
	numbers    = regexp.MustCompile(`\d+`)
	plainWords = regexp.MustCompile(`[\pL\d]+`)
)

// TestShortReasoningIsSummarized: the bundled model summarizes reasoning of a few words and of many. A summary states
// the result in other words.
func TestShortReasoningIsSummarized(t *testing.T) {
	r := openDemo(t)
	for i, sum := range sums {
		for _, budget := range []int{0, 10, 16} {
			for _, detailed := range []bool{false, true} {
				req := askDemo(sum)
				req.DetailedSummary, req.Budget = detailed, budget
				if i%2 == 0 {
					req.Effort = reasoning.EffortLow
				}
				req.Visibility = reasoning.VisibilityFull
				words := plainWords.FindAllString(folded(t, r, req)[reasoning.Reasoning], -1)
				req.Visibility = reasoning.VisibilitySummary
				got := folded(t, r, req)
				summary, results := got[reasoning.Summary], numbers.FindAllString(got[reasoning.Answer], -1)
				stated := numbers.FindAllString(summary, -1)
				if limit := filter.QuoteLimit(len(words)); longestRun(words, plainWords.FindAllString(summary, -1)) > limit {
					t.Errorf("%s, %d words: the summary %q quotes more than %d", sum, len(words), summary, limit)
				}
				switch {
				case budget == 0 && (len(stated) == 0 || stated[len(stated)-1] != results[len(results)-1]):
					t.Errorf("%s, %d words: the summary %q does not state the result of %q",
						sum, len(words), summary, got[reasoning.Answer])
				case budget > 0 && (len(words) > 15 || summary != "The work stopped early."):
					t.Errorf("%s, %d words: the summary is %q", sum, len(words), summary)
				}
			}
		}
	}
}

// longestRun returns the maximum number of consecutive words that two texts share.
func longestRun(a, b []string) (most int) {
	for i := range a {
		for j := range b {
			n := 0
			for i+n < len(a) && j+n < len(b) && strings.EqualFold(a[i+n], b[j+n]) {
				n++
			}
			most = max(most, n)
		}
	}
	return most
}

// TestMarkersBeforeASchema: the bundled model reasons between markers before an answer that matches a schema.
func TestMarkersBeforeASchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"result":{"type":"integer"}},` +
		`"required":["result"],"additionalProperties":false}`
	r := openDemo(t)
	for _, sum := range sums {
		req := askDemo(sum)
		req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
		req.Form = grammar.JSONSchema([]byte(schema))
		got := folded(t, r, req)
		thoughts := got[reasoning.Reasoning]
		stated := numbers.FindAllString(thoughts, -1)
		if len(stated) < 3 || !strings.Contains(got[reasoning.Answer], `{"result":`) {
			t.Errorf("%s: the reasoning is %q, the answer %q", sum, thoughts, got[reasoning.Answer])
		}
	}
}
