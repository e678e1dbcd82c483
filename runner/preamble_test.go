package runner

import (
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

const (
	preambleTag = "<|channel|>commentary<|message|>"
	addCall     = " to=functions.add<|channel|>commentary <|constrain|>json<|message|>"
	working     = "two plus two is four so I say that"
)

// TestMarkersAreFoundBeforeACall has a model reason between markers in the text before a call. Only visibility full
// shows it, whether a call follows or an answer.
func TestMarkersAreFoundBeforeACall(t *testing.T) {
	const block = "<<REASONING>>\n" + thought + "\n<</REASONING>>\n"
	for name, c := range map[string]struct {
		say, preamble, answer string
	}{
		"an answer": {preambleTag + block + "<|end|>" + again + finalTag + "four<|return|>", "", "four"},
		"a call":    {preambleTag + block + "I call.<|end|>" + again + addCall + `{"a":2}<|call|>`, "I call.", ""},
		"text and an answer": {preambleTag + "See " + block + "so<|end|>" + again + finalTag + "four<|return|>",
			"", "four"},
		"two blocks": {finalTag + block + "four " + block + "or four<|return|>", "", "four or four"},
		"the end":    {preambleTag + block + "so<|return|>", "", "forced"},
		"no end":     {preambleTag + block[:len(block)/2] + "<|return|>", "", "forced"},
	} {
		replies := []fake.Reply{{After: ask("q"), Say: c.say}}
		if c.answer == "forced" {
			replies = append(replies, fake.Reply{After: "<|end|>" + again,
				Say: finalTag + "forced<|return|>"})
		}
		f := start(t, fake.Config{}, Config{}, replies...)
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			req := user("q")
			req.Tools, req.Strategy, req.Visibility, req.MaxTokens = addTool, reasoning.StrategyMarkers, v, 300
			g := f.must(t, req)
			seen := strings.Join([]string{g.text[reasoning.Preamble], g.text[reasoning.Answer]}, "|")
			if strings.Contains(seen, "two") || strings.Contains(seen, "<<") {
				t.Errorf("%s, %v: the caller sees %q", name, v, seen)
			}
			g.want(t, reasoning.Preamble, c.preamble)
			if answer := strings.ReplaceAll(g.text[reasoning.Answer], "\n\n", ""); answer != c.answer {
				t.Errorf("%s, %v: the answer is %q, want %q", name, v, answer, c.answer)
			}
			if shows := strings.Contains(g.text[reasoning.Reasoning], thought[:8]); shows != (v == reasoning.VisibilityFull) {
				t.Errorf("%s, %v: the reasoning is %q", name, v, g.text[reasoning.Reasoning])
			}
			if g.result.Usage.Reasoning == 0 {
				t.Errorf("%s, %v: no reasoning is counted", name, v)
			}
		}
	}
}

// closings are the ways in which a request closes the model's own place for reasoning.
var closings = map[string]func(*generation.Request){
	"effort none": func(q *generation.Request) { q.Effort = reasoning.EffortNone },
	"posthoc":     func(q *generation.Request) { q.Strategy = reasoning.StrategyPosthoc },
	"markers":     func(q *generation.Request) { q.Strategy = reasoning.StrategyMarkers },
	"markers, no effort": func(q *generation.Request) {
		q.Strategy, q.Effort = reasoning.StrategyMarkers, reasoning.EffortNone
	},
	"a report, no effort": func(q *generation.Request) {
		q.Strategy, q.Effort = reasoning.StrategyTool, reasoning.EffortNone
	},
	"decisions": func(q *generation.Request) {
		q.Effort, q.Rationale = reasoning.EffortNone, true
	},
}

// TestTextBeforeACallNeedsTheCall closes the model's place for reasoning and has it write text before a call. With the
// call, the text is shown. Without it, the model has worked there, so the text is reasoning.
func TestTextBeforeACallNeedsTheCall(t *testing.T) {
	text := preambleTag + working
	for _, c := range []struct {
		name, say        string
		tokens           int
		preamble, answer string
	}{
		{"a call", text + "<|end|>" + again + addCall + `{"a":2}<|call|>`, 0, working, ""},
		{"an answer", text + "<|end|>" + again + finalTag + "four<|return|>", 0, "", "four"},
		{"the end", text + "<|return|>", 0, "", "forced"},
		{"a call of nobody", text + "<|call|>", 0, "", "forced"},
		{"nothing", text + "<|end|>" + again + finalTag + "four<|return|>", 8, "", ""},
		{"half a call", text + "<|end|>" + again + addCall + `{"a":2}<|call|>`, 16, "", ""},
	} {
		replies := []fake.Reply{{After: ask("q"), Say: c.say}}
		if c.answer == "forced" {
			replies = append(replies, fake.Reply{After: working + "<|end|>" + again, Say: finalTag + "forced<|return|>"})
		}
		f := start(t, fake.Config{}, Config{}, replies...)
		for name, closes := range closings {
			for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
				req := user("q")
				req.Tools, req.Visibility, req.MaxTokens, req.AnswerReserve = addTool, v, c.tokens, -1
				closes(&req)
				g := f.must(t, req)
				g.want(t, reasoning.Preamble, c.preamble)
				g.want(t, reasoning.Answer, c.answer)
				thoughts := ""
				if c.preamble == "" && v == reasoning.VisibilityFull {
					thoughts = g.text[reasoning.Reasoning]
					if !strings.HasPrefix(working, thoughts) || thoughts == "" {
						t.Errorf("%s, %s, %v: the reasoning is %q", c.name, name, v, thoughts)
					}
				}
				g.want(t, reasoning.Reasoning, thoughts)
				if counts := g.result.Usage.Reasoning > 0; counts != (c.preamble == "") || g.result.Usage.Reasoning < 0 {
					t.Errorf("%s, %s, %v: %d tokens of reasoning", c.name, name, v, g.result.Usage.Reasoning)
				}
				if t.Failed() {
					t.Fatalf("%s, %s, %v: %+v %q", c.name, name, v, g.result, g.codes)
				}
			}
		}
	}
}

