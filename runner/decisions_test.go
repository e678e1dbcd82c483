package runner

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/reasoning/prompts"
)

// traced runs a request and returns its reply and the text of all its events.
func traced(t *testing.T, f fixture, req generation.Request) (generation.Reply, string) {
	t.Helper()
	var c generation.Collector
	var all strings.Builder
	for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
		if err != nil {
			t.Fatal(err)
		}
		c.Push(e)
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return c.Reply(), all.String()
}

const because = `<rationale call="1">{"why":"canary in a coal mine"}</rationale>`

func TestRationaleOfHarmonyCall(t *testing.T) {
	f := start(t, fake.Config{}, Config{CallMemory: NewCallMemory(4, 0)},
		fake.Reply{Prompt: "<rationale call=", After: ask("2+2?"),
			Say: "<|channel|>analysis<|message|>I assume that two is a number. " + because + "<|end|>" + again +
				"<|channel|>commentary<|message|>" + because + "I add.<|end|>" + again +
				"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull} {
		req := user("2+2?")
		req.Tools, req.Visibility, req.Rationale = addTool, v, true
		reply, all := traced(t, f, req)
		if reply.Preamble != "I add." || len(reply.Calls) != 1 || reply.Result.Rationale == nil ||
			*reply.Result.Rationale != (reasoning.RationaleCount{Stated: 1}) {
			t.Errorf("%v: %+v %+v", v, reply, reply.Result)
		}
		if v != reasoning.VisibilityFull {
			if strings.Contains(all, "canary") || strings.Contains(all, "two is") || reply.Decisions != nil ||
				reply.Assumptions != nil {
				t.Errorf("%v shows %s", v, all)
			}
			continue
		}
		if strings.Contains(reply.Reasoning, "rationale") ||
			!reflect.DeepEqual(reply.Assumptions, []reasoning.Assumption{{Text: "two is a number"}}) {
			t.Errorf("%q %+v", reply.Reasoning, reply.Assumptions)
		}
		if b, _ := json.Marshal(reply.Decisions); string(b) != `[{"iteration":1,"decision":"tool-selection",`+
			`"toolName":"add","rationale":{"why":"canary in a coal mine"}},`+
			`{"iteration":1,"decision":"termination:tool_calls",`+
			`"rationale":{"why":"the model called tools and waits for their results"}}]` {
			t.Errorf("decisions %s", b)
		}
	}
}

// TestWithoutRationaleNothingIsAsked checks that the prompt is unchanged, and that blocks are ordinary text.
func TestWithoutRationaleNothingIsAsked(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"), Say: think(thought, because+"four")})
	req := user("2+2?")
	req.Tools, req.Visibility = addTool, reasoning.VisibilityFull
	plain, err := f.Prompt(t.Context(), "", req)
	if err != nil || strings.Contains(plain.Text, "rationale") {
		t.Errorf("%v %s", err, plain.Text)
	}
	reply, _ := traced(t, f, req)
	if reply.Answer != because+"four" || reply.Result.Rationale != nil || reply.Info.Iteration != 0 {
		t.Errorf("%+v", reply)
	}
	req.Rationale, req.Tools = true, nil
	if reply, _ := traced(t, f, req); reply.Answer != "four" || *reply.Result.Rationale != (reasoning.RationaleCount{}) {
		t.Errorf("%+v", reply)
	}
}

func TestMissingRationaleIsCounted(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Tools, req.Rationale, req.Visibility, req.Strategy = addTool, true, reasoning.VisibilityFull,
		reasoning.StrategyNative
	reply, _ := traced(t, f, req)
	if *reply.Result.Rationale != (reasoning.RationaleCount{Missing: 1}) {
		t.Errorf("%+v", reply.Result)
	}
	for _, d := range reply.Decisions {
		if d.Decision == reasoning.DecisionToolSelection {
			t.Errorf("a reason was made up: %+v", d)
		}
	}
}

func TestIterationAndCurator(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: "tool says 4<|end|>" + again, Say: think("", "It is 4.")})
	req := user("first")
	req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: "1",
		Reasoning: "long ago", Unseen: chattemplate.UnseenReasoning},
		chattemplate.Message{Role: chattemplate.User, Content: "2+2?"},
		chattemplate.Message{Role: chattemplate.Assistant,
			ToolCalls: []chattemplate.ToolCall{{ID: "c", Name: "add", Arguments: "{}"}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "c", ToolName: "add", Content: "tool says 4"})
	req.Tools, req.Rationale, req.Visibility = addTool, true, reasoning.VisibilityFull
	reply, all := traced(t, f, req)
	if reply.Info.Iteration != 2 || strings.Contains(all, "long ago") ||
		!strings.Contains(all, `"code":"history-analysis-dropped"`) {
		t.Errorf("%+v %s", reply.Info, all)
	}
	d := reply.Decisions
	if len(d) == 0 || d[0].Decision != "curator-dropped" || d[0].Iteration != 2 ||
		!reflect.DeepEqual(d[0].Rationale.Refs, []string{"history-analysis"}) {
		t.Errorf("%+v", d)
	}
	req.KeepReasoning = true
	if _, all := traced(t, f, req); strings.Contains(all, "curated") {
		t.Errorf("%s", all)
	}
}

func TestRationaleBesideArguments(t *testing.T) {
	turn := "q<|im_end|>\n<|im_start|>assistant\n"
	cfg := thinkModel()
	cfg.ChatTemplate = `{% if tools %}{{ tools|tojson }}{% endif %}` + cfg.ChatTemplate
	f := start(t, cfg, Config{}, fake.Reply{After: turn,
		Say: "<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}, \"rationale\": " +
			"{\"why\": \"it adds\"}}\n</tool_call><|im_end|>"})
	req := user("q")
	req.Tools, req.Rationale, req.Visibility = addTool, true, reasoning.VisibilityFull
	req.Messages = append([]chattemplate.Message{{Role: chattemplate.System, Content: "s"}}, req.Messages...)
	reply, _ := traced(t, f, req)
	if len(reply.Calls) != 1 || len(reply.Decisions) == 0 || reply.Decisions[0].Rationale.Why != "it adds" {
		t.Errorf("%+v", reply)
	}
}

// TestSummariesDoNotQuoteReasons checks the limit on quotations for reasons too: the summary pass reads them as part
// of the reasoning.
func TestSummariesDoNotQuoteReasons(t *testing.T) {
	secret := strings.Repeat("one two three four five ", 5) + "six"
	block := `<rationale call="1">{"why":"` + secret + `"}</rationale>`
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"), Say: think("I think. "+block, "four")},
		summaryReply(prompts.SummaryConciseV1, secret))
	req := user("2+2?")
	req.Rationale, req.Visibility = true, reasoning.VisibilitySummary
	reply, all := traced(t, f, req)
	words := strings.Fields(secret)
	limit := filter.QuoteLimit(len(words) + 3) // with "I think" and the name of the member
	quote := strings.Join(words[:limit+1], " ")
	if reply.Answer != "four" || strings.Contains(all, secret) || strings.Contains(reply.Summary, quote) {
		t.Errorf("%q %s", reply.Summary, all)
	}
}
