package responses

import (
	"encoding/json"

	"runner/reasoning"
)

// Response is what a request is answered with.
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
	// Background says that it does not depend on a client.
	Background bool `json:"background"`
	// Error says why the status is failed; else it is null.
	Error *Failure `json:"error"`
	// IncompleteDetails says why the status is incomplete; else it is null.
	IncompleteDetails *IncompleteDetails `json:"incomplete_details"`
	// Output holds the items in the order in which they began.
	Output []Item `json:"output"`
	// Usage is null until the run is over.
	Usage *Usage `json:"usage"`

	// The fields from here on say what the request said, or what was in effect where it said nothing.

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

	// ReasoningInfo says what is in effect.
	ReasoningInfo *ReasoningInfo `json:"reasoning_info,omitempty"`
	// FinishDetail adds to the status: reasoning_budget, answer_reserve, context_full or stop_string.
	FinishDetail string `json:"finish_detail,omitempty"`
	// TraceID names the run's trace, where one was asked for and is stored.
	TraceID string `json:"trace_id,omitempty"`
	// ReasoningUnavailable says that reasoning was asked for and the model gave none.
	ReasoningUnavailable bool `json:"reasoning_unavailable,omitempty"`
	// SummarySource is reasoning, or posthoc for a summary that explains the answer afterwards.
	SummarySource string `json:"reasoning_summary_source,omitempty"`
	// Score is how sure the model says it is, 0 to 1, with strategy json.
	Score *float64 `json:"score,omitempty"`
	// Rationale are the decisions of the run with their reasons, where they were asked for, with visibility full.
	Rationale []reasoning.Decision `json:"rationale,omitempty"`
	// Warnings say what was left out or came out of form.
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
	// Reason is max_output_tokens, also where the context is full.
	Reason string `json:"reason"`
}

// Usage counts tokens.
type Usage struct {
	// InputTokens counts the prompt.
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		// CachedTokens is how much of the prompt the cache held already.
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// OutputTokens counts what was generated, reasoning included, the summary excluded.
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		// ReasoningTokens counts the reasoning, shown or not, and SummaryTokens its summary.
		ReasoningTokens int `json:"reasoning_tokens"`
		SummaryTokens   int `json:"summary_tokens"`
	} `json:"output_tokens_details"`
	// TotalTokens is InputTokens and OutputTokens together.
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
	// Effort is none, minimal, low, medium or high: the one in effect. It is null where the request named none.
	Effort *string `json:"effort"`
	// Summary is auto, concise or detailed; null where no summary was asked for by its length.
	Summary *string `json:"summary"`
}

// TextEcho is the field text of a response.
type TextEcho struct {
	// Format is the form of the answer, as it was asked for.
	Format json.RawMessage `json:"format"`
	// Verbosity is as it was asked for; it has no effect.
	Verbosity *string `json:"verbosity,omitempty"`
}

// ReasoningInfo is what is in effect for a run.
type ReasoningInfo struct {
	// Visibility is none, summary or full.
	Visibility string `json:"visibility"`
	// Effort is empty where the model has no default that is known.
	Effort string `json:"effort"`
	// Strategy is native, json, tool, markers or posthoc.
	Strategy string `json:"strategy"`
	// Seed repeats the run.
	Seed uint64 `json:"seed"`
	// Budget is the most reasoning tokens; not there without one.
	Budget int `json:"budget,omitempty"`
}

func newInfo(i *reasoning.Info) *ReasoningInfo {
	return &ReasoningInfo{
		Visibility: i.Visibility.String(), Effort: string(i.Effort), Strategy: string(i.Strategy), Seed: i.Seed,
		Budget: i.Budget,
	}
}

// Warning says what was left out of a request, or what of a model's output is out of form.
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
	// CodeItemSkipped: an input item is of a type that is not known here and was left out.
	CodeItemSkipped = "item_skipped"
	// CodeIncludeIgnored: include asks for something that there is not.
	CodeIncludeIgnored = "include_ignored"
	// CodeTruncated: the oldest part of the conversation was left out so that the rest fits.
	CodeTruncated = "input_truncated"
	// CodeStrictUnavailable: a function that did not ask for strict cannot be held to its parameters.
	CodeStrictUnavailable = "strict_unavailable"
	// CodeNotStored: the response is too large for the store, so its id cannot be used.
	CodeNotStored = "not_stored"
)
