package delegate

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/runner"
)

const again = "<|start|>assistant"

// call is a turn that calls a function.
func call(name, arguments string) string {
	return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments + "<|call|>"
}

// spy is a Loop that keeps the last one that ran.
type spy struct {
	Loop
	loop *loop
}

func (s *spy) Run(q *generation.Request, turns generation.Turns) error {
	s.loop = &loop{req: q, turns: turns}
	return s.loop.run()
}

// TestTheOriginalPromptIsBack checks the end of requests of models that call at random, however they end. No
// specialist is active, every segment has ended, and the conversation under the original prompt contains only the
// report.
func TestTheOriginalPromptIsBack(t *testing.T) {
	broke := errors.New("the step failed")
	for seed := range uint64(60) {
		draw := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		says := []string{
			"<|channel|>final<|message|>text<|return|>", call(delegation.DelegateName, `{"agent_prompt":"Special."}`),
			call(delegation.DelegateName, `{"agent`),
			call(delegation.ReturnName, "{}"), call("add", `{"a":1}`), "<|channel|>analysis<|message|>",
		}
		turns, failAt := 0, -1
		if draw.IntN(3) == 0 {
			failAt = draw.IntN(150)
		}
		v := fake.Harmony()
		var current fake.Script
		cfg := fake.Config{ContextSize: 2048, Vocab: v, Fail: func(step int, _ []backend.Input) error {
			if step == failAt {
				return broke
			}
			return nil
		}}
		begin := 0
		cfg.Script = func(tokens []backend.Token) backend.Token {
			text := fake.Decode(v, tokens)
			if n := len(tokens); current == nil || n < begin || strings.HasSuffix(text, again) &&
				!strings.Contains(text[max(0, len(text)-60):], "analysis") {
				begin, turns = n, turns+1
				current = fake.Replies(v, fake.Reply{After: text, Say: says[draw.IntN(len(says))]})
			}
			return current(tokens)
		}
		spy := &spy{}
		r, err := runner.New(fake.New(cfg), runner.Config{CallMemory: runner.NewCallMemory(4, 0),
			Loops: []generation.Loop{spy}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopAt := -1
		if draw.IntN(3) == 0 {
			stopAt = draw.IntN(40)
		}
		req := generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: "2+2?"}},
			Tools: []chattemplate.Tool{{Name: "add", Parameters: []byte(`{"type":"object"}`)}}}
		req.Delegation.Model = true
		if draw.IntN(2) == 0 {
			req.Delegation.Specialist = &delegation.Delegate{Prompt: "Special."}
		}
		req.Visibility, req.MaxTokens = reasoning.VisibilityFull, 400
		events, left := 0, false
		open := map[string]bool{}
		var failed error
		for e, err := range r.Generate(ctx, req, generation.Unobserved{}) {
			if failed = err; err != nil {
				break
			}
			switch e.Kind {
			case reasoning.DelegationStart:
				open[e.Delegation.ID] = true
			case reasoning.DelegationEnd:
				delete(open, e.Delegation.ID)
			}
			if events++; events != stopAt {
				continue
			}
			if draw.IntN(2) == 0 {
				cancel()
			} else {
				left = true
				break
			}
		}
		cancel()
		l := spy.loop
		if l.done == 0 && failed == nil && !left {
			t.Fatal("no turn was carried out")
		}
		if _, on := l.state.Active(); on || l.about.ID != "" || len(open) > 0 && !left {
			t.Errorf("seed %d: a specialist is active after %v", seed, failed)
		}
		for _, m := range l.main {
			if strings.Contains(m.Content, "Special.") {
				t.Errorf("seed %d: the specialist's prompt is in the conversation: %q", seed, m.Content)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
