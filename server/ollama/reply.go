package ollama

import (
	"strings"
	"time"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ChatResponse is the answer to POST /api/chat, and each line of its stream.
//
// The whole answer, or a line of a stream. The fields after `done`, except `logprobs`, are only in the last line.
// Durations are in nanoseconds. Counts and durations of 0 are absent.
//
//openapi:answer OllamaChatResponse
type ChatResponse struct {
	// The name of the model as it was in the request.
	Model string `json:"model"`
	// When the server sent this.
	CreatedAt time.Time `json:"created_at"`
	Message   Message   `json:"message" api:"#OllamaReply"`
	Ending
}

// GenerateResponse is the answer to POST /api/generate, and each line of its stream.
//
// The whole answer, or a line of a stream, as for `/api/chat`.
//
//openapi:answer OllamaGenerateResponse
type GenerateResponse struct {
	// The name of the model as it was in the request.
	Model string `json:"model"`
	// When the server sent this.
	CreatedAt time.Time `json:"created_at"`
	// The answer, or the next part of it in a stream.
	Response string `json:"response"`
	// The reasoning, or the next part of it in a stream, if `think` asks for it.
	Thinking string `json:"thinking,omitempty"`
	Ending
}

// Ending has the fields of the last line of a stream; Done and Logprobs are in the other lines too. Durations are in
// nanoseconds.
type Ending struct {
	// Whether the answer has ended.
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason,omitempty" api:"#OllamaDoneReason"`
	// The tokens of this part of the answer, if requested.
	Logprobs []Logprob `json:"logprobs,omitempty" api:"[]#OllamaLogprob"`
	// The time since the request.
	TotalDuration time.Duration `json:"total_duration,omitempty"`
	// The time spent waiting for the model. It is part of `total_duration`.
	LoadDuration time.Duration `json:"load_duration,omitempty"`
	// The tokens of the prompt, including cached ones.
	PromptEvalCount int `json:"prompt_eval_count,omitempty"`
	// The time to read the prompt.
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	// The generated tokens, including reasoning.
	EvalCount int `json:"eval_count,omitempty"`
	// The time to generate them.
	EvalDuration time.Duration `json:"eval_duration,omitempty"`
	// The settings of the reasoning that were used.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// What was not done as requested, and what was wrong with the model's output.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Logprob is a token of the answer with its log probability.
type Logprob struct {
	TokenLogprob
	// TopLogprobs are the most likely tokens in its place, the most likely first.
	TopLogprobs []TokenLogprob `json:"top_logprobs,omitempty"`
}

// TokenLogprob is a token and its log probability.
//
//openapi:answer OllamaTokenLogprob
type TokenLogprob struct {
	// The token's text.
	Token string `json:"token"`
	// The natural logarithm of the token's probability.
	Logprob float64 `json:"logprob" api:"[-9999..0]"`
	// The token's exact bytes.
	Bytes []int `json:"bytes,omitempty" api:"[]integer[0..255]"`
}

// Warning says what was not done as requested, or what was wrong with the model's output.
//
//openapi:answer Warning
type Warning struct {
	// The kind of warning, for programs.
	Code string `json:"code" api:"example=malformed_arguments"`
	// A message for people. It contains none of the model's text.
	Message string `json:"message"`
}

// head holds what all lines of an answer have in common.
type head struct {
	// chat says that the answer is a ChatResponse, not a GenerateResponse.
	chat     bool
	model    string
	clock    func() time.Time
	began    time.Time
	load     time.Duration
	warnings []Warning
}

// response returns a ChatResponse or a GenerateResponse.
func (h *head) response(m Message, e Ending) any {
	now := h.clock().UTC()
	if h.chat {
		m.Role = "assistant"
		return ChatResponse{Model: h.model, CreatedAt: now, Message: m, Ending: e}
	}
	return GenerateResponse{Model: h.model, CreatedAt: now, Response: m.Content, Thinking: m.Thinking, Ending: e}
}

// ending describes the end of a run.
func (h *head) ending(info *reasoning.Info, r *reasoning.Result, warnings []Warning) Ending {
	e := Ending{
		Done: true, DoneReason: "stop", Warnings: append(h.warnings[:len(h.warnings):len(h.warnings)], warnings...),
		TotalDuration: h.clock().Sub(h.began), LoadDuration: h.load,
		PromptEvalCount: r.Usage.Prompt, PromptEvalDuration: r.Timing.Prefill, EvalCount: r.Usage.Completion,
		EvalDuration:  r.Timing.Decode,
		ReasoningInfo: contract.InfoOf(info),
	}
	if r.Finish == reasoning.FinishLength || r.Finish == "load" || r.Finish == "unload" {
		e.DoneReason = string(r.Finish)
	}
	return e
}

// sink takes the parts of a reply in order. The encoders of streams and of whole answers are both sinks, so that they
// have the same content.
type sink interface {
	content(text string, logprobs []reasoning.TokenLogprobs)
	thinking(text string)
	call(c ToolCall)
	finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning)
}

// turn turns the events of a run into the parts of a reply.
type turn struct {
	out sink
	// spoken is the segment of the last content; Header if there was none.
	spoken    reasoning.Segment
	call      reasoning.Call
	arguments strings.Builder
	warnings  []Warning
	// raw says that the prompt is raw, so that it has no settings. info holds the settings of other prompts.
	raw  bool
	info *reasoning.Info
}

// push takes the next event.
func (t *turn) push(e *reasoning.Event) {
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil && !t.raw {
			t.info = e.Info
		}
	case reasoning.SegmentStart:
		if e.Segment == reasoning.ToolCall {
			t.call = e.Call
			t.arguments.Reset()
		}
	case reasoning.SegmentDelta:
		t.delta(e)
	case reasoning.SegmentEnd:
		if e.Segment == reasoning.ToolCall {
			t.out.call(callOf(t.call.Index, t.call.ID, t.call.Name, t.arguments.String()))
		}
	case reasoning.Warning:
		t.warnings = append(t.warnings, Warning{e.Code, e.Text})
	case reasoning.Done:
		t.out.finish(t.info, e.Result, t.warnings)
	}
}

