package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
)

// countedFamily counts the turns that are planned and the prompts that are rendered.
type countedFamily struct {
	family.Family
	plans, renders atomic.Int64
}

func (c *countedFamily) Turn(ctx context.Context, cfg family.TurnConfig) (family.Turn, error) {
	c.plans.Add(1)
	return c.Family.Turn(ctx, cfg)
}

func (c *countedFamily) Render(conv chattemplate.Conversation) (chattemplate.Prompt, error) {
	c.renders.Add(1)
	return c.Family.Render(conv)
}

// TestEachTurnIsPlannedOnce counts the plans and the prompts of runs. Each turn needs one of both. With reasons for
// calls it is rendered once more, to count the reasoning that the prompt leaves out. A user's specialist that calls the
// client leaves over the plan that checked the request.
func TestEachTurnIsPlannedOnce(t *testing.T) {
	byUser := instructedBy("2+2?", delegation.Delegate{Prompt: "Add."})
	byUser.Form = grammar.Choices("It is 4.")
	reasons := user("why?")
	reasons.Rationale = true
	squashed := byUser
	squashed.Delegation.Work = generation.WorkSquash
	forClient := instructedBy("3+3?", delegation.Delegate{Prompt: "Add."})
	forClient.Tools = addTool
	replies := append([]fake.Reply{
		{Prompt: asSpecialist, After: ask(delegation.SquashV1), Say: think("hm", "4")},
		{Prompt: asSpecialist, After: ask("2+2?"), Say: think("hm", "It must be 4.")},
		{Prompt: "<return-control>", After: ask("2+2?"), Say: think("hm", "It is 4.")},
		{Prompt: asSpecialist, After: ask("3+3?"), Say: call("hm", "add", `{"a":3}`)},
		{After: ask("why?"), Say: think("hm", "It is 4.")},
	}, delegates()...)
	for _, c := range []struct {
		name           string
		req            generation.Request
		plans, prompts int64
		calls          int
	}{
		{"one turn", user("why?"), 1, 1, 0},
		{"one turn with reasons for calls", reasons, 1, 2, 0},
		{"no delegation", byModel("why?"), 1, 1, 0},
		{"the model delegates", byModel("2+2?"), 3, 3, 0},
		{"the user delegates", byUser, 2, 2, 0},
		{"the work is squashed", squashed, 3, 3, 0},
		{"the user's specialist calls the client, so the first plan only checks", forClient, 2, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, fake.Config{ContextSize: 4096}, Config{}, replies...)
			counted := &countedFamily{Family: f.family}
			f.family = counted
			g := f.must(t, c.req)
			if len(g.calls) != c.calls {
				t.Fatalf("calls: %v, want %d", g.calls, c.calls)
			}
			if c.calls == 0 {
				g.want(t, reasoning.Answer, "It is 4.")
			}
			if plans, renders := counted.plans.Load(), counted.renders.Load(); plans != c.plans || renders != c.prompts {
				t.Errorf("%d plans and %d prompts, want %d and %d", plans, renders, c.plans, c.prompts)
			}
		})
	}
}

// TestReasoningIsRestoredOncePerRun counts how often a run looks for the reasoning of an earlier call. It looks once to
// restore the reasoning, and a run that delegates looks once more for the delegation. The arguments have changed, so
// nothing is found and another turn would look again.
func TestReasoningIsRestoredOncePerRun(t *testing.T) {
	memory := NewCallMemory(4, time.Hour)
	f := start(t, fake.Config{ContextSize: 4096}, Config{CallMemory: memory},
		fake.Reply{Prompt: asSpecialist, After: "5<|end|>" + again, Say: think("hm", "5")},
		fake.Reply{Prompt: "<return-control>", After: ask("2+3?"), Say: think("hm", "It is 5.")},
		fake.Reply{After: "5<|end|>" + again, Say: think("hm", "It is 5.")},
		fake.Reply{After: ask("2+3?"), Say: call(thought, "add", `{"a":2}`)})
	req := user("2+3?")
	req.Tools = addTool
	made := f.must(t, req).calls[0]
	req.Messages = append(req.Messages,
		chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{
			{ID: made.ID, Name: made.Name, Arguments: `{"a":3}`}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: made.ID, ToolName: made.Name, Content: "5"})
	looks := 0
	memory.clock = func() time.Time {
		looks++
		return time.Now()
	}
	for _, want := range []int{1, 2} {
		looks = 0
		f.must(t, req).want(t, reasoning.Answer, "It is 5.")
		if looks != want {
			t.Errorf("the memory was asked %d times, want %d", looks, want)
		}
		req.Delegation.Specialist = &delegation.Delegate{Prompt: "Add."}
	}
}
