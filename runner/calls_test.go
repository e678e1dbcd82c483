package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

func TestEffortNoneWithToolsStillCalls(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|end|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>",
			Say: "commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>commentary",
			Say: " to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Effort, req.Tools, req.Visibility = reasoning.EffortNone, addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	if g.result.Finish == reasoning.FinishToolCalls {
		g.want(t, reasoning.ToolCall, `{"a":2}`)
	} else {
		// The channel that the script chose is forbidden. What the noise chose must still be a legal header.
		g.want(t, reasoning.ToolCall, "")
	}
	if g.result.Usage.Reasoning != 0 {
		t.Errorf("usage %+v", g.result.Usage)
	}
}

func TestToolCall(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant<|channel|>commentary to=functions.add " +
			"<|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Tools, req.Visibility = addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.ToolCall, `{"a":2}`)
	g.want(t, reasoning.Reasoning, "use it")
	if g.result.Finish != reasoning.FinishToolCalls || len(g.calls) != 1 || g.calls[0].Name != "add" ||
		g.calls[0].ID == "" {
		t.Errorf("%+v %+v", g.result, g.calls)
	}
}

// TestHeadersOfRealModels checks that constrained headers may be every header that gpt-oss is known to write for a
// call or for text before one, whether the call is strict or not.
func TestHeadersOfRealModels(t *testing.T) {
	const args = `{"a":2,"b":3}`
	var headers []string
	for _, end := range []string{"<|message|>", " <|constrain|>json<|message|>", "<|constrain|>json<|message|>",
		" json<|message|>", " code<|message|>"} {
		for _, to := range []string{" to=functions.add", " to=add"} {
			for _, channel := range []string{"commentary", "analysis"} {
				headers = append(headers, "<|channel|>"+channel+to+end, to+"<|channel|>"+channel+end)
			}
		}
	}
	for _, strict := range []bool{false, true} {
		req := user("2+3?")
		req.Tools = []chattemplate.Tool{adder(strict)}
		for _, h := range headers {
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"), Say: h + args + "<|call|>"})
			g := f.must(t, req)
			if g.want(t, reasoning.ToolCall, args); len(g.calls) != 1 || g.calls[0].Name != "add" || len(g.warnings) > 0 {
				t.Errorf("strict %t, %s: calls %v, warnings %v", strict, h, g.calls, g.warnings)
			}
		}
		for _, to := range []string{"", " to=assistant", " to=user", " to=all"} {
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"), Say: to + finalTag + "It is 5.<|return|>"})
			f.must(t, req).want(t, reasoning.Answer, "It is 5.")
			for _, header := range []string{"<|channel|>commentary" + to, to + "<|channel|>commentary",
				"<|channel|>analysis" + to, to + "<|channel|>analysis"} {
				f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"),
					Say: header + "<|message|>I add.<|end|>" + again + finalTag + "It is 5.<|return|>"})
				req.Visibility = reasoning.VisibilityFull
				g := f.must(t, req)
				if g.text[reasoning.Preamble]+g.text[reasoning.Reasoning] != "I add." || len(g.calls) > 0 {
					t.Errorf("strict %t, %s: %v, calls %v", strict, header, g.text, g.calls)
				}
				g.want(t, reasoning.Answer, "It is 5.")
			}
		}
	}
}

// TestOnlyOfferedFunctionsAreCalled checks that a model that writes at random calls no function that is not offered.
func TestOnlyOfferedFunctionsAreCalled(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{})
	called := 0
	for seed := range uint64(60) {
		req := user("a")
		req.Tools = []chattemplate.Tool{{Name: "f"}, {Name: "other", Strict: seed%3 == 0}}
		if seed%2 == 0 {
			req.TemplateArgs = map[string]any{"builtin_tools": []any{"python", "browser"}}
		}
		if seed%5 == 0 {
			req.Tools = nil
		}
		req.Seed, req.MaxTokens, req.Budget = &seed, 200, 20
		req.Sampling.Temperature = 1
		g := collect(t.Context(), f.Runner, req)
		if g.err != nil {
			t.Fatal(g.err)
		}
		for _, c := range g.calls {
			builtin := c.Name == "python" || strings.HasPrefix(c.Name, "browser.")
			function := c.Name == "f" || c.Name == "other"
			if called++; (!function || req.Tools == nil) && (!builtin || req.TemplateArgs == nil) {
				t.Errorf("seed %d: it called %q", seed, c.Name)
			}
		}
	}
	if called < 10 {
		t.Errorf("only %d calls", called)
	}
}

