package openai

import (
	"slices"
	"time"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// unsupported adds a warning about a field that is not supported.
func (d *order) unsupported(field string) {
	d.warnings.Add("unsupported_parameter", field+": it is not supported here and has no effect")
}

// Usage counts tokens.
//
//openapi:answer Usage
type Usage struct {
	// The tokens of the prompt, counted once for all choices.
	PromptTokens int `json:"prompt_tokens"`
	// The generated tokens of all choices, including reasoning. Summaries are not counted.
	CompletionTokens int `json:"completion_tokens"`
	// The sum of the prompt's and the generated tokens.
	TotalTokens int `json:"total_tokens"`
	// Details about the prompt.
	PromptTokensDetails PromptDetails `json:"prompt_tokens_details"`
	// Details about the generated tokens.
	CompletionTokensDetails CompletionDetails `json:"completion_tokens_details"`
}

// PromptDetails has details about the prompt's tokens.
//
//openapi:answer
type PromptDetails struct {
	// The tokens of the prompt that were in the cache.
	CachedTokens int `json:"cached_tokens"`
}

// CompletionDetails has details about the generated tokens.
//
//openapi:answer
type CompletionDetails struct {
	// The part of `completion_tokens` that was reasoning, whether it was shown or not.
	ReasoningTokens int `json:"reasoning_tokens"`
	// The tokens of the summaries. They are not part of `completion_tokens`.
	SummaryTokens int `json:"summary_tokens"`
}

// usageOf adds up the usage of choices that share a prompt.
func usageOf(results []*reasoning.Result) Usage {
	var u Usage
	for i, r := range results {
		if i == 0 {
			u.PromptTokens, u.PromptTokensDetails.CachedTokens = r.Usage.Prompt, r.Usage.Cached
		}
		// Later choices use what the first has put into the cache.
		u.PromptTokensDetails.CachedTokens = min(u.PromptTokensDetails.CachedTokens, r.Usage.Cached)
		u.CompletionTokens += r.Usage.Completion
		u.CompletionTokensDetails.ReasoningTokens += r.Usage.Reasoning
		u.CompletionTokensDetails.SummaryTokens += r.Usage.Summary
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// Timings are the times of a choice.
//
// How long a choice took, in milliseconds. The names are those of llama.cpp's server.
//
//openapi:answer Timings
type Timings struct {
	// The tokens of the prompt that were in the cache.
	CacheN int `json:"cache_n"`
	// The tokens of the prompt that were not in the cache.
	PromptN int `json:"prompt_n"`
	// The time to read the `prompt_n` tokens.
	PromptMS float64 `json:"prompt_ms"`
	// The tokens of the prompt that were read per second.
	PromptPerSecond float64 `json:"prompt_per_second"`
	// The number of generated tokens.
	PredictedN int `json:"predicted_n"`
	// The time to generate them.
	PredictedMS float64 `json:"predicted_ms"`
	// The tokens that were generated per second.
	PredictedPerSecond float64 `json:"predicted_per_second"`
	// The time until the server began to read the prompt.
	QueueMS float64 `json:"queue_ms"`
	// The time until the first token.
	FirstTokenMS float64 `json:"first_token_ms"`
	// The time until the first token of the answer.
	FirstAnswerMS float64 `json:"first_answer_ms"`
}

func timingsOf(r *reasoning.Result) Timings {
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	rate := func(n int, d time.Duration) float64 {
		if d <= 0 {
			return 0
		}
		return float64(int(float64(n)/d.Seconds()*100)) / 100
	}
	u, t := r.Usage, r.Timing
	read := u.Prompt - u.Cached
	return Timings{
		CacheN: u.Cached, PromptN: read, PromptMS: ms(t.Prefill), PromptPerSecond: rate(read, t.Prefill),
		PredictedN: u.Completion, PredictedMS: ms(t.Decode), PredictedPerSecond: rate(u.Completion, t.Decode),
		QueueMS: ms(t.Queue), FirstTokenMS: ms(t.FirstToken), FirstAnswerMS: ms(t.FirstAnswer),
	}
}

// Remarks say what is odd. If an answer has one choice, its remarks are those of the answer. If it has several, each
// choice has its own, and those of the answer are about the request.
type Remarks struct {
	// True if reasoning was requested and the model gave none. With `n` above 1 each choice says it of itself.
	ReasoningUnavailable bool `json:"reasoning_unavailable,omitempty"`
	// What was not done as requested, and what was wrong with the model's output. With `n` above 1 each choice has the
	// warnings about its own output.
	Warnings []wire.Warning `json:"warnings,omitempty"`
}

// Extras are the fields that answers and the last chunk of each choice have in addition to OpenAI's.
type Extras struct {
	// The settings of the reasoning that were used.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	Remarks
	Timings *Timings `json:"timings,omitempty"`
}

// remarks returns the remarks of a choice and the extras of its last chunk. several says that the answer has more
// choices. The warnings about the request are those of the first choice.
func (d *order) remarks(end *contract.Ending, choice int, several bool) (own Remarks, x Extras) {
	x.ReasoningInfo, x.Timings = contract.InfoOf(end.Info), new(timingsOf(end.Result))
	if choice == 0 {
		x.Warnings = slices.Clone(d.warnings)
	}
	if own = (Remarks{end.Result.ReasoningUnavailable, end.Warnings}); several {
		return own, x
	}
	x.ReasoningUnavailable, x.Warnings = own.ReasoningUnavailable, append(x.Warnings, own.Warnings...)
	return Remarks{}, x
}

// finishOf returns the API's word for why a choice ended.
func finishOf(r *reasoning.Result, legacy bool) string {
	switch {
	case r.Finish == reasoning.FinishToolCalls && legacy:
		return "function_call"
	case r.Finish == "":
		return string(reasoning.FinishStop)
	}
	return string(r.Finish)
}

// speech joins the preamble and the answer.
type speech struct {
	// spoken says which segments have had text, and any whether one has.
	spoken [reasoning.Answer + 1]bool
	any    bool
}

// gap is the text between a preamble and an answer. Texts of the same kind bring their own.
const gap = "\n\n"

// joins reports whether there must be a gap before the next text of a segment.
func (s *speech) joins(segment reasoning.Segment) bool {
	join := s.any && !s.spoken[segment]
	s.spoken[segment], s.any = true, true
	return join
}
