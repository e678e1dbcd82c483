package runner

import (
	"encoding/json"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// reportTool is the function of strategy tool, by which the model says what it thinks.
func reportTool() chattemplate.Tool {
	return chattemplate.Tool{
		Name: reasoning.ReportReasoningName, Description: prompts.ReportDescriptionV1,
		Parameters: json.RawMessage(prompts.ReportParametersV1), Strict: true,
	}
}

// maxReports is how many calls of report_reasoning a run goes on from.
const maxReports = 4

// reported goes on after a call of report_reasoning, whose result says nothing. It reports whether the run goes on.
//
// The conversation is rendered again with the call and its result, and a new lane takes the run on from there; what
// the old one held is in the prefix cache.
func (t *turn) reported(l *lane) bool {
	if t.reports++; t.reports > maxReports {
		return false
	}
	t.reasoned = len(l.tokens) - 1
	t.beginSummary()
	arguments, err := json.Marshal(map[string]string{"reasoning": t.output.thoughts.String()})
	if err != nil {
		return false
	}
	call := chattemplate.ToolCall{ID: "report", Name: reasoning.ReportReasoningName, Arguments: string(arguments)}
	conv := t.conv
	conv.Messages = append(conv.Messages[:len(conv.Messages):len(conv.Messages)],
		chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{call}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: call.ID, ToolName: call.Name, Content: "{}"})
	p, err := t.r.family.Render(conv)
	if err != nil {
		t.output.warn("report_unanswered", "the model's format has no place for the result of a call")
		return false
	}
	if len(p.Tokens) >= t.r.info.ContextSize {
		t.full(l)
		return true
	}
	l.done = true
	if err := t.model.Resume(&p); err != nil {
		t.failed(l, err)
		return true
	}
	next := &lane{ctx: l.ctx, owner: t, principal: l.principal, tokens: p.Tokens}
	t.lane = next
	t.follow(next)
	t.r.sched.add(next, true)
	return true
}