// TestTextBeforeACallPrecedesIt checks that the text is sent before its call, and that it is sent at once where the
// model has a place for reasoning.
func TestTextBeforeACallPrecedesIt(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"),
		Say: preambleTag + working + "<|end|>" + again + addCall + `{"a":2}<|call|>`})
	for _, effort := range []reasoning.Effort{reasoning.EffortNone, ""} {
		req := user("q")
		req.Tools, req.Effort = addTool, effort
		var order []reasoning.Segment
		for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == reasoning.SegmentStart {
				order = append(order, e.Segment)
			}
		}
		if want := []reasoning.Segment{reasoning.Preamble, reasoning.ToolCall}; !slices.Equal(order, want) {
			t.Errorf("effort %q: the segments are %v", effort, order)
		}
	}
	req := user("r") // no call follows, but the model has a place for reasoning
	req.Tools = addTool
	f = start(t, fake.Config{}, Config{}, fake.Reply{After: ask("r"),
		Say: preambleTag + working + "<|end|>" + again + finalTag + "four<|return|>"})
	f.must(t, req).want(t, reasoning.Preamble, working)
}

// TestASpentBudgetLeavesNoTextBeforeACall spends the budget. Then the model may call or answer, and nothing else: a
// model that has not finished would go on in the text before a call.
func TestASpentBudgetLeavesNoTextBeforeACall(t *testing.T) {
	say := "<|channel|>analysis<|message|>" + strings.Repeat("so ", 40)
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: say},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again, Say: preambleTag + working + "<|return|>"},
		fake.Reply{After: "<|channel|>final", Say: "<|message|>four<|return|>"})
	req := user("q")
	req.Tools, req.Budget = addTool, 5
	g := f.must(t, req)
	g.want(t, reasoning.Preamble, "")
	if g.result.Usage.Reasoning != 5 || strings.Contains(g.text[reasoning.Answer], working) {
		t.Errorf("%+v, %q", g.result, g.text)
	}
}

// TestTextBeforeADelegationIsReasoning has the model write text and then delegate. The caller sees no call, so the text
// does not stand before one.
func TestTextBeforeADelegationIsReasoning(t *testing.T) {
	const delegate = " to=functions.delegate_internal_reasoning<|channel|>commentary <|constrain|>json<|message|>"
	f := start(t, fake.Config{ContextSize: 8192}, Config{},
		fake.Reply{After: ask("q"),
			Say: preambleTag + working + "<|end|>" + again + delegate + `{"agent_prompt":"Add."}<|call|>`},
		fake.Reply{Prompt: "Add.", After: again + finalTag, Say: "It is.<|return|>"},
		fake.Reply{Prompt: "It is.", After: again, Say: finalTag + "four<|return|>"})
	req := user("q")
	req.Effort, req.Delegation.Model, req.MaxTokens = reasoning.EffortNone, true, 600
	g := f.must(t, req)
	g.want(t, reasoning.Preamble, "")
	if all := g.text[reasoning.Answer]; strings.Contains(all, "two plus") {
		t.Errorf("the answer is %q", all)
	}
	if !slices.Contains(g.order, reasoning.DelegationStart) || g.result.Usage.Reasoning == 0 {
		t.Errorf("%v, %+v", g.order, g.result)
	}
}