// TestBadChannelNames checks that the wrong channel names that gpt-oss sometimes writes are forbidden, and that the
// answer follows.
func TestBadChannelNames(t *testing.T) {
	for _, odd := range []string{"<|channel|>commentary?<|message|>", "<|channel|>??<|message|>", "?? what",
		" to=functions.sum<|channel|>commentary<|message|>", "<|channel|>commentary to=python code<|message|>"} {
		f := start(t, fake.Config{}, Config{},
			fake.Reply{After: ask("2+3?"), Say: odd + "{}<|call|>"},
			fake.Reply{After: ask("2+3?") + "<|channel|>", Say: "final<|message|>It is 5.<|return|>"},
			fake.Reply{After: ask("2+3?") + finalTag, Say: "It is 5.<|return|>"},
			fake.Reply{After: ask("2+3?") + "<|channel|>analysis<|message|>", Say: "<|end|>" + again + finalTag +
				"It is 5.<|return|>"})
		g := f.must(t, user("2+3?"))
		if g.text[reasoning.Answer] != "It is 5." || len(g.calls) > 0 || len(g.warnings) > 0 {
			t.Errorf("%s: answer %q, calls %v, warnings %v", odd, g.text[reasoning.Answer], g.calls, g.warnings)
		}
	}
}

// TestBuiltinToolsAreCalled checks that gpt-oss's own tools work together with a function.
func TestBuiltinToolsAreCalled(t *testing.T) {
	for _, name := range []string{"python", "browser.search", "browser.open", "browser.find"} {
		for _, header := range []string{"<|channel|>analysis to=" + name + " code", "<|channel|>commentary to=" + name,
			" to=" + name + "<|channel|>analysis json"} {
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"), Say: header + "<|message|>{}<|call|>"})
			req := user("2+3?")
			req.TemplateArgs = map[string]any{"builtin_tools": []any{"python", "browser"}}
			for _, tools := range [][]chattemplate.Tool{nil, {adder(true)}} {
				req.Tools = tools
				if g := f.must(t, req); len(g.calls) != 1 || g.calls[0].Name != name {
					t.Errorf("%s beside %v: calls %v", header, tools, g.calls)
				}
			}
		}
	}
}

// TestFunctionNamedLikeABuiltinTool checks that such a function's arguments are not constrained: they may be the
// builtin tool's code.
func TestFunctionNamedLikeABuiltinTool(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"),
		Say: "<|channel|>analysis to=python code<|message|>print(2+3)<|call|>"})
	req := user("2+3?")
	req.Tools = []chattemplate.Tool{{Name: "python", Parameters: adder(false).Parameters}}
	req.TemplateArgs = map[string]any{"builtin_tools": []any{"python"}}
	f.must(t, req).want(t, reasoning.ToolCall, "print(2+3)")
}

// TestArgumentsOfManyFunctions: of more than 128 any object is taken.
func TestArgumentsOfManyFunctions(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 1 << 15}, Config{},
		fake.Reply{After: ask("2+3?"), Say: "<|channel|>commentary to=functions.f0<|message|>{\"c\":1}<|call|>"})
	for n := 128; n <= 128+1; n++ {
		req := user("2+3?")
		req.MaxTokens = 400
		for i := range n {
			req.Tools = append(req.Tools, chattemplate.Tool{Name: fmt.Sprintf("f%d", i), Parameters: adder(false).Parameters})
		}
		g := f.must(t, req)
		if got := g.text[reasoning.ToolCall]; len(g.calls) != 1 || (got == `{"c":1}`) != (n > 128) {
			t.Errorf("%d functions: %v with %s", n, g.calls, got)
		}
	}
}

