package responses

import (
	"encoding/json"

	"runner/reasoning"
)

// Response is the answer to a request.
//
//openapi:answer Response
type Response struct {
	// Names the response.
	ID string `json:"id"`
	// What this is.
	Object string `json:"object" api:"=response"`
	// When the request was taken, in seconds since 1970.
	CreatedAt int64 `json:"created_at"`
	// When it was completed; null unless the status is `completed`.
	CompletedAt *int64 `json:"completed_at"`
	// How far it is.
	Status string `json:"status" api:"=queued,in_progress,completed,incomplete,failed,cancelled"`
	// Whether it runs without the client.
	Background bool `json:"background"`
	// Why it failed.
	Error *Failure `json:"error"`
	// Why it is incomplete.
	IncompleteDetails *IncompleteDetails `json:"incomplete_details"`
	// The items.
	Output []Item `json:"output" api:"[]#ResponseItem"`
	// Counts of tokens; null until it is over.
	Usage *Usage `json:"usage"`

	// The fields from here on repeat the request, or have the values in effect for what it left out.

	// As requested.
	Instructions *string `json:"instructions"`
	// As requested.
	MaxOutputTokens *int `json:"max_output_tokens"`
	// As requested.
	MaxToolCalls *int `json:"max_tool_calls"`
	// As requested.
	Metadata map[string]string `json:"metadata" api:"{string}"`
	// The model's name.
	Model string `json:"model"`
	// Whether there may be several calls.
	ParallelToolCalls bool `json:"parallel_tool_calls"`
	// What it goes on from.
	PreviousResponseID *string `json:"previous_response_id"`
	// As requested.
	PromptCacheKey *string `json:"prompt_cache_key"`
	// What the request asked for, as far as it is in effect.
	Reasoning ReasoningEcho `json:"reasoning"`
	// As requested.
	SafetyIdentifier *string `json:"safety_identifier"`
	// Always `default`.
	ServiceTier string `json:"service_tier" api:"=default"`
	// Whether it is kept.
	Store bool `json:"store"`
	// In effect.
	Temperature float64 `json:"temperature"`
	// As requested.
	Text TextEcho `json:"text"`
	// As requested.
	ToolChoice json.RawMessage `json:"tool_choice" api:"string|{}"`
	// The functions that the model was offered.
	Tools []FunctionTool `json:"tools" api:"[]#ResponseEchoedTool"`
	// As requested.
	TopLogprobs int `json:"top_logprobs"`
	// In effect.
	TopP float64 `json:"top_p"`
	// In effect.
	Truncation string `json:"truncation" api:"=disabled,auto"`
	// As requested.
	User *string `json:"user"`

	// The fields from here on are not OpenAI's.

	ReasoningInfo *ReasoningInfo `json:"reasoning_info,omitempty"`
	FinishDetail  string         `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID       string         `json:"trace_id,omitempty" api:"#TraceID"`
	// True where reasoning was asked for and the model gave none.
	ReasoningUnavailable bool                 `json:"reasoning_unavailable,omitempty"`
	SummarySource        string               `json:"reasoning_summary_source,omitempty" api:"#SummarySource"`
	Score                *float64             `json:"score,omitempty" api:"#Score"`
	Rationale            []reasoning.Decision `json:"rationale,omitempty" api:"#Decisions"`
	// What is not as it was asked for.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Failure says why a response failed.
//
//openapi:answer ResponseFailure
type Failure struct {
	// The kind.
	Code string `json:"code" api:"=server_error,rate_limit_exceeded,context_length_exceeded,invalid_prompt"`
	// For people.
	Message string `json:"message"`
}

// IncompleteDetails says why a response is incomplete.
//
//openapi:answer ResponseIncomplete
type IncompleteDetails struct {
	// The limit, or that of the context.
	Reason string `json:"reason" api:"=max_output_tokens"`
}

// Usage counts tokens.
//
//openapi:answer ResponseUsage
type Usage struct {
	// The prompt.
	InputTokens int `json:"input_tokens"`
	// More of the prompt.
	InputTokensDetails struct {
		// How much of the prompt the cache held already.
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// What was generated, reasoning included, the summary excluded.
	OutputTokens int `json:"output_tokens"`
	// More of what was generated.
	OutputTokensDetails struct {
		// Those that were reasoning, shown or not.
		ReasoningTokens int `json:"reasoning_tokens"`
		// Those of the summary, on top of `output_tokens`.
		SummaryTokens int `json:"summary_tokens"`
	} `json:"output_tokens_details"`
	// The sum of both.
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
	// The effort in effect; null where the request named none.
	Effort *string `json:"effort" api:"=none,minimal,low,medium,high|null"`
	// The summary's length; null where none was said.
	Summary *string `json:"summary" api:"=auto,concise,detailed|null"`
}

// TextEcho is the field text of a response.
//
//openapi:answer
type TextEcho struct {
	Format json.RawMessage `json:"format" api:"#ResponseTextFormatEcho"`
	// As requested.
	Verbosity *string `json:"verbosity,omitempty"`
}

// ReasoningInfo has the settings in effect for a run.
//
// What is in effect.
//
//openapi:answer ResponseReasoningInfo
type ReasoningInfo struct {
	Visibility string `json:"visibility" api:"#Visibility"`
	// Empty where the model's default has no name.
	Effort string `json:"effort" api:"=,none,minimal,low,medium,high"`
	// Where reasoning comes from; empty for a model without any.
	Strategy string `json:"strategy"`
	// The seed that repeats this.
	Seed uint64 `json:"seed" api:"[0..18446744073709551615]"`
	// The most tokens of reasoning; left out for no limit.
	Budget int `json:"budget,omitempty"`
}

func newInfo(i *reasoning.Info) *ReasoningInfo {
	return &ReasoningInfo{
		Visibility: i.Visibility.String(), Effort: string(i.Effort), Strategy: string(i.Strategy), Seed: i.Seed,
		Budget: i.Budget,
	}
}

// Warning says what was left out of a request, or what was wrong with a model's output.
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
