package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

func TestEmptyPromptIsRefused(t *testing.T) {
	for _, template := range []string{`{{ "" }}`, `{{ messages[messages[0].content] }}`} {
		f := start(t, thinkModel(), Config{ChatTemplate: template})
		var re *generation.RequestError
		if g := collect(t.Context(), f.Runner, user("a")); !errors.As(g.err, &re) || re.Hint() == "" {
			t.Errorf("%s: %v", template, g.err)
		}
	}
}

func TestStopStringsAndLength(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("count"),
		Say: think("STOP is not here", "one two STOP three")})
	req := user("count")
	req.Stop = []string{"STOP", "xyz"}
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "one two ")
	if g.result.StopString != "STOP" || g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v", g.result)
	}
	req = user("count")
	req.MaxTokens, req.AnswerReserve = 3, -1
	if g := f.must(t, req); g.result.Finish != reasoning.FinishLength || g.result.Usage.Completion != 3 {
		t.Errorf("%+v", g.result)
	}
}

func TestRefusals(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 300}, Config{})
	for name, req := range map[string]generation.Request{
		"Messages": {},
		"Budget":   {Messages: user("a").Messages, Budget: -1},
		"Stop":     {Messages: user("a").Messages, Stop: []string{""}},
		"Effort":   {Messages: user("a").Messages, Effort: "extreme"},
		"Strategy": {Messages: user("a").Messages, Strategy: reasoning.StrategyJSON,
			Tools: []chattemplate.Tool{{Name: "f"}}},
		"ToolChoice": {Messages: user("a").Messages, ToolChoice: generation.ToolChoiceRequired},
		"ToolName": {Messages: user("a").Messages, Tools: []chattemplate.Tool{{Name: "f"}},
			ToolChoice: generation.ToolChoiceFunction,
			ToolName:   "g"},
		"Tools":    {Messages: user("a").Messages, Tools: []chattemplate.Tool{{Name: "report_reasoning"}}},
		"Sampling": {Messages: user("a").Messages, Sampling: backend.Sampling{Temperature: -1}},
	} {
		var re *generation.RequestError
		if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &re) || re.Field != name {
			t.Errorf("%s: %v", name, g.err)
		}
	}
	var long *generation.PromptTooLongError
	if g := collect(t.Context(), f.Runner, user(strings.Repeat("q", 1000))); !errors.As(g.err, &long) ||
		long.Tokens < 1000 || long.Hint() == "" {
		t.Errorf("long prompt: %v", g.err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if g := collect(t.Context(), f.Runner, user("a")); !errors.Is(g.err, generation.ErrClosed) {
		t.Errorf("after close: %v", g.err)
	}
}

func TestContextFullEndsWithLength(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 260}, Config{},
		fake.Reply{After: ask("a"), Say: think("", strings.Repeat("z", 2000))})
	req := user("a")
	req.AnswerReserve = -1
	g := f.must(t, req)
	if g.result.Finish != reasoning.FinishLength || g.result.Detail != reasoning.DetailContextFull {
		t.Errorf("%+v", g.result)
	}
}

func TestSeedDecidesTheText(t *testing.T) {
	f := start(t, fake.Config{Script: func([]backend.Token) backend.Token { return backend.NoToken }}, Config{})
	run := func(seed uint64) string {
		req := user("a")
		req.Seed, req.MaxTokens, req.Visibility = &seed, 40, reasoning.VisibilityFull
		req.Sampling.Temperature = 1
		g := f.must(t, req)
		return fmt.Sprint(g.text)
	}
	first := run(1)
	if again := run(1); again != first {
		t.Error("one seed, two texts")
	}
	if run(2) == first {
		t.Error("two seeds, one text")
	}
}
