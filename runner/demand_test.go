package runner

import (
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// rambles returns n reasoning messages of the same length.
func rambles(n int) string {
	return strings.Repeat("<|channel|>analysis<|message|>"+thought+"<|end|>"+again, n)
}

// TestRequiredCallComesAfterOneMessage checks models that would write fifty reasoning messages instead of calling a
// tool.
func TestRequiredCallComesAfterOneMessage(t *testing.T) {
	once := user("q")
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "four")})
	tokens := f.must(t, once).result.Usage.Reasoning
	f = start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: rambles(50) + finalTag + "four<|return|>"})
	for _, c := range []struct {
		choice generation.ToolChoice
		name   string
	}{{generation.ToolChoiceRequired, ""}, {generation.ToolChoiceFunction, "add"}} {
		for _, budget := range []int{0, 5, 1000} {
			for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
				req := user("q")
				req.Tools, req.ToolChoice, req.ToolName = []chattemplate.Tool{adder(true)}, c.choice, c.name
				req.Budget, req.Visibility, req.MaxTokens = budget, v, 1500
				g := f.must(t, req)
				if len(g.calls) != 1 || g.calls[0].Name != "add" || g.result.Finish != reasoning.FinishToolCalls {
					t.Fatalf("%s, budget %d: %+v with calls %v", c.choice, budget, g.result, g.calls)
				}
				if got := g.result.Usage.Reasoning; got > tokens || budget > 0 && got > budget {
					t.Errorf("%s, budget %d: %d tokens of reasoning, one message has %d", c.choice, budget, got, tokens)
				}
				if text := g.text[reasoning.Reasoning]; budget != 5 && v == reasoning.VisibilityFull && text != thought {
					t.Errorf("%s: the reasoning is %q", c.choice, text)
				}
			}
		}
	}
}

// TestBudgetCountsAllReasoningMessages checks a model that may answer and reasons in many messages.
func TestBudgetCountsAllReasoningMessages(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: rambles(50) + finalTag + "four<|return|>"},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again, Say: finalTag + "four<|return|>"},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again + finalTag, Say: "four<|return|>"})
	for _, tools := range [][]chattemplate.Tool{nil, {adder(true)}} {
		for budget := 1; budget < 60; budget++ {
			req := user("q")
			req.Tools, req.Budget, req.Visibility, req.MaxTokens = tools, budget, reasoning.VisibilityFull, 1500
			g := f.must(t, req)
			g.want(t, reasoning.Answer, "four")
			if got := g.result.Usage.Reasoning; got != budget || g.result.Detail != reasoning.DetailReasoningBudget {
				t.Errorf("budget %d: %d tokens of reasoning, %q", budget, got, g.result.Detail)
			}
		}
	}
}

// TestRequiredCallOfARunThatDelegates checks models that would delegate, or return control, as often as they can.
func TestRequiredCallOfARunThatDelegates(t *testing.T) {
	for name, arguments := range map[string]string{
		delegation.DelegateName: `{"agent_prompt":"You add."}`, delegation.ReturnName: `{}`,
	} {
		f := start(t, fake.Config{ContextSize: 4096}, Config{},
			fake.Reply{Prompt: asSpecialist, After: engaged, Say: think("hm", "It is 4.")},
			fake.Reply{After: reported, Say: call("again", name, arguments)},
			fake.Reply{After: ask("q"), Say: call("first", name, arguments)})
		t.Run(name, func(t *testing.T) {
			req := byModel("q")
			req.Tools, req.ToolChoice = []chattemplate.Tool{adder(true)}, generation.ToolChoiceRequired
			req.Visibility, req.MaxTokens = reasoning.VisibilityFull, 3000
			events, err := eventsOf(t.Context(), f.Runner, req)
			if err != nil {
				t.Fatal(err)
			}
			if ended := outcomes(t, events); len(ended) > 1 {
				t.Errorf("%d delegations", len(ended))
			}
			var calls []string
			for _, e := range events {
				if e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall {
					calls = append(calls, e.Call.Name)
				}
				if e.Kind == reasoning.Warning && e.Code == generation.CodeDelegationRefused {
					t.Errorf("a call was refused: %s", e.Text)
				}
			}
			if len(calls) != 1 || calls[0] != "add" {
				t.Errorf("the client gets the calls %q", calls)
			}
		})
	}
}
