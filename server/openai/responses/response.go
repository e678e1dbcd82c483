package responses

import (
	"encoding/json"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Response is the answer to a request.
//
//openapi:answer Response
type Response struct {
	// The id of the response.
	ID string `json:"id"`
	// The type of this object.
	Object string `json:"object" api:"=response"`
	// When the server received the request, in seconds since 1970.
	CreatedAt int64 `json:"created_at"`
	// When the response was completed, in seconds since 1970. Null unless the status is `completed`.
	CompletedAt *int64 `json:"completed_at"`
	// The state of the response.
	Status string `json:"status" api:"=queued,in_progress,completed,incomplete,failed,cancelled"`
	// Whether it goes on without the client.
	Background bool `json:"background"`
	// Why the response failed.
	Error *Failure `json:"error"`
	// Why the response is incomplete.
	IncompleteDetails *IncompleteDetails `json:"incomplete_details"`
	// The items that the model generated.
	Output []Item `json:"output" api:"[]#ResponseItem"`
	// The token counts. Null until the response has ended.
	Usage *Usage `json:"usage"`

	// The fields from here on repeat the request. For fields that it left out, they have the values that were used.

	// As in the request.
	Instructions *string `json:"instructions"`
	// As in the request.
	MaxOutputTokens *int `json:"max_output_tokens"`
	// As in the request.
	MaxToolCalls *int `json:"max_tool_calls"`
	// As in the request.
	Metadata map[string]string `json:"metadata" api:"{string}"`
	// The name of the model.
	Model string `json:"model"`
	// Whether the model may make several calls.
	ParallelToolCalls bool `json:"parallel_tool_calls"`
	// The id of the response that this one continues.
	PreviousResponseID *string `json:"previous_response_id"`
	// As in the request.
	PromptCacheKey *string `json:"prompt_cache_key"`
	// The settings for the reasoning that were used.
	Reasoning ReasoningEcho `json:"reasoning"`
	// As in the request.
	SafetyIdentifier *string `json:"safety_identifier"`
	// Always `default`.
	ServiceTier string `json:"service_tier" api:"=default"`
	// Whether the response is stored.
	Store bool `json:"store"`
	// The value that was used.
	Temperature float64 `json:"temperature"`
	// As in the request.
	Text TextEcho `json:"text"`
	// As in the request.
	ToolChoice json.RawMessage `json:"tool_choice" api:"string|{}"`
	// The functions that the model was offered.
	Tools []*FunctionTool `json:"tools" api:"[]#ResponseEchoedTool"`
	// As in the request.
	TopLogprobs int `json:"top_logprobs"`
	// The value that was used.
	TopP float64 `json:"top_p"`
	// The value that was used.
	Truncation string `json:"truncation" api:"=disabled,auto"`
	// As in the request.
	User *string `json:"user"`

	// The fields from here on are not OpenAI's.

	// The settings of the reasoning that are used.
	ReasoningInfo *ReasoningInfo `json:"reasoning_info,omitempty"`
	FinishDetail  string         `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID       string         `json:"trace_id,omitempty" api:"#TraceID"`
	// True if reasoning was requested and the model gave none.
	ReasoningUnavailable bool                 `json:"reasoning_unavailable,omitempty"`
	SummarySource        string               `json:"reasoning_summary_source,omitempty" api:"#SummarySource"`
	Score                *float64             `json:"score,omitempty" api:"#Score"`
	Rationale            []reasoning.Decision `json:"rationale,omitempty" api:"#Decisions"`
	// What was not done as requested, and what was wrong with the model's output.
	Warnings []wire.Warning `json:"warnings,omitempty"`
}

// Failure says why a response failed.
//
//openapi:answer ResponseFailure
type Failure struct {
	// The kind of failure.
	Code string `json:"code" api:"=server_error,rate_limit_exceeded,context_length_exceeded,invalid_prompt"`
	// A message for people.
	Message string `json:"message"`
}

// IncompleteDetails says why a response is incomplete.
//
//openapi:answer ResponseIncomplete
type IncompleteDetails struct {
	// The limit was reached: that of the request, or the length of the context.
	Reason string `json:"reason" api:"=max_output_tokens"`
}

// Usage counts tokens.
//
//openapi:answer ResponseUsage
type Usage struct {
	// The tokens of the prompt.
	InputTokens int `json:"input_tokens"`
	// Details about the prompt.
	InputTokensDetails struct {
		// The tokens of the prompt that were in the cache.
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// The generated tokens, including reasoning. The summary is not counted.
	OutputTokens int `json:"output_tokens"`
	// Details about the generated tokens.
	OutputTokensDetails struct {
		// The tokens of the reasoning, whether it was shown or not.
		ReasoningTokens int `json:"reasoning_tokens"`
		// The tokens of the summary. They are not part of `output_tokens`.
		SummaryTokens int `json:"summary_tokens"`
	} `json:"output_tokens_details"`
	// The sum of the prompt's and the generated tokens.
	TotalTokens int `json:"total_tokens"`
}

func newUsage(u reasoning.Usage) *Usage {
	w := &Usage{InputTokens: u.Prompt, OutputTokens: u.Completion, TotalTokens: u.Prompt + u.Completion}
	w.InputTokensDetails.CachedTokens = u.Cached
	w.OutputTokensDetails.ReasoningTokens, w.OutputTokensDetails.SummaryTokens = u.Reasoning, u.Summary
	return w
}

// ReasoningEcho is the field reasoning of a response.
//
//openapi:answer
type ReasoningEcho struct {
	// The effort that was used. Null if the request had none.
	Effort *string `json:"effort" api:"=none,minimal,low,medium,high|null"`
	// The length of the summary. Null if the request had none.
	Summary *string `json:"summary" api:"=auto,concise,detailed|null"`
}

// TextEcho is the field text of a response.
//
//openapi:answer
type TextEcho struct {
	Format json.RawMessage `json:"format" api:"#ResponseTextFormatEcho"`
	// As in the request.
	Verbosity *string `json:"verbosity,omitempty"`
}

// ReasoningInfo has the settings of the reasoning that are used for a run.
//
//openapi:answer ResponseReasoningInfo
type ReasoningInfo struct {
	contract.ReasoningInfo
	// The effort that is used. Empty if it is the model's default and the default has no name.
	Effort string `json:"effort" api:"=,none,minimal,low,medium,high"`
}

func newInfo(i *reasoning.Info) *ReasoningInfo {
	return &ReasoningInfo{*contract.InfoOf(i), string(i.Effort)}
}

// The codes of this package's own warnings.
const (
	// CodeToolSkipped: a tool is of a type that this server does not run.
	CodeToolSkipped = "tool_skipped"
	// CodeItemSkipped: an input item of an unknown type was left out.
	CodeItemSkipped = "item_skipped"
	// CodeIncludeIgnored: include has an unknown name.
	CodeIncludeIgnored = "include_ignored"
	// CodeTruncated: the oldest part of the conversation was left out so that the rest fits into the context.
	CodeTruncated = "input_truncated"
	// CodeStrictUnavailable: calls of a function cannot be made to match its parameters, and it did not ask for that.
	CodeStrictUnavailable = "strict_unavailable"
	// CodeNotStored: the response is too large for the store, so its id cannot be used.
	CodeNotStored = "not_stored"
)
