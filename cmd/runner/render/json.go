package render

import (
	"encoding/json"
	"io"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// JSON writes a run as one JSON object when it is done. It writes nothing when the run fails. The field names are
// those of the HTTP API: answer, and reasoning and reasoning_summary where they are visible.
type JSON struct {
	streams Streams
	run     generation.Collector
}

// NewJSON returns a renderer that writes to s.Out.
func NewJSON(s Streams) *JSON { return &JSON{streams: s} }

type object struct {
	Answer           string        `json:"answer"`
	Preamble         string        `json:"preamble,omitempty"`
	Reasoning        *string       `json:"reasoning,omitempty"`
	ReasoningSummary *string       `json:"reasoning_summary,omitempty"`
	SummarySource    string        `json:"reasoning_summary_source,omitempty"`
	Unavailable      bool          `json:"reasoning_unavailable,omitempty"`
	ToolCalls        []toolCall    `json:"tool_calls"`
	FinishReason     string        `json:"finish_reason"`
	FinishDetail     string        `json:"finish_detail,omitempty"`
	TraceID          string        `json:"trace_id,omitempty"`
	Model            string        `json:"model"`
	Usage            usage         `json:"usage"`
	Timing           timing        `json:"timing"`
	ReasoningInfo    info          `json:"reasoning_info"`
	Warnings         wire.Warnings `json:"warnings"`

	// Intermediate is set when a specialist made the calls.
	Intermediate bool                   `json:"intermediate,omitempty"`
	Delegations  []reasoning.Delegation `json:"delegations,omitempty"`
	Instructions []json.RawMessage      `json:"instructions,omitempty"`

	Rationale        []reasoning.Decision   `json:"rationale,omitempty"`
	RationaleMissing *int                   `json:"rationale_missing,omitempty"`
	Assumptions      []reasoning.Assumption `json:"assumptions,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Reasoning int `json:"reasoning_tokens"`
		Summary   int `json:"summary_tokens"`
	} `json:"completion_tokens_details"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// timing is in milliseconds.
type timing struct {
	Queue       float64  `json:"queue_ms"`
	Prefill     float64  `json:"prefill_ms"`
	FirstToken  float64  `json:"first_token_ms"`
	FirstAnswer *float64 `json:"first_answer_ms"`
	Decode      float64  `json:"decode_ms"`
}

type info struct {
	Visibility string `json:"visibility"`
	Effort     string `json:"effort"`
	Strategy   string `json:"strategy"`
	Seed       uint64 `json:"seed"`
	Budget     int    `json:"budget,omitempty"`
}

// Render implements [Renderer].
func (j *JSON) Render(e reasoning.Event) error {
	j.run.Push(e)
	if e.Kind != reasoning.Done {
		return nil
	}
	j.streams.Spinner.Stop()
	return Indented(j.streams.Out).Encode(newObject(j.run.Reply()))
}

// Indented returns an encoder that indents JSON by two spaces and does not escape characters of HTML.
func Indented(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc
}

// Lines writes values as JSON, one a line.
func Lines[T any](w io.Writer, list []T) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [Renderer].
func (j *JSON) Close() error { return nil }

func newObject(r generation.Reply) object {
	o := object{Answer: r.Answer, Preamble: r.Preamble, ToolCalls: []toolCall{}, Model: r.Info.Model,
		Warnings: wire.Warnings{}}
	o.Rationale, o.Assumptions = r.Decisions, r.Assumptions
	o.Delegations, o.Instructions = r.Delegations, r.Instructions
	o.ReasoningInfo = info{Visibility: r.Info.Visibility.String(), Effort: string(r.Info.Effort),
		Strategy: string(r.Info.Strategy), Seed: r.Info.Seed, Budget: r.Info.Budget}
	for _, call := range r.Calls {
		t := toolCall{ID: call.ID, Type: "function"}
		t.Function.Name, t.Function.Arguments = call.Name, call.Arguments
		o.ToolCalls = append(o.ToolCalls, t)
	}
	for _, w := range r.Warnings {
		o.Warnings.Add(w.Code, w.Text)
	}
	if code, text, ok := Shortfall(r); ok {
		o.Warnings.Add(code, text)
	}
	if r.Result != nil {
		o.result(r.Result)
	}
	if r.Info.Visibility == reasoning.VisibilityFull && !o.Unavailable {
		o.Reasoning = &r.Reasoning
	}
	if o.SummarySource != "" || r.Summary != "" {
		o.ReasoningSummary = &r.Summary
	}
	return o
}

func (o *object) result(r *reasoning.Result) {
	o.Intermediate = r.Specialist
	o.FinishReason, o.FinishDetail, o.TraceID = string(r.Finish), r.Detail, r.Trace
	o.SummarySource, o.Unavailable = r.SummarySource, r.ReasoningUnavailable
	o.Usage = usage{Prompt: r.Usage.Prompt, Completion: r.Usage.Completion, Total: r.Usage.Prompt + r.Usage.Completion}
	o.Usage.Details.Reasoning, o.Usage.Details.Summary = r.Usage.Reasoning, r.Usage.Summary
	o.Usage.PromptDetails.Cached = r.Usage.Cached
	if r.Rationale != nil {
		o.RationaleMissing = &r.Rationale.Missing
	}
	t := r.Timing
	o.Timing = timing{Queue: millis(t.Queue), Prefill: millis(t.Prefill), FirstToken: millis(t.FirstToken),
		Decode: millis(t.Decode)}
	if t.FirstAnswer > 0 {
		ms := millis(t.FirstAnswer)
		o.Timing.FirstAnswer = &ms
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
