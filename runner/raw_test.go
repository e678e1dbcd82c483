package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

func TestRawPromptIsContinuedUnchanged(t *testing.T) {
	r := start(t, fake.Config{}, Config{}, fake.Reply{After: "Once upon",
		Say: "\n\n a time <think>\n<<REASONING>>x\n\n<|return|>"})
	for _, special := range []bool{false, true} {
		req := generation.Request{Prompt: "<|start|>Once upon", PromptSpecial: special}
		g := collect(t.Context(), r.Runner, req)
		if g.err != nil {
			t.Fatal(g.err)
		}
		if got := g.text[reasoning.Answer]; got != "\n\n a time <think>\n<<REASONING>>x\n\n" {
			t.Errorf("special %v: %q", special, got)
		}
		want, err := r.Tokenize(t.Context(), "", req.Prompt, special)
		if err != nil || g.result.Usage.Prompt != len(want) {
			t.Errorf("special %v: %d prompt tokens, want %d, %v", special, g.result.Usage.Prompt, len(want), err)
		}
		tokens := collect(t.Context(), r.Runner, generation.Request{PromptTokens: want})
		if tokens.text[reasoning.Answer] != g.text[reasoning.Answer] {
			t.Errorf("as tokens: %q", tokens.text[reasoning.Answer])
		}
	}
}

func TestRawPromptAllowsNoTemplateFields(t *testing.T) {
	r := start(t, fake.Config{}, Config{})
	for field, change := range map[string]func(*generation.Request){
		"Messages":     func(q *generation.Request) { q.Messages = user("a").Messages },
		"Tools":        func(q *generation.Request) { q.Tools = []chattemplate.Tool{{Name: "f"}} },
		"Visibility":   func(q *generation.Request) { q.Visibility = reasoning.VisibilityFull },
		"Effort":       func(q *generation.Request) { q.Effort = reasoning.EffortLow },
		"Budget":       func(q *generation.Request) { q.Budget = 1 },
		"Strategy":     func(q *generation.Request) { q.Strategy = reasoning.StrategyJSON },
		"PromptTokens": func(q *generation.Request) { q.PromptTokens = []backend.Token{1} },
	} {
		req := generation.Request{Prompt: "x"}
		change(&req)
		var bad *generation.RequestError
		if g := collect(t.Context(), r.Runner, req); !errors.As(g.err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, g.err)
		}
	}
	var bad *generation.RequestError
	if g := collect(t.Context(), r.Runner,
		generation.Request{PromptTokens: []backend.Token{1 << 20}}); !errors.As(g.err, &bad) ||
		bad.Field != "PromptTokens" {
		t.Errorf("a foreign token: %v", g.err)
	}
	if g := collect(t.Context(), r.Runner, generation.Request{PromptTokens: []backend.Token{}}); !errors.As(g.err, &bad) ||
		bad.Field != "Prompt" {
		t.Errorf("no tokens: %v", g.err)
	}
}

func TestReasoningIsSealedUnderEveryVisibility(t *testing.T) {
	r := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a"), Say: think(thought, "four")},
		fake.Reply{After: ask("b"), Say: finalTag + "x<|return|>"})
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
		req := user("a")
		req.Visibility, req.Seal = v, true
		g := collect(t.Context(), r.Runner, req, &observes{seal: func(thoughts string) (string, error) {
			return "sealed " + strings.ToUpper(thoughts), nil
		}})
		if g.err != nil || !slices.Equal(g.sealed, []string{"sealed " + strings.ToUpper(thought)}) {
			t.Errorf("%v: %q, %v", v, g.sealed, g.err)
		}
		said := slices.IndexFunc(g.events, func(e reasoning.Event) bool { return e.Segment == reasoning.Answer })
		value := slices.IndexFunc(g.events, func(e reasoning.Event) bool { return e.Kind == reasoning.Sealed })
		if value > said {
			t.Errorf("%v: the value is event %d, and the answer begins with %d", v, value, said)
		}
		if v == reasoning.VisibilityNone && g.text[reasoning.Reasoning] != "" {
			t.Errorf("the reasoning shows: %q", g.text[reasoning.Reasoning])
		}
	}
	req := user("b")
	req.Seal = true
	by := &observes{seal: func(string) (string, error) { return "something", nil }}
	if g := collect(t.Context(), r.Runner, req, by); len(g.sealed) > 0 {
		t.Errorf("no reasoning was sealed as %q", g.sealed)
	}
	req = user("a")
	req.Seal = true
	by.seal = func(string) (string, error) { return "", errors.New("no key") }
	if g := collect(t.Context(), r.Runner, req, by); len(g.sealed) > 0 || !slices.Equal(g.codes,
		[]string{generation.CodeNotSealed}) {
		t.Errorf("%q, %v", g.sealed, g.codes)
	}
}

func TestUsageIsReported(t *testing.T) {
	r := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a"), Say: think(thought, "four")})
	told := make(chan reasoning.Usage, 8)
	req := user("a")
	by := &observes{account: func(u reasoning.Usage) { told <- u }}
	g := collect(t.Context(), r.Runner, req, by)
	if u := <-told; g.err != nil || u != g.result.Usage {
		t.Errorf("%+v, want %+v, %v", u, g.result.Usage, g.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range r.Generate(ctx, req, by) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == reasoning.SegmentStart {
			break // the reader goes away
		}
	}
	if u := <-told; u.Prompt == 0 || u.Completion == 0 {
		t.Errorf("a run that was cut used %+v", u)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 0 {
		t.Errorf("usage was reported %d more times", len(told))
	}
}
