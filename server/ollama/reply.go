package ollama

import (
	"slices"
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
	Warnings []wire.Warning `json:"warnings,omitempty"`
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

// head holds what all lines of an answer have in common.
type head struct {
	// chat says that the answer is a ChatResponse, not a GenerateResponse.
	chat     bool
	model    string
	clock    func() time.Time
	began    time.Time
	load     time.Duration
	warnings wire.Warnings
}

// reply turns the events of a run into an answer. If it is streamed, each addition is sent as a line and not kept.
// Otherwise all are kept for the answer.
type reply struct {
	contract.Ending
	*prompt
	// send gets the lines of a stream; nil if the answer is not streamed. A line is valid until send returns. err is its
	// first error.
	send func(event string, line any) error
	err  error
	// chat and generated are the last line, or the answer, in the form of one or the other request.
	chat      ChatResponse
	generated GenerateResponse

	// spoken is the segment of the last content; Header if there was none. call is the last call.
	spoken    reasoning.Segment
	call      reasoning.Call
	arguments strings.Builder

	// What is kept of an answer that is not streamed.
	content, thoughts strings.Builder
	calls             []ToolCall
	logprobs          []Logprob
}

// Push implements [wire.Encoder].
func (r *reply) Push(_ int, e *reasoning.Event) error {
	call := e.Segment == reasoning.ToolCall
	switch e.Kind {
	case reasoning.SegmentStart:
		if call {
			r.call = e.Call
			r.arguments.Reset()
		}
	case reasoning.SegmentDelta:
		r.delta(e)
	case reasoning.SegmentEnd:
		if call {
			r.called()
		}
	default:
		if r.Note(e); e.Kind == reasoning.Done {
			r.end()
		}
	}
	return r.err
}

// End implements [wire.Encoder].
func (r *reply) End(err error) {
	if err != nil {
		_ = r.send("", errorResponse(r.wireError(err)))
	}
}

func (r *reply) delta(e *reasoning.Event) {
	switch e.Segment {
	case reasoning.Reasoning, reasoning.Summary: // a run has events of only one of them
		r.say(Message{Thinking: e.Text}, nil)
	case reasoning.ToolCall:
		r.arguments.WriteString(e.Text)
	case reasoning.Preamble, reasoning.Answer:
		r.paragraph(e.Segment)
		r.say(Message{Content: e.Text}, e.Logprobs)
	}
}

// paragraph separates the texts of different segments.
func (r *reply) paragraph(s reasoning.Segment) {
	if r.spoken != s && r.spoken != reasoning.Header {
		r.say(Message{Content: "\n\n"}, nil)
	}
	r.spoken = s
}

// called adds the call that has ended. What cannot be a call of this API stays in sight as text, because clients would
// run a call without its arguments.
func (r *reply) called() {
	text := r.arguments.String()
	if c, ok := callOf(r.call, text); ok {
		r.say(Message{ToolCalls: []ToolCall{c}}, nil)
		return
	}
	r.paragraph(reasoning.ToolCall)
	r.say(Message{Content: r.call.Name + " " + text}, nil)
}

// say adds a part of the answer.
func (r *reply) say(m Message, tokens []reasoning.TokenLogprobs) {
	if r.send != nil {
		r.tell(m, Ending{Logprobs: logprobsOf(tokens)})
		return
	}
	r.content.WriteString(m.Content)
	r.thoughts.WriteString(m.Thinking)
	r.calls = append(r.calls, m.ToolCalls...)
	r.logprobs = append(r.logprobs, logprobsOf(tokens)...)
}

// tell sends a line.
func (r *reply) tell(m Message, e Ending) {
	line := r.line(m, e)
	if r.send != nil && r.err == nil {
		r.err = r.send("", line)
	}
}

// line returns a line, or the answer, in the form of its request.
func (r *reply) line(m Message, e Ending) any {
	now := r.head.clock().UTC()
	if r.head.chat {
		m.Role = "assistant"
		r.chat = ChatResponse{Model: r.head.model, CreatedAt: now, Message: m, Ending: e}
		return &r.chat
	}
	r.generated = GenerateResponse{r.head.model, now, m.Content, m.Thinking, e}
	return &r.generated
}

// answer returns the whole answer.
func (r *reply) answer() any {
	if r.head.chat {
		return r.chat
	}
	return r.generated
}

// end ends the answer.
func (r *reply) end() {
	e := Ending{
		Done: true, DoneReason: "stop", Warnings: slices.Concat(r.head.warnings, r.Warnings),
		TotalDuration: r.head.clock().Sub(r.head.began), LoadDuration: r.head.load,
		PromptEvalCount: r.Result.Usage.Prompt, PromptEvalDuration: r.Result.Timing.Prefill,
		EvalCount: r.Result.Usage.Completion, EvalDuration: r.Result.Timing.Decode,
	}
	if f := r.Result.Finish; f == reasoning.FinishLength || f == finishLoad || f == finishUnload {
		e.DoneReason = string(f)
	}
	if r.req.Prompt == "" { // a raw prompt has no settings
		e.ReasoningInfo = contract.InfoOf(r.Info)
	}
	if r.send != nil {
		r.tell(Message{}, e)
		return
	}
	e.Logprobs = r.logprobs
	r.line(Message{Content: r.content.String(), Thinking: r.thoughts.String(), ToolCalls: r.calls}, e)
}

// The finish reasons of answers that only load or unload their model.
const (
	finishLoad   reasoning.FinishReason = "load"
	finishUnload reasoning.FinishReason = "unload"
)

func logprobsOf(tokens []reasoning.TokenLogprobs) (list []Logprob) {
	for i := range tokens {
		l := Logprob{TokenLogprob: tokenLogprob(tokens[i].Text, tokens[i].Logprob)}
		for _, a := range tokens[i].Top {
			l.TopLogprobs = append(l.TopLogprobs, tokenLogprob(a.Text, a.Logprob))
		}
		list = append(list, l)
	}
	return list
}

func tokenLogprob(text string, logprob float32) TokenLogprob {
	return TokenLogprob{text, float64(wire.Logprob(logprob)), wire.Bytes(text)}
}
