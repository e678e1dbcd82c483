package runner

import (
	"bytes"
	"encoding/json"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// reportTool returns the function of strategy tool. The model calls it to report its reasoning.
func reportTool() chattemplate.Tool {
	return chattemplate.Tool{
		Name: reasoning.ReportReasoningName, Description: prompts.ReportDescriptionV1,
		Parameters: json.RawMessage(prompts.ReportParametersV1), Strict: true,
	}
}

// maxReports is the maximum number of calls of report_reasoning in a turn. The turn ends with the next one.
const maxReports = 4

// reported continues the turn after a call of report_reasoning. If it returns false, the caller must end the turn.
//
// The conversation is rendered again with the call and an empty result. A new lane continues from there. The prefix
// cache keeps what the old lane held.
func (t *turn) reported(l *lane) bool {
	if t.reports++; t.reports > maxReports {
		return false
	}
	t.reasoned = len(l.tokens) - 1
	t.beginSummary()
	var arguments bytes.Buffer
	e := json.NewEncoder(&arguments)
	e.SetEscapeHTML(false) // the number of tokens must not say whether the text has such characters
	if err := e.Encode(map[string]string{"reasoning": t.output.thoughts.String()}); err != nil {
		return false
	}
	call := chattemplate.ToolCall{ID: "report", Name: reasoning.ReportReasoningName,
		Arguments: strings.TrimSuffix(arguments.String(), "\n")}
	conv := t.conv
	conv.Messages = append(conv.Messages[:len(conv.Messages):len(conv.Messages)],
		chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{call},
			Unseen: chattemplate.UnseenCalls},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: call.ID, ToolName: call.Name, Content: "{}"})
	p, err := t.r.family.Render(conv)
	if err != nil {
		t.warn(generation.CodeReportUnanswered,
			"the model's format does not allow a result for the call of report_reasoning")
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
	next := t.newLane(&p, len(p.Tokens)+smallRun)
	if t.lane = next; t.pass != nil {
		t.pass.lane.beside = next
	}
	t.follow(next)
	t.r.sched.add(next, true)
	return true
}
