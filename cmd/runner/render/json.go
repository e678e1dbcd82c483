package render

import (
	"encoding/json"

	"runner/reasoning"
)

// JSON writes a run as one JSON object when it is done, and nothing when it fails. The names are those of the HTTP API:
// answer, and as far as they are visible reasoning and reasoning_summary.
type JSON struct {
	streams Streams
	run     Collected
}

// NewJSON returns a renderer that writes to s.Out.
func NewJSON(s Streams) *JSON { return &JSON{streams: s} }

type object struct {
	Answer           string     `json:"answer"`
	Preamble         string     `json:"preamble,omitempty"`
	Reasoning        *string    `json:"reasoning,omitempty"`
	ReasoningSummary *string    `json:"reasoning_summary,omitempty"`
	SummarySource    string     `json:"reasoning_summary_source,omitempty"`
	Unavailable      bool       `json:"reasoning_unavailable,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls"`
	FinishReason     string     `json:"finish_reason"`
	FinishDetail     string     `json:"finish_detail,omitempty"`
	Model            string     `json:"model"`
	Usage            usage      `json:"usage"`
	Timing           timing     `json:"timing"`
	ReasoningInfo    info       `json:"reasoning_info"`
	Warnings         []warning  `json:"warnings"`
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

// timing is in seconds.
type timing struct {
	Queue       float64  `json:"queue"`
	Prefill     float64  `json:"prefill"`
	FirstToken  float64  `json:"first_token"`
	FirstAnswer *float64 `json:"first_answer"`
	Decode      float64  `json:"decode"`
}

type info struct {
	Visibility string `json:"visibility"`
	Effort     string `json:"effort"`
	Strategy   string `json:"strategy"`
	Seed       uint64 `json:"seed"`
	Budget     int    `json:"budget,omitempty"`
}

type warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// visibilityNames are indexed by visibility.
var visibilityNames = [...]string{"none", "summary", "full"}

// Render implements [Renderer].
func (j *JSON) Render(e reasoning.Event) error {
	j.run.Add(e)
	if e.Kind != reasoning.Done {
		return nil
	}
	j.streams.Spinner.Stop()
	enc := json.NewEncoder(j.streams.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(newObject(&j.run))
}

// Close implements [Renderer].
func (j *JSON) Close() error { return nil }

func newObject(c *Collected) object {
	o := object{Answer: string(c.Answer), Preamble: string(c.Preamble), ToolCalls: []toolCall{}, Warnings: []warning{}}
	if c.HasReasoning {
		text := string(c.Reasoning)
		o.Reasoning = &text
	}
	if c.HasSummary {
		text := string(c.Summary)
		o.ReasoningSummary = &text
	}
	for _, call := range c.Calls {
		t := toolCall{ID: call.ID, Type: "function"}
		t.Function.Name, t.Function.Arguments = call.Name, string(call.Arguments)
		o.ToolCalls = append(o.ToolCalls, t)
	}
	for _, w := range c.Warnings {
		o.Warnings = append(o.Warnings, warning{w.Code, w.Text})
	}
	if i := c.Info; i != nil {
		o.Model = i.Model
		o.ReasoningInfo = info{Visibility: visibilityNames[i.Visibility], Effort: string(i.Effort), Strategy: string(i.Strategy), Seed: i.Seed, Budget: i.Budget}
	}
	if r := c.Result; r != nil {
		o.result(r)
	}
	return o
}

func (o *object) result(r *reasoning.Result) {
	o.FinishReason, o.FinishDetail = string(r.Finish), r.Detail
	o.SummarySource, o.Unavailable = r.SummarySource, r.ReasoningUnavailable
	o.Usage = usage{Prompt: r.Usage.Prompt, Completion: r.Usage.Completion, Total: r.Usage.Prompt + r.Usage.Completion}
	o.Usage.Details.Reasoning, o.Usage.Details.Summary = r.Usage.Reasoning, r.Usage.Summary
	o.Usage.PromptDetails.Cached = r.Usage.Cached
	t := r.Timing
	o.Timing = timing{Queue: t.Queue.Seconds(), Prefill: t.Prefill.Seconds(), FirstToken: t.FirstToken.Seconds(), Decode: t.Decode.Seconds()}
	if t.FirstAnswer > 0 {
		s := t.FirstAnswer.Seconds()
		o.Timing.FirstAnswer = &s
	}
}
