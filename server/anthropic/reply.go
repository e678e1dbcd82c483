package anthropic

import (
	"encoding/json"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
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
	Warnings []wire.Warning `json:"warnings,omitempty"`
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
	// The reasoning or its summary. It is empty if only the sealed reasoning was asked for.
	Thinking string `json:"thinking"`
	// The sealed reasoning up to here. Send it back with the block.
	Signature string `json:"signature"`
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
