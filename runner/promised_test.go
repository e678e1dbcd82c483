package runner

import (
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/reasoning/prompts"
)

// TestAskedReasoningComesOrIsMissed ends runs in every way. A summary that was asked for comes, or a warning says why
// it does not. If there was no reasoning, the result says so.
func TestAskedReasoningComesOrIsMissed(t *testing.T) {
	const sum = "Somebody added."
	onlyCall := addCall + `{"a":2}<|call|>`
	thinksAndCalls := "<|channel|>analysis<|message|>" + thought + "<|end|>" + again + onlyCall
	toSpecialist := call("so", delegation.DelegateName, `{"agent_prompt":"Add."}`)
	specialist := func(say string) fake.Reply { return fake.Reply{Prompt: asSpecialist, After: ask("q"), Say: say} }
	called := func(say string) fake.Reply { return fake.Reply{Prompt: asSpecialist, After: engaged, Say: say} }
	reports := fake.Reply{Prompt: asSpecialist, After: ask("q"), Say: think(thought, "It may be 4.")}
	byUser := func(q *generation.Request) { q.Delegation.Specialist = &delegation.Delegate{Prompt: "Add."} }
	byModel := func(q *generation.Request) { q.Delegation.Model = true }
	for _, c := range []struct {
		name    string
		change  func(*generation.Request)
		replies []fake.Reply
		// says is where a summary comes from: reasoning, or nothing. missed says that there was no reasoning.
		says, missed bool
		warning      string
	}{
		{"a call", nil, []fake.Reply{{After: ask("q"), Say: thinksAndCalls}}, true, false, ""},
		{"a call without reasoning", nil, []fake.Reply{{After: ask("q"), Say: onlyCall}}, false, true, ""},
		{"no end of the reasoning", func(q *generation.Request) { q.MaxTokens, q.AnswerReserve = 6, -1 },
			[]fake.Reply{{After: ask("q"), Say: thinksAndCalls}}, false, false, generation.CodeSummaryUnavailable},
		{"the specialist calls", byUser, []fake.Reply{specialist(thinksAndCalls)}, true, false, ""},
		{"the specialist speaks and calls", byUser,
			[]fake.Reply{specialist(preambleTag + thought + "<|end|>" + again + onlyCall)}, true, false, ""},
		{"the specialist only calls", byUser, []fake.Reply{specialist(onlyCall)}, false, true, ""},
		{"the model's specialist calls", byModel,
			[]fake.Reply{{After: ask("q"), Say: toSpecialist}, called(thinksAndCalls)}, true, false, ""},
		{"the model's specialist only calls", byModel,
			[]fake.Reply{{After: ask("q"), Say: toSpecialist}, called(onlyCall)}, true, false, ""},
		{"the model calls after the specialist", byUser,
			[]fake.Reply{reports, {After: ask("q"), Say: onlyCall}}, true, false, ""},
		{"the model thinks and calls after the specialist", byUser,
			[]fake.Reply{reports, {After: ask("q"), Say: thinksAndCalls}}, true, false, ""},
		{"the model answers after the specialist", byUser,
			[]fake.Reply{reports, {After: ask("q"), Say: finalTag + "4<|return|>"}}, true, false, ""},
		{"a shown specialist calls", func(q *generation.Request) {
			q.Delegation.Specialist = &delegation.Delegate{Prompt: "Add.", Shown: true}
		}, []fake.Reply{{After: ask("q"), Say: thinksAndCalls}}, true, false, ""},
	} {
		f := start(t, fake.Config{ContextSize: 8192}, Config{},
			append(c.replies, summaryReply(prompts.SummaryConciseV1, sum))...)
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
			reasoning.VisibilityFull} {
			req := user("q")
			req.Tools, req.Visibility, req.MaxTokens = addTool, v, 900
			if c.change != nil {
				c.change(&req)
			}
			g := f.must(t, req)
			want := ""
			if c.says && v == reasoning.VisibilitySummary {
				want = sum
			}
			g.want(t, reasoning.Summary, want)
			if (g.result.SummarySource == "reasoning") != (want != "") {
				t.Errorf("%s, %v: the summary is of %q", c.name, v, g.result.SummarySource)
			}
			missed := c.missed && v != reasoning.VisibilityNone
			if g.result.ReasoningUnavailable != missed ||
				slices.Contains(g.codes, generation.CodeReasoningUnavailable) != missed {
				t.Errorf("%s, %v: %v, %+v", c.name, v, g.codes, g.result)
			}
			warns := c.warning != "" && v == reasoning.VisibilitySummary
			if slices.Contains(g.codes, generation.CodeSummaryUnavailable) != warns {
				t.Errorf("%s, %v: the warnings are %q", c.name, v, g.codes)
			}
			if v != reasoning.VisibilityFull && strings.Contains(g.text[reasoning.Preamble]+g.text[reasoning.Answer], thought) {
				t.Errorf("%s, %v: the caller sees %q", c.name, v, g.text)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

// TestSummaryOfAHiddenSpecialistQuotesNothing has a specialist that writes its thoughts as plain text and then calls.
// Its summary may not quote them.
func TestSummaryOfAHiddenSpecialistQuotesNothing(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 8192}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("q"),
			Say: preambleTag + thought + "<|end|>" + again + addCall + `{"a":2}<|call|>`},
		summaryReply(prompts.SummaryConciseV1, thought))
	req := user("q")
	req.Tools, req.Visibility, req.MaxTokens = addTool, reasoning.VisibilitySummary, 900
	req.SummaryTokens = 20
	req.Delegation.Specialist = &delegation.Delegate{Prompt: "Add."}
	g := f.must(t, req)
	if summary := g.text[reasoning.Summary]; strings.Contains(summary, thought) {
		t.Errorf("the summary is %q, and %d words may be quoted", summary, filter.QuoteLimit(5))
	}
	if len(g.calls) != 1 || g.result.Usage.Summary == 0 {
		t.Errorf("%+v, %v", g.result, g.calls)
	}
}
