package openai

import (
	"encoding/json"
	"strings"

	"runner/reasoning"
	"runner/server/internal/contract"
)

// Head has the common fields of an answer and of all chunks of its stream.
type Head struct {
	// The id of the answer. It is the same in all chunks.
	ID string `json:"id"`
	// When the server received the request, in seconds since 1970.
	Created int64 `json:"created"`
	// The name of the model.
	Model string `json:"model"`
	// Identifies the model's weights. Absent until all of its files have been read, and always for an engine at an
	// address.
	SystemFingerprint string `json:"system_fingerprint,omitempty"`
}

// Chunk is one frame of a stream of chat completions.
//
//openapi:answer ChatCompletionChunk
type Chunk struct {
	Head
	// The type of this object.
	Object string `json:"object" api:"=chat.completion.chunk"`
	// What the chunk adds to a choice. Empty in the chunk with the usage.
	Choices []ChunkChoice `json:"choices" api:"[..1]"`
	// The token counts, in the last chunk, if `stream_options.include_usage` is true. The other chunks then have null.
	Usage **Usage `json:"usage,omitempty" api:"|null"`
	Extras
}

// ChunkChoice is what a chunk adds to a choice.
//
//openapi:answer ChunkChoice
type ChunkChoice struct {
	// The index of the choice.
	Index int   `json:"index" api:"[0..]"`
	Delta Delta `json:"delta"`
	// The log probabilities of this chunk's tokens, if requested.
	Logprobs *Logprobs `json:"logprobs"`
	// Why the choice ended. Null until its last chunk.
	FinishReason *string `json:"finish_reason" api:"#FinishReason|null"`
	FinishDetail string  `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID      string  `json:"trace_id,omitempty" api:"#TraceID"`
	Remarks
}

// Delta is what a chunk adds to a message.
//
// What a chunk adds to a message. Append its texts to those of earlier chunks.
//
//openapi:answer Delta
type Delta struct {
	// The author's role. Only in the choice's first chunk.
	Role string `json:"role,omitempty" api:"=assistant"`
	// More of the answer; null in the first chunk.
	Content **string `json:"content,omitempty" api:"|null"`
	// More of the reasoning, with visibility `full`.
	Reasoning string `json:"reasoning,omitempty"`
	// The same as `reasoning`.
	ReasoningContent string `json:"reasoning_content,omitempty"`
	// More of the summary, with visibility `summary`. It may come between pieces of the answer.
	ReasoningSummary string `json:"reasoning_summary,omitempty"`
	// More of what the model says before a call, if the request gives the answer a form.
	Preamble string `json:"preamble,omitempty"`
	// More of a call.
	ToolCalls    []DeltaCall        `json:"tool_calls,omitempty"`
	FunctionCall *DeltaFunctionCall `json:"function_call,omitempty"`
	MessageEnd
}

// MessageEnd has the fields of a message that are only known at its end.
type MessageEnd struct {
	ReasoningEncryptedContent string               `json:"reasoning_encrypted_content,omitempty" api:"#SealedReasoning"`
	ReasoningSummarySource    string               `json:"reasoning_summary_source,omitempty" api:"#SummarySource"`
	Score                     *float64             `json:"score,omitempty" api:"#Score"`
	Rationale                 []reasoning.Decision `json:"rationale,omitempty" api:"#Decisions"`
	// True if the calls are those of a specialist. The specialist goes on when they are answered.
	Intermediate bool `json:"intermediate,omitempty"`
	// Send these back with the message. A specialist's prompt is among them only with visibility `full`.
	Instructions []json.RawMessage      `json:"instructions,omitempty" api:"[]#Instruction"`
	Delegations  []reasoning.Delegation `json:"delegations,omitempty" api:"#Delegations"`
}

// DeltaCall is what a chunk adds to a call. ID, Type and the function's name are in its first chunk.
//
//openapi:answer DeltaCall
type DeltaCall struct {
	// The index of the call.
	Index int `json:"index" api:"[0..]"`
	// The id of the call. Only in its first chunk.
	ID string `json:"id,omitempty"`
	// The kind of call. Only in its first chunk.
	Type     string             `json:"type,omitempty" api:"=function,custom"`
	Function *DeltaFunctionCall `json:"function,omitempty"`
	Custom   *DeltaCustomCall   `json:"custom,omitempty"`
}

// DeltaCustomCall is a part of a call of a custom tool. Its input continues that of earlier chunks.
//
//openapi:answer DeltaCustomCall
type DeltaCustomCall struct {
	// The name of the tool. Only in the call's first chunk.
	Name string `json:"name,omitempty"`
	// More of the text.
	Input string `json:"input"`
}

// DeltaFunctionCall is a part of a call of a function. Its arguments continue those of earlier chunks.
//
//openapi:answer DeltaFunctionCall
type DeltaFunctionCall struct {
	// The name of the function. Only in the call's first chunk.
	Name string `json:"name,omitempty"`
	// More of the arguments.
	Arguments string `json:"arguments"`
}

// chatReply is an answer of POST /v1/chat/completions as it grows.
type chatReply struct {
	order   *chatOrder
	head    Head
	choices []choice
}

// choice is one choice of an answer as it grows. If the answer is streamed, each addition is sent as a chunk and not
// kept. Otherwise all are kept for the end.
type choice struct {
	contract.Ending
	speech
	order *chatOrder
	free  contract.FreeCalls
	// calls counts the calls. call is the last one, and textIn where it has its text.
	calls  int
	call   [1]DeltaCall
	textIn *string

	// send gets the chunks; nil if the answer is not streamed. A chunk is valid until send returns.
	send  func(chunk any) error
	chunk Chunk
	// said is what the content of a chunk points to.
	said *string

	// The texts and tokens of an answer that is not streamed, and what is made of them.
	content, preamble, thoughts, summary, arguments strings.Builder
	tokens                                          []reasoning.TokenLogprobs
	whole                                           Choice
}

// reply returns a new answer. If send is not nil, it gets the chunks of a stream. The answer allocates nothing for an
// event that has only text.
func (c *chatOrder) reply(h Head, send func(chunk any) error) reply {
	a := &chatReply{order: c, head: h, choices: make([]choice, c.choices)}
	for i := range a.choices {
		to := &a.choices[i]
		to.order, to.send, to.said, to.textIn = c, send, new(string), new(string)
		to.free = contract.FreeCalls{Names: c.custom, To: to.take}
		to.chunk = Chunk{Head: h, Object: "chat.completion.chunk", Choices: []ChunkChoice{{Index: i}}}
		to.whole.Index, to.whole.Message.Role = i, "assistant"
		if c.usage {
			to.chunk.Usage = new(*Usage)
		}
	}
	return a
}

func (r *chatReply) push(choice int, e *reasoning.Event) error {
	return r.choices[choice].free.Push(e)
}

func (r *chatReply) usage() Usage {
	results := make([]*reasoning.Result, len(r.choices))
	for i := range r.choices {
		results[i] = r.choices[i].Result
	}
	return usageOf(results)
}

func (r *chatReply) last() any {
	usage := new(r.usage())
	return &Chunk{Head: r.head, Object: "chat.completion.chunk", Choices: []ChunkChoice{}, Usage: &usage}
}

func (r *chatReply) complete() any {
	out := &ChatCompletion{Head: r.head, Object: "chat.completion", Choices: make([]Choice, len(r.choices)),
		Usage: r.usage(), Extras: r.choices[0].chunk.Extras}
	for i := range r.choices {
		out.Choices[i] = r.choices[i].whole
	}
	return out
}

// take takes the next event, with the text of a custom tool's call unpacked. It returns the errors of send.
func (c *choice) take(e *reasoning.Event) error {
	call := e.Segment == reasoning.ToolCall
	switch e.Kind {
	case reasoning.SegmentStart:
		if call {
			return c.startCall(e.Call)
		}
	case reasoning.SegmentDelta:
		return c.delta(e)
	case reasoning.SegmentEnd:
		if call && c.send == nil {
			c.keepCall()
		}
	case reasoning.Started:
		c.Note(e)
		return c.say(&c.content, "", nil, Delta{Role: "assistant", Content: new(*string)})
	case reasoning.Done:
		c.Note(e)
		return c.end()
	default:
		c.Note(e)
	}
	return nil
}

// say adds a piece of text. delta is what a chunk has of it.
func (c *choice) say(to *strings.Builder, text string, tokens []reasoning.TokenLogprobs, delta Delta) error {
	if c.send == nil {
		to.WriteString(text)
		c.tokens = append(c.tokens, tokens...)
		return nil
	}
	more := &c.chunk.Choices[0]
	more.Delta, more.Logprobs = delta, logprobsOf(tokens)
	return c.send(&c.chunk)
}

func (c *choice) delta(e *reasoning.Event) error {
	switch e.Segment {
	case reasoning.Preamble:
		if c.order.form != "" {
			return c.say(&c.preamble, e.Text, nil, Delta{Preamble: e.Text})
		}
		return c.speak(e)
	case reasoning.Answer:
		return c.speak(e)
	case reasoning.Reasoning:
		return c.say(&c.thoughts, e.Text, nil, Delta{Reasoning: e.Text, ReasoningContent: e.Text})
	case reasoning.Summary:
		return c.say(&c.summary, e.Text, nil, Delta{ReasoningSummary: e.Text})
	case reasoning.ToolCall:
		*c.textIn = e.Text
		return c.say(&c.arguments, e.Text, nil, c.calling())
	}
	return nil
}

// speak adds a part of the content.
func (c *choice) speak(e *reasoning.Event) error {
	if c.joins(e.Segment) {
		*c.said = gap
		if err := c.say(&c.content, gap, nil, Delta{Content: &c.said}); err != nil {
			return err
		}
	}
	*c.said = e.Text
	return c.say(&c.content, e.Text, e.Logprobs, Delta{Content: &c.said})
}

// startCall begins a call. Its name and id are only in its first chunk.
func (c *choice) startCall(call reasoning.Call) error {
	d := DeltaCall{Index: c.calls, ID: call.ID, Type: "function", Function: &DeltaFunctionCall{Name: call.Name}}
	name := &d.Function.Name
	c.textIn = &d.Function.Arguments
	if c.order.custom[call.Name] {
		d.Type, d.Function, d.Custom = typeCustom, nil, &DeltaCustomCall{Name: call.Name}
		name, c.textIn = &d.Custom.Name, &d.Custom.Input
	}
	c.calls++
	c.call[0] = d
	err := c.say(&c.arguments, "", nil, c.calling())
	if c.send != nil {
		c.call[0].ID, c.call[0].Type, *name = "", "", ""
	}
	return err
}

// calling returns what a chunk has of the last call.
func (c *choice) calling() Delta {
	if c.order.legacy {
		return Delta{FunctionCall: c.call[0].Function}
	}
	return Delta{ToolCalls: c.call[:]}
}

// keepCall adds the last call to the message.
func (c *choice) keepCall() {
	*c.textIn = c.arguments.String()
	c.arguments.Reset()
	d, m := &c.call[0], &c.whole.Message
	if d.Custom != nil {
		m.ToolCalls = append(m.ToolCalls, AnswerCall{ID: d.ID, Type: d.Type, Custom: new(CustomCall(*d.Custom))})
		return
	}
	f := FunctionCall(*d.Function)
	if c.order.legacy {
		m.FunctionCall = &f
		return
	}
	m.ToolCalls = append(m.ToolCalls, AnswerCall{ID: d.ID, Type: d.Type, Function: &f})
}

// end ends the choice: it sends the last chunk, or completes the message.
func (c *choice) end() error {
	r := c.Result
	more := &c.chunk.Choices[0]
	finish := finishOf(r, c.order.legacy)
	end := MessageEnd{c.Sealed, r.SummarySource, contract.Score(r), c.Decisions(), r.Specialist, c.Instructions(),
		c.Delegations}
	own, extras := c.order.remarks(&c.Ending, more.Index, c.order.choices > 1)
	silent := !c.any && c.calls == 0
	if c.send == nil {
		c.chunk.Extras = extras
		to, m, content := &c.whole, &c.whole.Message, c.content.String()
		if content != "" || silent {
			m.Content = &content
		}
		m.Reasoning, m.ReasoningSummary, m.Preamble = c.thoughts.String(), c.summary.String(), c.preamble.String()
		m.ReasoningContent, m.MessageEnd = m.Reasoning, end
		to.Logprobs, to.FinishReason, to.FinishDetail = logprobsOf(c.tokens), finish, r.Detail
		to.TraceID, to.Remarks = r.Trace, own
		return nil
	}
	if *c.said = ""; silent {
		if err := c.say(nil, "", nil, Delta{Content: &c.said}); err != nil {
			return err
		}
	}
	*more = ChunkChoice{Index: more.Index, Delta: Delta{MessageEnd: end}, FinishReason: &finish, FinishDetail: r.Detail,
		TraceID: r.Trace, Remarks: own}
	c.chunk.Extras = extras
	return c.send(&c.chunk)
}