// TestArgumentsCostLittle checks that parameters that are not strict take almost no time, whatever they are.
func TestArgumentsCostLittle(t *testing.T) {
	list := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	f := start(t, fake.Config{}, Config{})
	for name, parameters := range map[string]string{
		"names":   `{"properties":{"a":{}},"required":[` + list(120_000, `"n%d"`) + `]}`,
		"few":     `{"properties":{"a":{}},"required":[` + list(20_000, `"n%d"`) + `]}`,
		"choices": `{"properties":{` + list(128, `"p%d":{"type":"string","enum":[`+list(128, `"a choice %d"`)+`]}`) + `}}`,
	} {
		var req generation.Request
		for i := range 128 {
			req.Tools = append(req.Tools, chattemplate.Tool{Name: fmt.Sprintf("f%d", i),
				Parameters: json.RawMessage(parameters)})
		}
		began := time.Now()
		if _, err := f.family.Turn(t.Context(), family.TurnConfig{Grammars: f.grammars(), Tools: req.Tools}); err != nil {
			t.Fatal(name, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: it takes %v", name, took)
		}
	}
}

// TestBuiltinToolsAreCalledWithoutReasoning checks that the model can call them under effort none and after its
// budget.
func TestBuiltinToolsAreCalledWithoutReasoning(t *testing.T) {
	for _, spent := range []bool{false, true} {
		const header = "<|channel|>commentary to=python code<|message|>"
		req, replies := user("2+3?"), []fake.Reply{{After: ask("2+3?"), Say: header + "2+3<|call|>"}}
		if req.Effort = reasoning.EffortNone; spent {
			req.Effort, req.Budget = "", 20
			replies[0].After = prompts.BudgetV1 + "<|end|>" + again
			replies = append(replies, fake.Reply{After: ask("2+3?"), Say: think(strings.Repeat("hm ", 200), "late")})
		}
		f := start(t, fake.Config{}, Config{}, replies...)
		req.TemplateArgs = map[string]any{"builtin_tools": []any{"python"}}
		if g := f.must(t, req); len(g.calls) != 1 || g.calls[0].Name != "python" {
			t.Errorf("budget spent %t: calls %v, %v", spent, g.calls, g.text)
		}
		req.ToolChoice = generation.ToolChoiceNone
		if g := f.must(t, req); len(g.calls) != 0 {
			t.Errorf("budget spent %t: calls %v where none is admitted", spent, g.calls)
		}
	}
}

// TestTemplateOpensTheMessage checks that a harmony model writes no second header if its template opens the reasoning
// or the answer.
func TestTemplateOpensTheMessage(t *testing.T) {
	const chat = `{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}` +
		`<|start|>assistant`
	const analysis = "<|channel|>analysis<|message|>"
	for opened, say := range map[string]string{analysis: "hm<|end|>" + again + finalTag + "5<|return|>",
		finalTag: "5<|return|>"} {
		f := start(t, fake.Config{}, Config{ChatTemplate: chat + opened},
			fake.Reply{After: ask("2+3?") + opened, Say: say},
			fake.Reply{After: "<|end|>" + again + finalTag, Say: "5<|return|>"})
		req := user("2+3?")
		req.Visibility = reasoning.VisibilityFull
		g := f.must(t, req)
		if g.want(t, reasoning.Answer, "5"); g.text[reasoning.Reasoning] != map[string]string{analysis: "hm"}[opened] {
			t.Errorf("%s: %v", opened, g.text)
		}
		if opened == finalTag {
			f := start(t, fake.Config{}, Config{ChatTemplate: "{{ tools }}" + chat + opened})
			for field, ask := range map[string]func(*generation.Request){
				"ToolChoice": func(r *generation.Request) {
					r.Tools, r.ToolChoice = []chattemplate.Tool{adder(false)}, generation.ToolChoiceRequired
				},
				"Strategy": func(r *generation.Request) { r.Strategy = reasoning.StrategyTool },
			} {
				req, bad := req, new(generation.RequestError)
				ask(&req)
				if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &bad) || bad.Field != field {
					t.Errorf("%s, which the template leaves no room for: %v", field, g.err)
				}
			}
		}
		req.TemplateArgs = map[string]any{"reasoning_effort": "none"}
		if g := f.must(t, req); g.text[reasoning.Answer] != "5" || g.text[reasoning.Reasoning] != "" {
			t.Errorf("%s, without reasoning by the template's variable: %v", opened, g.text)
		}
		req.Effort = reasoning.EffortNone
		for _, args := range []map[string]any{nil, {"builtin_tools": []any{"python"}}} {
			req.TemplateArgs = args
			if g := f.must(t, req); g.text[reasoning.Answer] != "5" || g.text[reasoning.Reasoning] != "" {
				t.Errorf("%s, without reasoning: %v", opened, g.text)
			}
		}
	}
}

