package anthropic

import (
	"encoding/json"
	"strings"

	"runner/reasoning"
	"runner/server/internal/contract"
)

// Message is the answer to POST /v1/messages.
//
//openapi:answer Message
type Message struct {
	// The id of the answer.
	ID string `json:"id"`
	// The type of this object.
	Type string `json:"type" api:"=message"`
	// The author's role.
	Role string `json:"role" api:"=assistant"`
	// The name of the model as it was in the request.
	Model string `json:"model"`
	// The blocks of the answer.
	Content    []any  `json:"content" api:"[]#ContentBlock"`
	StopReason string `json:"stop_reason" api:"#StopReason"`
	// The stop sequence that ended the answer, if one did.
	StopSequence *string `json:"stop_sequence"`
	// Always null.
	StopDetails *struct{} `json:"stop_details" api:"null"`
	Usage       Usage     `json:"usage"`
	// The settings of the reasoning that were used.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// What was not done as requested, and what was wrong with the model's output. Absent if there is nothing to report.
	Warnings []Warning `json:"warnings,omitempty"`
}

// TextBlock is text for the user.
//
//openapi:answer TextBlock
type TextBlock struct {
	// The type of this object.
	Type string `json:"type" api:"=text"`
	// The text.
	Text string `json:"text"`
}

// ThinkingBlock is reasoning, or its summary.
//
//openapi:answer ThinkingBlock
type ThinkingBlock struct {
	// The type of this object.
	Type string `json:"type" api:"=thinking"`
	// The reasoning or its summary.
	Thinking string `json:"thinking"`
	// The sealed reasoning. Send it back with the block.
	Signature string `json:"signature"`
}

// RedactedThinkingBlock is reasoning that is not shown.
//
//openapi:answer RedactedThinkingBlock
type RedactedThinkingBlock struct {
	// The type of this object.
	Type string `json:"type" api:"=redacted_thinking"`
	// The sealed reasoning, of which no text is shown. Send it back with the block.
	Data string `json:"data"`
}

// ToolUseBlock is a call of a tool.
//
//openapi:answer ToolUseBlock
type ToolUseBlock struct {
	// The type of this object.
	Type string `json:"type" api:"=tool_use"`
	// The id of the call.
	ID string `json:"id"`
	// The name of the tool.
	Name string `json:"name"`
	// The arguments. If the model did not write an object, this is a string with what it wrote.
	Input json.RawMessage `json:"input" api:"{}|string"`
}

// Usage counts tokens.
//
//openapi:answer MessagesUsage
type Usage struct {
	// The tokens of the prompt that were not in the cache.
	InputTokens int `json:"input_tokens"`
	// The tokens of the prompt that were in the cache.
	CacheReadInputTokens int `json:"cache_read_input_tokens"`
	// Always 0.
	CacheCreationInputTokens int `json:"cache_creation_input_tokens" api:"=0"`
	// The generated tokens, including reasoning. The summary is not counted.
	OutputTokens int `json:"output_tokens"`
	// Details about the generated tokens.
	OutputTokensDetails OutputTokensDetails `json:"output_tokens_details"`
}

// OutputTokensDetails counts tokens by purpose.
//
//openapi:answer
type OutputTokensDetails struct {
	// The tokens of the reasoning, whether it was shown or not.
	ThinkingTokens int `json:"thinking_tokens"`
	// The tokens of the summary. They are not part of `output_tokens`.
	SummaryTokens int `json:"summary_tokens"`
}

// TokenCount is the answer to POST /v1/messages/count_tokens.
//
//openapi:answer TokenCount
type TokenCount struct {
	// The tokens of the whole prompt, cached or not.
	InputTokens int `json:"input_tokens"`
}

// Warning says what was not done as requested, or what was wrong with the model's output.
//
//openapi:answer Warning
type Warning struct {
	// The kind of warning, for programs.
	Code string `json:"code" api:"example=malformed_arguments"`
	// A message for people. It contains none of the model's text.
	Message string `json:"message"`
}

// reply holds what a reply has in addition to the results of its run.
type reply struct {
	id, model string
	warnings  []Warning
}

func usageOf(u reasoning.Usage) Usage {
	return Usage{
		InputTokens: u.Prompt - u.Cached, CacheReadInputTokens: u.Cached, OutputTokens: u.Completion,
		OutputTokensDetails: OutputTokensDetails{ThinkingTokens: u.Reasoning, SummaryTokens: u.Summary},
	}
}

// stopReason returns the format's word for why a run ended.
func stopReason(r *reasoning.Result) string {
	switch {
	case r.StopString != "":
		return "stop_sequence"
	case r.Finish == reasoning.FinishToolCalls:
		return "tool_use"
	case r.Finish == reasoning.FinishLength && r.Detail == reasoning.DetailContextFull:
		return "model_context_window_exceeded"
	case r.Finish == reasoning.FinishLength:
		return "max_tokens"
	}
	return "end_turn"
}

// collector is the sink of a reply that is not streamed.
type collector struct {
	reply
	content  []any
	kind     blockKind
	call     reasoning.Call
	buf      strings.Builder
	info     *reasoning.Info
	result   *reasoning.Result
	warnings []Warning
}

func (c *collector) open(kind blockKind, call reasoning.Call) {
	c.kind, c.call = kind, call
	c.buf.Reset()
}

func (c *collector) text(s string) { c.buf.WriteString(s) }

func (c *collector) close(signature string) {
	text := c.buf.String()
	switch c.kind {
	case textBlock:
		c.content = append(c.content, TextBlock{"text", text})
	case thinkingBlock:
		c.content = append(c.content, ThinkingBlock{"thinking", text, signature})
	case redactedBlock:
		c.content = append(c.content, RedactedThinkingBlock{"redacted_thinking", signature})
	case toolBlock:
		if !json.Valid([]byte(text)) { // possible with eager_input_streaming
			text = inputOf([]byte(text))
		}
		c.content = append(c.content, ToolUseBlock{"tool_use", c.call.ID, c.call.Name, json.RawMessage(text)})
	}
}

func (c *collector) finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning) {
	c.info, c.result, c.warnings = info, r, warnings
}

// message returns the reply after the run.
func (c *collector) message() Message {
	m := Message{
		ID: c.id, Type: "message", Role: "assistant", Model: c.model, Content: c.content,
		StopReason: stopReason(c.result), Usage: usageOf(c.result.Usage),
		ReasoningInfo: contract.InfoOf(c.info), Warnings: c.warnings,
	}
	if m.Content == nil {
		m.Content = []any{}
	}
	if c.result.StopString != "" {
		m.StopSequence = &c.result.StopString
	}
	return m
}
