package runner

import (
	"encoding/json"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
)

func TestEffortNoneWithToolsStillCalls(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|end|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>", Say: "commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>commentary", Say: " to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Effort, req.Tools, req.Visibility = chattemplate.EffortNone, addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	if g.result.Finish == reasoning.FinishToolCalls {
		g.want(t, reasoning.ToolCall, `{"a":2}`)
	} else {
		// The script's vote for the analysis channel was refused; what the noise chose must still be a legal header.
		g.want(t, reasoning.ToolCall, "")
	}
	if g.result.Usage.Reasoning != 0 {
		t.Errorf("usage %+v", g.result.Usage)
	}
}

func TestToolCall(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Tools, req.Visibility = addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.ToolCall, `{"a":2}`)
	g.want(t, reasoning.Reasoning, "use it")
	if g.result.Finish != reasoning.FinishToolCalls || len(g.calls) != 1 || g.calls[0].Name != "add" || g.calls[0].ID == "" {
		t.Errorf("%+v %+v", g.result, g.calls)
	}
}

func TestHiddenReasoningOfPendingCallsComesBack(t *testing.T) {
	call := "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"
	f := start(t, fake.Config{}, Config{CallMemory: 2},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant" + call},
		fake.Reply{Prompt: "use it", After: "tool says 4<|end|>" + again, Say: think("", "It is 4.")},
		fake.Reply{After: "tool says 4<|end|>" + again, Say: think("", "I forgot why.")})
	req := user("2+2?")
	req.Tools = addTool
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	req.Messages = append(req.Messages,
		chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: g.calls[0].ID, Name: "add", Arguments: g.text[reasoning.ToolCall]}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: g.calls[0].ID, ToolName: "add", Content: "tool says 4"})
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "It is 4.")
	if req.Messages[1].Reasoning != "" {
		t.Error("the caller's message was changed")
	}
}

// TestADemandedCallIsACall: a model that writes at random and has to call does so at once, and with an object for arguments, although nothing is
// asked of them.
func TestADemandedCallIsACall(t *testing.T) {
	r := start(t, fake.Config{ContextSize: 1024}, Config{})
	whole := 0
	for seed := range uint64(24) {
		req := user("a")
		req.Tools = []chattemplate.Tool{{Name: "f"}, {Name: "g"}}
		req.ToolChoice, req.Seed, req.MaxTokens, req.Budget = ToolChoiceRequired, &seed, 600, 20
		if seed%2 == 0 {
			req.ToolChoice, req.ToolName = ToolChoiceFunction, "g"
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