// TestReportsUnderTemplatesThatOpenReasoning checks that reasoning that a template opens is closed before the report
// and after it.
func TestReportsUnderTemplatesThatOpenReasoning(t *testing.T) {
	const chat = `{{ tools }}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}` +
		`{{ m.tool_calls }}<|end|>{% endfor %}<|start|>assistant<|channel|>analysis<|message|>`
	f := start(t, fake.Config{}, Config{ChatTemplate: chat},
		fake.Reply{After: "2+3?<|end|>" + again + "<|channel|>analysis<|message|><|end|>" + again,
			Say: " to=functions.report_reasoning<|channel|>commentary " +
				"<|constrain|>json<|message|>{\"reasoning\":\"r\"}<|call|>"},
		fake.Reply{After: "{}<|end|>" + again + "<|channel|>analysis<|message|><|end|>" + again,
			Say: finalTag + "5<|return|>"})
	req := user("2+3?")
	req.Visibility, req.Strategy = reasoning.VisibilityFull, reasoning.StrategyTool
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "5")
	g.want(t, reasoning.Reasoning, "r")
}

// TestNamesThatMeanSomethingElse checks that functions whose names are a recipient's or are in the namespace are
// called by their full names.
func TestNamesThatMeanSomethingElse(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 1024}, Config{})
	for seed := range uint64(40) {
		req := user("a")
		req.Tools = []chattemplate.Tool{{Name: "all"}, {Name: "functions.f"}, {Name: "größe"}}
		req.Seed, req.MaxTokens, req.Budget, req.ToolChoice = &seed, 600, 20, generation.ToolChoiceRequired
		req.Sampling.Temperature = 1
		g := collect(t.Context(), f.Runner, req)
		if g.err != nil {
			t.Fatal(g.err)
		}
		if g.text[reasoning.Preamble] != "" || g.result.Usage.Reasoning > 30 {
			t.Errorf("seed %d: preamble %q, %d tokens of reasoning", seed, g.text[reasoning.Preamble], g.result.Usage.Reasoning)
		}
		for _, c := range g.calls {
			if c.Name != "all" && c.Name != "functions.f" && c.Name != "größe" {
				t.Errorf("seed %d: it called %q", seed, c.Name)
			}
		}
	}
}

// TestMessageWithoutItsEnd checks a model that goes from its reasoning straight to the next <|channel|> or <|start|>,
// under constrained headers.
func TestMessageWithoutItsEnd(t *testing.T) {
	for _, next := range []string{"", again, "<|end|>" + again} {
		f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+3?"),
			Say: "<|channel|>analysis<|message|>" + thought + next +
				"<|channel|>commentary to=functions.add json<|message|>{\"a\":2}<|call|>"},
			fake.Reply{Prompt: thought + "<|end|><|start|>developer", After: prompts.SummaryConciseV1 + "<|end|>" + again +
				finalTag, Say: "It adds.<|return|>"})
		req := user("2+3?")
		req.Tools, req.Visibility = addTool, reasoning.VisibilityFull
		g := f.must(t, req)
		g.want(t, reasoning.Reasoning, thought)
		g.want(t, reasoning.ToolCall, `{"a":2}`)
		if whole := strings.HasPrefix(next, "<|end|>"); whole != (len(g.warnings) == 0) {
			t.Errorf("%q: warnings %v", next, g.warnings)
		}
		req.Visibility = reasoning.VisibilitySummary
		f.must(t, req).want(t, reasoning.Summary, "It adds.")
	}
}