func (t *turn) delta(e *reasoning.Event) {
	switch e.Segment {
	case reasoning.Reasoning, reasoning.Summary: // a run has events of only one of them
		t.out.thinking(e.Text)
	case reasoning.ToolCall:
		t.arguments.WriteString(e.Text)
	case reasoning.Preamble, reasoning.Answer:
		if t.spoken != e.Segment && t.spoken != reasoning.Header {
			t.out.content("\n\n", nil) // the preamble and the answer are separate paragraphs
		}
		t.spoken = e.Segment
		t.out.content(e.Text, e.Logprobs)
	}
}

// collector is the sink of an answer that is not streamed.
type collector struct {
	head     head
	text     strings.Builder
	thoughts strings.Builder
	calls    []ToolCall
	logprobs []Logprob
	end      Ending
}

func (c *collector) content(text string, logprobs []reasoning.TokenLogprobs) {
	c.text.WriteString(text)
	for i := range logprobs {
		c.logprobs = append(c.logprobs, logprobOf(&logprobs[i]))
	}
}

func (c *collector) thinking(text string) { c.thoughts.WriteString(text) }

func (c *collector) call(call ToolCall) { c.calls = append(c.calls, call) }

func (c *collector) finish(info *reasoning.Info, r *reasoning.Result, warnings []Warning) {
	c.end = c.head.ending(info, r, warnings)
}

// response returns the answer after the run.
func (c *collector) response() any {
	c.end.Logprobs = c.logprobs
	return c.head.response(Message{Content: c.text.String(), Thinking: c.thoughts.String(), ToolCalls: c.calls}, c.end)
}

func tokenLogprob(text string, logprob float32) TokenLogprob {
	l := TokenLogprob{Token: text, Logprob: float64(wire.Logprob(logprob))}
	for i := range len(text) {
		l.Bytes = append(l.Bytes, int(text[i]))
	}
	return l
}

func logprobOf(t *reasoning.TokenLogprobs) Logprob {
	l := Logprob{TokenLogprob: tokenLogprob(t.Text, t.Logprob)}
	for _, a := range t.Top {
		l.TopLogprobs = append(l.TopLogprobs, tokenLogprob(a.Text, a.Logprob))
	}
	return l
}
