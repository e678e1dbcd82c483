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
	// Names the answer.
	ID string `json:"id"`
	// What this is.
	Type string `json:"type" api:"=message"`
	// Who says it.
	Role string `json:"role" api:"=assistant"`
	// The model, as the request named it.
	Model string `json:"model"`
	// The answer's blocks.
	Content    []any  `json:"content" api:"[]#ContentBlock"`
	StopReason string `json:"stop_reason" api:"#StopReason"`
	// The one that ended the answer.
	StopSequence *string `json:"stop_sequence"`
	// Always null.
	StopDetails   *struct{}               `json:"stop_details" api:"null"`
	Usage         Usage                   `json:"usage"`
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// What is not as it was asked for; left out when there is nothing.
	Warnings []Warning `json:"warnings,omitempty"`
}

// TextBlock is text for the user.
//
// Text for the user.
//
//openapi:answer TextBlock
type TextBlock struct {
	// What this is.
	Type string `json:"type" api:"=text"`
	// The text.
	Text string `json:"text"`
}

// ThinkingBlock is reasoning, or its summary.
//
// Reasoning, or its summary.
//
//openapi:answer ThinkingBlock
type ThinkingBlock struct {
	// What this is.
	Type string `json:"type" api:"=thinking"`
	// The text.
	Thinking string `json:"thinking"`
	// The sealed reasoning. Send it back with the block.
	Signature string `json:"signature"`
}

// RedactedThinkingBlock is reasoning that is not shown.
//
// Reasoning that is not shown.
//
//openapi:answer RedactedThinkingBlock
type RedactedThinkingBlock struct {
	// What this is.
	Type string `json:"type" api:"=redacted_thinking"`
	// The sealed reasoning. Send it back.
	Data string `json:"data"`
}

// ToolUseBlock is a call.
//
// A call.
//
//openapi:answer ToolUseBlock
type ToolUseBlock struct {
	// What this is.
	Type string `json:"type" api:"=tool_use"`
	// Names the call.
	ID string `json:"id"`
	// The tool.
	Name string `json:"name"`
	// The arguments, or as a string what the model wrote instead of an object.
	Input json.RawMessage `json:"input" api:"{}|string"`
}

// Usage counts tokens.
//
//openapi:answer MessagesUsage
type Usage struct {
	// Tokens of the prompt that the cache did not hold.
	InputTokens int `json:"input_tokens"`
	// Those that it held.
	CacheReadInputTokens int `json:"cache_read_input_tokens"`
	// Always 0.
	CacheCreationInputTokens int `json:"cache_creation_input_tokens" api:"=0"`
	// What was generated, reasoning included, the summary excluded.
	OutputTokens int `json:"output_tokens"`
	// More of what was generated.
	OutputTokensDetails OutputTokensDetails `json:"output_tokens_details"`
}

// OutputTokensDetails counts tokens by purpose.
//
//openapi:answer
type OutputTokensDetails struct {
	// Those that were reasoning, shown or not.
	ThinkingTokens int `json:"thinking_tokens"`
	// Those of the summary, on top of `output_tokens`.
	SummaryTokens int `json:"summary_tokens"`
}

// TokenCount is the answer to POST /v1/messages/count_tokens.
//
//openapi:answer TokenCount
type TokenCount struct {
	// The length of the whole prompt.
	InputTokens int `json:"input_tokens"`
}

// Warning says what was not done as requested.
//
// What is not as it was asked for, or what was odd about the model's output.
//
//openapi:answer Warning
type Warning struct {
	// The kind, for programs.
	Code string `json:"code" api:"example=malformed_arguments"`
	// For people. It holds nothing of the model's text.
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