// TestACutMarkerIsNotShown ends answers after each number of tokens.
func TestACutMarkerIsNotShown(t *testing.T) {
	block := "<<REASONING>>" + thought + "<</REASONING>>"
	for name, c := range map[string]struct {
		cfg   fake.Config
		reply fake.Reply
		tools []chattemplate.Tool
	}{
		"harmony": {fake.Config{}, fake.Reply{After: ask("q") + finalTag,
			Say: block + "four " + block + "five<|return|>"}, nil},
		"harmony with a function": {fake.Config{}, fake.Reply{After: ask("q"),
			Say: preambleTag + "See " + block + "so<|end|>" + again + addCall + `{"a":2}<|call|>`}, addTool},
		"tags": {thinkModel(), fake.Reply{After: "<think>\n\n</think>\n\n",
			Say: block + "four " + block + "five<|im_end|>"}, nil},
	} {
		f := start(t, c.cfg, Config{}, c.reply)
		for n := 1; n < 80; n++ {
			req := user("q")
			req.Strategy, req.MaxTokens, req.AnswerReserve, req.Tools = reasoning.StrategyMarkers, n, -1, c.tools
			g := f.must(t, req)
			if seen := g.text[reasoning.Answer] + g.text[reasoning.Preamble]; strings.ContainsAny(seen, "<>") ||
				strings.Contains(seen, "two") {
				t.Errorf("%s, %d tokens: the caller sees %q", name, n, seen)
			}
		}
	}
}

// TestMarkersAreFoundUnderEveryVisibility: whether marked reasoning is taken apart must not depend on who may see it.
func TestMarkersAreFoundUnderEveryVisibility(t *testing.T) {
	for _, strategy := range []reasoning.Strategy{reasoning.StrategyAuto, reasoning.StrategyNative,
		reasoning.StrategyPosthoc} {
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			const says = "<<REASONING>>\nI add them.\n<</REASONING>>\nIt is 4.<|return|>"
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?") + finalTag, Say: says},
				fake.Reply{After: ask("2+2?"), Say: finalTag + says})
			req := user("2+2?")
			req.Strategy, req.Visibility = strategy, v
			g := f.must(t, req)
			if text := g.text[reasoning.Answer]; text != "It is 4." {
				t.Errorf("%s, visibility %s: the answer is %q", strategy, v, text)
			}
		}
	}
}

// TestObjectWithoutReasoningIsNotAskedFor: a model that is told to reason and may not would reason in its answer.
func TestObjectWithoutReasoningIsNotAskedFor(t *testing.T) {
	for _, effort := range []reasoning.Effort{reasoning.EffortDefault, reasoning.EffortNone} {
		f := start(t, fake.Config{}, Config{})
		req := user("2+2?")
		req.Strategy, req.Effort = reasoning.StrategyJSON, effort
		p, err := f.Prompt(t.Context(), "", req)
		if asked := strings.Contains(p.Text, "think the problem through"); err != nil ||
			asked != (effort != reasoning.EffortNone) {
			t.Errorf("effort %q: %v, asked to reason: %t", effort, err, asked)
		}
	}
}

// TestCutHeaderIsNoAnswer: a word that may begin a header is not shown where the output is cut.
func TestCutHeaderIsNoAnswer(t *testing.T) {
	for _, most := range []int{1, 2, 3, 4, 5, 6} {
		f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
			Say: " to=functions.add<|channel|>commentary<|message|>{}<|call|>"})
		req := user("2+2?")
		req.Tools, req.MaxTokens, req.AnswerReserve, req.Strategy = addTool, most, -1, reasoning.StrategyTool
		if g := f.must(t, req); g.text[reasoning.Answer] != "" {
			t.Errorf("after %d tokens the answer is %q", most, g.text[reasoning.Answer])
		}
	}
}

// TestMarkersAreFoundInACall has a model reason between markers in the arguments of a call. Only visibility full shows
// it, and no later prompt may meet its tokens.
func TestMarkersAreFoundInACall(t *testing.T) {
	block := "<<REASONING>>" + thought + "<</REASONING>>"
	tools := []chattemplate.Tool{{Name: "add", Parameters: []byte(
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`)}}
	for name, c := range map[string]struct {
		arguments, want string
	}{
		"a block":           {`{"a":"x` + block + `y"}`, `{"a":"xy"}`},
		"a block of no end": {`{"a":"x<<REASONING>>` + thought + `","b":2}`, `{"a":"x","b":2}`},
		"escaped markers":   {`{"a":"x\u003c<REASONING>>` + thought + `<<\/REASONING>>y"}`, `{"a":"xy"}`},
	} {
		f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"),
			Say: strings.TrimPrefix(again, "<|start|>assistant") + addCall + c.arguments + "<|call|>"})
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			req := user("q")
			req.Tools, req.Strategy, req.Visibility, req.MaxTokens = tools, reasoning.StrategyMarkers, v, 300
			req.MaySee = v
			g := f.must(t, req)
			g.want(t, reasoning.ToolCall, c.want)
			if shows := g.text[reasoning.Reasoning] == thought; shows != (v == reasoning.VisibilityFull) {
				t.Errorf("%s, %v: the reasoning is %q", name, v, g.text[reasoning.Reasoning])
			}
			if n := g.result.Usage.Reasoning; n < len(strings.Fields(thought)) || n >= g.result.Usage.Completion {
				t.Errorf("%s, %v: %d tokens of reasoning", name, v, n)
			}
			if g.result.Finish != reasoning.FinishToolCalls {
				t.Errorf("%s, %v: finished with %v", name, v, g.result.Finish)
			}
		}
	}
}
