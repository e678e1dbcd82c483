package runner

import (
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
