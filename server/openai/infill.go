package openai

import (
	"net/http"
	"strings"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// InfillRequest is the body of POST /infill, the route of llama.cpp's server that editors use. The model fills the gap
// between two texts, if its vocabulary has tokens for that. Like a raw prompt, it requires the permission
// reasoning:full.
//
//openapi:request InfillRequest
type InfillRequest struct {
	Options
	// The text before the gap.
	InputPrefix string `json:"input_prefix"`
	// The text after the gap.
	InputSuffix string `json:"input_suffix"`
	// More text before the gap, for instance the part of a line before the cursor.
	Prompt string `json:"prompt"`
	// Other files that help, the least important first.
	InputExtra []InfillFile `json:"input_extra" api:"[..256]"`
}

// InfillFile is a file that helps to fill a gap.
//
//openapi:request
type InfillFile struct {
	// The name of the file.
	Filename string `json:"filename"`
	// What it holds.
	Text string `json:"text"`
}

// Infill is the answer, and each frame of a stream.
//
//openapi:answer Infill
type Infill struct {
	// The index of the choice.
	Index int `json:"index" api:"[0..]"`
	// The text for the gap, or the next part of it in a stream.
	Content string `json:"content"`
	// Whether the text has ended.
	Stop bool `json:"stop"`
	// Why it ended: at the end that the model chose or a stop text, or at the limit of tokens. Only at the end.
	StopType string `json:"stop_type,omitempty" api:"=eos,limit"`
	// The name of the model.
	Model string `json:"model"`
	// The tokens that were generated.
	TokensPredicted int `json:"tokens_predicted"`
	// The tokens of the prompt.
	TokensEvaluated int `json:"tokens_evaluated"`
	// The tokens of the prompt that were in the cache.
	TokensCached int `json:"tokens_cached"`
	// What was not done as requested.
	Warnings []wire.Warning `json:"warnings,omitempty"`
	Timings  *Timings       `json:"timings,omitempty"`
}

// infillNames are the names that differ in infills.
var infillNames = wire.Names[InfillRequest]("", nil)

// readInfill reads a principal's request, except for what needs the model.
func (a *API) readInfill(p *wire.Principal, b *InfillRequest) (*completionOrder, error) {
	if err := p.MayPromptRaw("input_prefix"); err != nil {
		return nil, err
	}
	d, err := a.order(p, &b.Options, infillNames)
	if err != nil {
		return nil, err
	}
	if d.choices > 1 {
		return nil, wire.Unsupported("n", "a gap is filled once")
	}
	c := &completionOrder{order: *d, promptTop: -1, gap: &wire.Gap{After: b.InputSuffix}, gapParam: "input_suffix",
		prompts: []input{{path: "input_prefix", text: b.InputPrefix + b.Prompt}}}
	for _, f := range b.InputExtra {
		c.gap.Files = append(c.gap.Files, wire.File{Name: f.Filename, Text: f.Text})
	}
	c.req.IgnoreEnd = b.IgnoreEOS
	if err := b.limit("n_predict", b.NPredict, &c.req.MaxTokens); err != nil {
		return nil, err
	}
	c.req.MakeRaw()
	return c, nil
}

// infillReply is an answer of POST /infill as it grows.
type infillReply struct {
	contract.Ending
	order *completionOrder
	send  func(chunk any) error // nil if the answer is not streamed
	frame Infill
	text  strings.Builder
}

func (r *infillReply) push(_ int, e *reasoning.Event) error {
	if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
		if r.send == nil {
			r.text.WriteString(e.Text)
			return nil
		}
		r.frame.Content = e.Text
		return r.send(&r.frame)
	}
	if r.Note(e); e.Kind != reasoning.Done {
		return nil
	}
	_, x := r.order.remarks(&r.Ending, 0, false)
	u := &r.Result.Usage
	r.frame.Content, r.frame.Stop, r.frame.StopType = r.text.String(), true, "eos"
	if r.Result.Finish == reasoning.FinishLength {
		r.frame.StopType = "limit"
	}
	r.frame.TokensPredicted, r.frame.TokensEvaluated, r.frame.TokensCached = u.Completion, u.Prompt, u.Cached
	r.frame.Warnings, r.frame.Timings = x.Warnings, x.Timings
	if r.send == nil {
		return nil
	}
	return r.send(&r.frame)
}

func (r *infillReply) last() any     { return &r.frame }
func (r *infillReply) complete() any { return &r.frame }

// infill handles POST /infill.
func (a *API) infill(w http.ResponseWriter, r *http.Request) error {
	c, m, err := take(a, r, a.readInfill)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := c.bind(r.Context(), m); err != nil {
		return err
	}
	return a.respond(w, r, m, &c.order, c.runs(), func(send func(any) error) reply {
		return &infillReply{order: c, send: send, frame: Infill{Model: m.Card().Name}}
	})
}