func TestHiddenReasoningOfPendingCallsComesBack(t *testing.T) {
	call := "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"
	f := start(t, fake.Config{}, Config{CallMemory: NewCallMemory(2, 0)},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant" + call},
		fake.Reply{Prompt: "use it", After: "tool says 4<|end|>" + again, Say: think("", "It is 4.")},
		fake.Reply{After: "tool says 4<|end|>" + again, Say: think("", "I forgot why.")})
	req := user("2+2?")
	req.Tools = addTool
	req.Unremembered = true
	forgotten := f.must(t, req)
	req.Unremembered = false
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	for _, id := range []string{forgotten.calls[0].ID, "call_other"} {
		again := req
		again.Messages = append(slices.Clone(req.Messages),
			chattemplate.Message{Role: chattemplate.Assistant,
				ToolCalls: []chattemplate.ToolCall{{ID: id, Name: "add", Arguments: `{"a":2}`}}},
			chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: id, ToolName: "add", Content: "tool says 4"})
		f.must(t, again).want(t, reasoning.Answer, "I forgot why.")
	}
	req.Messages = append(req.Messages,
		chattemplate.Message{Role: chattemplate.Assistant,
			ToolCalls: []chattemplate.ToolCall{{ID: g.calls[0].ID, Name: "add", Arguments: g.text[reasoning.ToolCall]}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: g.calls[0].ID, ToolName: "add", Content: "tool says 4"})
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "It is 4.")
	if req.Messages[1].Reasoning != "" {
		t.Error("the caller's message was changed")
	}
}

// TestRequiredCallsComeAtOnce checks that a model that writes at random and must call does so at once. Its arguments
// are an object, although they are not strict.
func TestRequiredCallsComeAtOnce(t *testing.T) {
	r := start(t, fake.Config{ContextSize: 1024}, Config{})
	whole := 0
	for seed := range uint64(24) {
		req := user("a")
		req.Tools = []chattemplate.Tool{{Name: "f"}, {Name: "g"}}
		req.ToolChoice, req.Seed, req.MaxTokens, req.Budget = generation.ToolChoiceRequired, &seed, 600, 20
		if seed%2 == 0 {
			req.ToolChoice, req.ToolName = generation.ToolChoiceFunction, "g"
		}
		req.Sampling.Temperature = 1
		g := collect(t.Context(), r.Runner, req)
		if g.err != nil {
			t.Fatal(g.err)
		}
		if g.text[reasoning.Preamble] != "" || g.text[reasoning.Answer] != "" {
			t.Errorf("seed %d: preamble %q, answer %q", seed, g.text[reasoning.Preamble], g.text[reasoning.Answer])
		}
		if g.result.Finish == reasoning.FinishLength {
			continue
		}
		whole++
		var arguments map[string]any
		if len(g.calls) != 1 || seed%2 == 0 && g.calls[0].Name != "g" {
			t.Errorf("seed %d: calls %v", seed, g.calls)
		} else if err := json.Unmarshal([]byte(g.text[reasoning.ToolCall]), &arguments); err != nil {
			t.Errorf("seed %d: arguments %q: %v", seed, g.text[reasoning.ToolCall], err)
		}
	}
	if whole < 4 {
		t.Errorf("only %d calls came to their end", whole)
	}
}

// TestCallsWithoutResultsAreRefused checks for missing results, because a model that continues after its own calls
// tends to reason in visible text.
func TestCallsWithoutResultsAreRefused(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: "r<|end|><|start|>assistant", Say: think("", "so")})
	req := user("q")
	req.Messages = append(req.Messages, chattemplate.Message{
		Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: "call_1", Name: "f", Arguments: `{}`}},
	})
	var bad *generation.RequestError
	if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &bad) || bad.Field != "Messages" {
		t.Errorf("without a result: %v", g.err)
	}
	req.Messages = append(req.Messages, chattemplate.Message{
		Role: chattemplate.ToolRole, ToolCallID: "call_1", ToolName: "f", Content: "r",
	})
	f.must(t, req).want(t, reasoning.Answer, "so")
}
