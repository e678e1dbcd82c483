package responses

import (
	"encoding/json"

	"runner/reasoning"
)

// Response is the answer to a request.
type Response struct {
	// ID begins with resp_.
	ID string `json:"id"`
	// Object is response.
	Object string `json:"object"`
	// CreatedAt and CompletedAt are times in seconds since 1970; CompletedAt is null until the status is completed.
	CreatedAt   int64  `json:"created_at"`
	CompletedAt *int64 `json:"completed_at"`
	// Status is queued, in_progress, completed, incomplete, failed or cancelled.
	Status string `json:"status"`
	// Background says that it continues without the client.
	Background bool `json:"background"`
	// Error says why the status is failed; else it is null.
	Error *Failure `json:"error"`
	// IncompleteDetails says why the status is incomplete; else it is null.
	IncompleteDetails *IncompleteDetails `json:"incomplete_details"`
	// Output has the items in the order in which they began.
	Output []Item `json:"output"`
	// Usage is null until the run is over.
	Usage *Usage `json:"usage"`

	// The fields from here on repeat the request, or have the values in effect for what it left out.

	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	MaxToolCalls       *int              `json:"max_tool_calls"`
	Metadata           map[string]string `json:"metadata"`
	Model              string            `json:"model"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	PromptCacheKey     *string           `json:"prompt_cache_key"`
	Reasoning          ReasoningEcho     `json:"reasoning"`
	SafetyIdentifier   *string           `json:"safety_identifier"`
	ServiceTier        string            `json:"service_tier"`
	Store              bool              `json:"store"`
	Temperature        float64           `json:"temperature"`
	Text               TextEcho          `json:"text"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              []FunctionTool    `json:"tools"`
	TopLogprobs        int               `json:"top_logprobs"`
	TopP               float64           `json:"top_p"`
	Truncation         string            `json:"truncation"`
	User               *string           `json:"user"`

	// The fields from here on are not OpenAI's.

	// ReasoningInfo has the settings in effect.
	ReasoningInfo *ReasoningInfo `json:"reasoning_info,omitempty"`
	// FinishDetail is more exact than the status: reasoning_budget, answer_reserve, context_full or stop_string.
	FinishDetail string `json:"finish_detail,omitempty"`
	// TraceID is the id of the run's trace, if the request asks for one and it is stored.
	TraceID string `json:"trace_id,omitempty"`
	// ReasoningUnavailable says that the request asks for reasoning and the model gave none.
	ReasoningUnavailable bool `json:"reasoning_unavailable,omitempty"`
	// SummarySource is reasoning, or posthoc for a summary that explains the answer afterwards.
	SummarySource string `json:"reasoning_summary_source,omitempty"`
	// Score is the confidence that the model states, 0 to 1, with strategy json.
	Score *float64 `json:"score,omitempty"`
	// Rationale has the decisions of the run with their reasons, if the request asks for them, with visibility full.
	Rationale []reasoning.Decision `json:"rationale,omitempty"`
	// Warnings say what was left out of the request or what was wrong with the model's output.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Failure says why a response failed.
type Failure struct {
	// Code is server_error, rate_limit_exceeded, context_length_exceeded or invalid_prompt.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
}

// IncompleteDetails says why a response is incomplete.
type IncompleteDetails struct {
	// Reason is max_output_tokens, also if the context is full.
	Reason string `json:"reason"`
}

// Usage counts tokens.
type Usage struct {
	// InputTokens counts the tokens of the prompt.
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		// CachedTokens counts those that were already in the cache.
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// OutputTokens counts the generated tokens, reasoning included, without the summary.
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		// ReasoningTokens counts those of the reasoning, shown or not, and SummaryTokens those of its summary.
		ReasoningTokens int `json:"reasoning_tokens"`
		SummaryTokens   int `json:"summary_tokens"`
	} `json:"output_tokens_details"`
	// TotalTokens is the sum of InputTokens and OutputTokens.
	TotalTokens int `json:"total_tokens"`
}

func newUsage(u reasoning.Usage) *Usage {
	w := &Usage{InputTokens: u.Prompt, OutputTokens: u.Completion, TotalTokens: u.Prompt + u.Completion}
	w.InputTokensDetails.CachedTokens = u.Cached
	w.OutputTokensDetails.ReasoningTokens, w.OutputTokensDetails.SummaryTokens = u.Reasoning, u.Summary
	return w
}

// ReasoningEcho is the field reasoning of a response.
type ReasoningEcho struct {
	// Effort is the effort in effect: none, minimal, low, medium or high. It is null if the request has none.
	Effort *string `json:"effort"`
	// Summary is auto, concise or detailed; null if the request names no length of a summary.
	Summary *string `json:"summary"`
}

// TextEcho is the field text of a response.
type TextEcho struct {
	// Format is the form of the answer, as in the request.
	Format json.RawMessage `json:"format"`
	// Verbosity is as in the request; it has no effect.
	Verbosity *string `json:"verbosity,omitempty"`
}

// ReasoningInfo has the settings in effect for a run.
type ReasoningInfo struct {
	// Visibility is none, summary or full.
	Visibility string `json:"visibility"`
	// Effort is empty if it is the model's default and that is unknown.
	Effort string `json:"effort"`
	// Strategy is native, json, tool, markers or posthoc.
	Strategy string `json:"strategy"`
	// Seed makes the run repeatable.
	Seed uint64 `json:"seed"`
	// Budget is the maximum number of reasoning tokens; left out if there is none.
	Budget int `json:"budget,omitempty"`
}

func newInfo(i *reasoning.Info) *ReasoningInfo {
	return &ReasoningInfo{
		Visibility: i.Visibility.String(), Effort: string(i.Effort), Strategy: string(i.Strategy), Seed: i.Seed,
		Budget: i.Budget,
	}
}

// Warning says what was left out of a request, or what was wrong with a model's output.
type Warning struct {
	// Code names the warning for programs.
	Code string `json:"code"`
	// Message is for people.
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
