package main

import (
	"context"
	"regexp"
	"testing"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
)

// sums are questions that the bundled model answers in a short sentence when it may reason first.
var sums = []string{
	"What is 17 + 25?", "What is 348 + 276?", "What is 91 - 47?", "What is 13 * 7?", "What is 24 * 12?", "What is 156 / 12?",
	"What is 999 + 1?", "What is 502 - 318?", "What is 45 + 67 + 12?", "What is 8 * 9 + 5?",
}

// working matches what the bundled model writes while it calculates, and in no answer.
var working = regexp.MustCompile(`^I |\d[-+*/]\d+:|, so \d`)

// folded runs a request with a fixed seed and puts its events together.
func folded(t *testing.T, r *runner.Runner, req runner.Request) map[reasoning.Segment]string {
	t.Helper()
	seed := uint64(1)
	req.Seed, req.MaxTokens = &seed, 400
	texts := map[reasoning.Segment]string{}
	for e, err := range r.Generate(context.Background(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == reasoning.SegmentDelta {
			texts[e.Segment] += e.Text
		}
	}
	return texts
}

func askDemo(text string) runner.Request {
	return runner.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}}
}

// TestHiddenWorkingIsNotInTheAnswer has the bundled model reason in the object of strategy json where nobody sees it.
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
