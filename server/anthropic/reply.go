package anthropic

import (
	"encoding/json"
	"strings"

	"runner/reasoning"
	"runner/server/internal/contract"
)

// Message is the answer to POST /v1/messages.
type Message struct {
	ID string `json:"id"`
	// Type is "message" and Role "assistant".
	Type string `json:"type"`
	Role string `json:"role"`
	// Model is the model as the request named it.
	Model string `json:"model"`
	// Content is a list of TextBlock, ThinkingBlock, RedactedThinkingBlock and ToolUseBlock values.
	Content []any `json:"content"`
	// StopReason is end_turn, max_tokens, stop_sequence, tool_use or model_context_window_exceeded.
	StopReason string `json:"stop_reason"`
	// StopSequence is the stop sequence that ended the answer, else null.
	StopSequence *string `json:"stop_sequence"`
	// StopDetails is always null: in Anthropic's API it says why an answer was refused.
	StopDetails *struct{} `json:"stop_details"`
	Usage       Usage     `json:"usage"`
	// ReasoningInfo says which settings were in effect. In a stream it is in message_delta.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// Warnings say what was not done as requested; left out if there are none. In a stream they are in message_delta.
	Warnings []Warning `json:"warnings,omitempty"`
}

// TextBlock is text for the user.
type TextBlock struct {
	// Type is "text".
	Type string `json:"type"`
	Text string `json:"text"`
}

// ThinkingBlock is reasoning, or its summary.
type ThinkingBlock struct {
	// Type is "thinking".
	Type     string `json:"type"`
	Thinking string `json:"thinking"`
	// Signature is for the client to send back with the block.
	Signature string `json:"signature"`
}

// RedactedThinkingBlock is reasoning that is not shown.
type RedactedThinkingBlock struct {
	// Type is "redacted_thinking".
	Type string `json:"type"`
	// Data is for the client to send back.
	Data string `json:"data"`
}

// ToolUseBlock is a call.
type ToolUseBlock struct {
	// Type is "tool_use".
	Type string `json:"type"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input is an object, or a string if the model wrote something else.
	Input json.RawMessage `json:"input"`
}

// Usage counts tokens.
type Usage struct {
	// InputTokens counts the tokens of the prompt that were not in the cache, CacheReadInputTokens those that were.
	InputTokens          int `json:"input_tokens"`
	CacheReadInputTokens int `json:"cache_read_input_tokens"`
	// CacheCreationInputTokens is always 0: caching a prompt costs nothing here.
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	// OutputTokens counts all generated tokens, reasoning included, without the summary.
	OutputTokens        int                 `json:"output_tokens"`
	OutputTokensDetails OutputTokensDetails `json:"output_tokens_details"`
}

// OutputTokensDetails counts tokens by purpose.
type OutputTokensDetails struct {
	// ThinkingTokens counts those of the reasoning, shown or not.
	ThinkingTokens int `json:"thinking_tokens"`
	// SummaryTokens counts those of the summary. They are not part of OutputTokens.
	SummaryTokens int `json:"summary_tokens"`
}

// TokenCount is the answer to POST /v1/messages/count_tokens.
type TokenCount struct {
	// InputTokens is the length of the whole prompt.
	InputTokens int `json:"input_tokens"`
}

// Warning says what was not done as requested.
type Warning struct {
	Code    string `json:"code"`
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
