package runner

import (
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

func TestVisibilityDecidesWhatIsSeen(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "It is 4.")},
		summaryReply(prompts.SummaryConciseV1, "I added them."))
	for _, c := range []struct {
		v                  reasoning.Visibility
		reasoning, summary string
	}{
		{reasoning.VisibilityNone, "", ""},
		{reasoning.VisibilitySummary, "", "I added them."},
		{reasoning.VisibilityFull, thought, ""},
	} {
		req := user("2+2?")
		req.Visibility = c.v
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "It is 4.")
		g.want(t, reasoning.Reasoning, c.reasoning)
		g.want(t, reasoning.Summary, c.summary)
		if g.result.Finish != reasoning.FinishStop || g.result.ReasoningUnavailable || len(g.codes) > 0 {
			t.Errorf("%v: result %+v, warnings %v", c.v, g.result, g.codes)
		}
		if (g.result.SummarySource == "reasoning") != (c.summary != "") {
			t.Errorf("%v: summary source %q", c.v, g.result.SummarySource)
		}
		u := g.result.Usage
		if u.Reasoning == 0 || u.Answer == 0 || u.Completion <= u.Reasoning+u.Answer || (u.Summary > 0) != (c.summary != "") {
			t.Errorf("%v: usage %+v", c.v, u)
		}
		if g.info.Strategy != reasoning.StrategyNative || g.info.Visibility != c.v {
			t.Errorf("info %+v", g.info)
		}
	}
}

// Phases shows where hidden reasoning begins and ends, before the answer and without its text.
func TestPhasesMarkHiddenReasoning(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("2+2?"), Say: think(thought, "It may be 4.")},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "It is 4.")},
		fake.Reply{After: ask("2+2?") + finalTag, Say: "It is 4.<|return|>"},
		summaryReply(prompts.SummaryConciseV1, "I added them."))
	delegated := generation.Delegation{Specialist: &delegation.Delegate{Prompt: "Add."}}
	for _, c := range []struct {
		name string
		req  generation.Request
		want string
	}{
		{"not asked for", generation.Request{}, ""},
		{"none", generation.Request{Phases: true}, "start end"},
		{"summary", generation.Request{Phases: true, Visibility: reasoning.VisibilitySummary}, "start end"},
		{"full", generation.Request{Phases: true, Visibility: reasoning.VisibilityFull}, "start text end"},
		{"delegated, not asked for", generation.Request{Delegation: delegated}, ""},
		{"delegated", generation.Request{Delegation: delegated, Phases: true}, "start end start end start end"},
		{
			"delegated, summary",
			generation.Request{Delegation: delegated, Phases: true, Visibility: reasoning.VisibilitySummary},
			"start end start end start end",
		},
		{"no reasoning", generation.Request{Phases: true, Effort: reasoning.EffortNone}, ""},
	} {
		c.req.Messages = user("2+2?").Messages
		if got := phases(t, f.Runner, c.req); got != c.want {
			t.Errorf("%s: %q before the answer, want %q", c.name, got, c.want)
		}
	}
}

// phases returns the events of reasoning before the answer.
func phases(t *testing.T, r *Runner, req generation.Request) string {
	t.Helper()
	names := map[reasoning.Kind]string{
		reasoning.SegmentStart: "start", reasoning.SegmentDelta: "text", reasoning.SegmentEnd: "end",
	}
	var list []string
	for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Segment == reasoning.Answer:
			return strings.Join(slices.Compact(list), " ")
		case e.Segment == reasoning.Reasoning:
			if names[e.Kind] != "text" && e.Text != "" {
				t.Errorf("a mark holds %q", e.Text)
			}
			list = append(list, names[e.Kind])
		}
	}
	t.Error("there is no answer")
	return ""
}

func TestSummarySharesBatchesWithTheAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat(thought+", ", 20), strings.Repeat("It is 4. ", 20))},
		summaryReply(prompts.SummaryConciseV1, "Added, step by step, until done."))
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	f.must(t, req)
	shared, refed := 0, 0
	for _, s := range f.model.Steps() {
		if len(s.Inputs) == 2 {
			shared++
		}
		for _, in := range s.Inputs {
			if in.ID > 1 && in.Before == 0 {
				refed++
			}
		}
	}
	if shared < 10 || refed > 0 {
		t.Errorf("%d steps held answer and summary; %d prefilled the summary's prefix anew", shared, refed)
	}
}

func TestEffortNoneSkipsReasoning(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "slow")},
		fake.Reply{After: ask("2+2?") + finalTag, Say: "quick<|return|>"})
	req := user("2+2?")
	req.Effort, req.Visibility = reasoning.EffortNone, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "quick")
	if g.result.Usage.Reasoning != 0 || !g.result.ReasoningUnavailable || len(g.switched) != 1 {
		t.Errorf("%+v, switched %v", g.result, g.switched)
	}
	if want := "reasoning was asked for, and the effort none keeps the model from reasoning"; len(g.warnings) != 1 ||
		g.warnings[0] != want {
		t.Errorf("the warnings are %q", g.warnings)
	}
}

func TestBudgetClosesReasoning(t *testing.T) {
	closing := prompts.BudgetV1 + "<|end|>" + again + finalTag
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 200), "late")},
		fake.Reply{After: closing, Say: "in time<|return|>"})
	req := user("2+2?")
	req.Budget, req.Visibility = 20, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "in time")
	if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning != 20 {
		t.Errorf("%+v", g.result)
	}
	if !strings.HasPrefix(strings.Repeat("hm ", 200), g.text[reasoning.Reasoning]) || g.text[reasoning.Reasoning] == "" {
		t.Errorf("reasoning %q holds what the model did not write", g.text[reasoning.Reasoning])
	}
}

func TestReserveIsKeptForTheAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 500), "late")},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	req := user("2+2?")
	req.MaxTokens = 80
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "4")
	if g.result.Detail != reasoning.DetailAnswerReserve || g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v", g.result)
	}
}

func TestReserveHoldsInASmallContext(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 400}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 500), "late")},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	g := f.must(t, user("2+2?"))
	g.want(t, reasoning.Answer, "4")
	if g.result.Detail != reasoning.DetailAnswerReserve {
		t.Errorf("%+v", g.result)
	}
}

func TestEndingInsideReasoningStillGivesAnAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|return|>"},
		fake.Reply{After: thought + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	g := f.must(t, user("2+2?"))
	g.want(t, reasoning.Answer, "4")
	if len(g.codes) != 1 || g.codes[0] != "answer_forced" {
		t.Errorf("warnings %v", g.codes)
	}
}
