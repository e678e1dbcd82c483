package openai

import (
	"encoding/json"
	"strconv"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Chunk is one frame of a stream of chat completions, as [ChunkEncoder] writes it.
type Chunk struct {
	ID string `json:"id"`
	// Object is chat.completion.chunk.
	Object string `json:"object"`
	// Created is when the request began, in seconds since 1970.
	Created int64  `json:"created"`
	Model   string `json:"model"`
	// SystemFingerprint identifies the weights: with the same fingerprint and seed an answer can be repeated. It is absent
	// while it is not known.
	SystemFingerprint string        `json:"system_fingerprint,omitempty"`
	Choices           []ChunkChoice `json:"choices"`
	// Usage is set if the request has stream_options.include_usage. It is in the last chunk, which has no choices,
	// and null in the others.
	Usage *Usage `json:"usage,omitempty"`
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
	Content *string `json:"content,omitempty" api:"|null"`
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

func endOf(r *reasoning.Result, decisions []reasoning.Decision, d *contract.DelegationLog) MessageEnd {
	return MessageEnd{r.Sealed, r.SummarySource, scoreOf(r), decisions, r.Specialist, d.Carries(r), d.Delegations()}
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

// head has the common fields of all chunks and answers of a request.
type head struct {
	id, object, model, fingerprint string
	created                        int64
}

// append appends the head as JSON, up to the choices.
func (h *head) append(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, h.id)
	dst = append(dst, `,"object":`...)
	dst = wire.AppendString(dst, h.object)
	dst = append(dst, `,"created":`...)
	dst = strconv.AppendInt(dst, h.created, 10)
	dst = append(dst, `,"model":`...)
	dst = wire.AppendString(dst, h.model)
	if h.fingerprint != "" {
		dst = append(dst, `,"system_fingerprint":`...)
		dst = wire.AppendString(dst, h.fingerprint)
	}
	return append(dst, `,"choices":[`...)
}

// usageChunk returns the chunk with the usage, which is the last of a stream.
func (h *head) usageChunk(u Usage) []byte {
	b := append(h.append(nil), `],"usage":`...)
	return append(appendJSON(b, u), '}')
}

// frames is what the encoders of streams share. Its buffer begins with the common part of all frames of a choice.
type frames struct {
	send  func(frame []byte) error
	usage bool
	buf   []byte
	fixed int

	info    reasoning.Info
	notices []generation.Notice
	result  *reasoning.Result

	decisions   reasoning.DecisionLog
	delegations contract.DelegationLog
}

// note collects what the last chunk reports.
func (f *frames) note(e *reasoning.Event) {
	f.decisions.Push(e)
	f.delegations.Push(e)
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil {
			f.info = *e.Info
		}
	case reasoning.Warning:
		f.notices = append(f.notices, generation.Notice{Code: e.Code, Text: e.Text})
	case reasoning.Done:
		f.result = e.Result
	}
}

func (f *frames) outcome() *reasoning.Result { return f.result }

// open begins a frame.
func (f *frames) open(rest string) { f.buf = append(f.buf[:f.fixed], rest...) }

// close ends a frame after its choice and sends it.
func (f *frames) close() error { return f.closeWith(nil) }

// closeWith is close for the last chunk of a choice. extras is the JSON of its extras.
func (f *frames) closeWith(extras []byte) error {
	f.buf = append(f.buf, ']')
	if f.usage {
		f.buf = append(f.buf, `,"usage":null`...)
	}
	if len(extras) > len("{}") {
		f.buf = append(append(f.buf, ','), extras[1:len(extras)-1]...)
	}
	f.buf = append(f.buf, '}')
	return f.send(f.buf)
}

// ChunkConfig is what the chunks of a request depend on.
type ChunkConfig struct {
	// ID, Model, Fingerprint and Created are in every chunk.
	ID, Model, Fingerprint string
	Created                time.Time
	// Usage says that the last chunk has the usage, so that it is null in the others.
	Usage bool
	// Formed says that the answer has a form, so that content has nothing else.
	Formed bool
	// Legacy says that a call is sent as function_call.
	Legacy bool
	// Custom are the names of the tools whose calls are free text.
	Custom map[string]bool
	// Warnings are about the request. They are in the last chunk of the first choice.
	Warnings []Warning
	// Several says that there are several choices.
	Several bool
}

func (c *ChunkConfig) head() *head {
	return &head{id: c.ID, object: "chat.completion.chunk", model: c.Model, fingerprint: c.Fingerprint,
		created: c.Created.Unix()}
}

// ChunkEncoder turns the events of one choice into chunks of a chat completion. It passes each chunk to a function,
// in a buffer that it uses again. It allocates nothing for an event with text. It may be used by one goroutine at a
// time.
type ChunkEncoder struct {
	frames
	cfg    ChunkConfig
	choice int
	speech speech
	// calls counts the calls, and last is the run's index of the last one.
	calls, last int
	// isCustom says that the last call is one of a custom tool.
	isCustom bool
	// free unpacks the texts of custom tools' calls from their JSON, and passes the events to next.
	free contract.FreeCalls
	next func(*reasoning.Event) error
}

// NewChunkEncoder returns an encoder for a choice, counted from 0. It passes each chunk to send: one line of JSON
// that is valid until send returns.
func NewChunkEncoder(cfg ChunkConfig, choice int, send func(chunk []byte) error) *ChunkEncoder {
	e := &ChunkEncoder{cfg: cfg, choice: choice, free: contract.FreeCalls{Names: cfg.Custom}}
	e.next = e.push
	e.send, e.usage = send, cfg.Usage
	e.buf = append(cfg.head().append(nil), `{"index":`...)
	e.buf = append(strconv.AppendInt(e.buf, int64(choice), 10), `,"delta":{`...)
	e.fixed = len(e.buf)
	return e
}

// Push takes the next event; Done is the last. It returns the errors of send.
func (c *ChunkEncoder) Push(e reasoning.Event) error {
	if len(c.cfg.Custom) > 0 && e.Segment == reasoning.ToolCall {
		return c.pushFree(e)
	}
	return c.push(&e)
}

// pushFree is Push for the events of calls if there are custom tools.
func (c *ChunkEncoder) pushFree(e reasoning.Event) error { return c.free.Push(&e, c.next) }

func (c *ChunkEncoder) push(e *reasoning.Event) error {
	switch e.Kind {
	case reasoning.SegmentDelta:
		return c.delta(e)
	case reasoning.Started:
		c.note(e)
		c.open(`"role":"assistant","content":null`)
		return c.end(nil)
	case reasoning.SegmentStart:
		if e.Segment == reasoning.ToolCall {
			return c.call(e)
		}
	case reasoning.Done:
		c.note(e)
		return c.finish()
	default:
		c.note(e)
	}
	return nil
}

// end ends a chunk in the middle of its delta.
func (c *ChunkEncoder) end(logprobs []reasoning.TokenLogprobs) error {
	c.buf = append(c.buf, `},"logprobs":`...)
	if len(logprobs) > 0 {
		c.buf = appendLogprobs(c.buf, logprobs)
	} else {
		c.buf = append(c.buf, "null"...)
	}
	c.buf = append(c.buf, `,"finish_reason":null}`...)
	return c.close()
}

func (c *ChunkEncoder) delta(e *reasoning.Event) error {
	switch e.Segment {
	case reasoning.Answer:
		return c.content(e)
	case reasoning.Preamble:
		if !c.cfg.Formed {
			return c.content(e)
		}
		c.open(`"preamble":`)
		c.buf = wire.AppendString(c.buf, e.Text)
	case reasoning.Reasoning:
		c.open(`"reasoning":`)
		from := len(c.buf)
		c.buf = wire.AppendString(c.buf, e.Text)
		to := len(c.buf)
		c.buf = append(c.buf, `,"reasoning_content":`...)
		c.buf = append(c.buf, c.buf[from:to]...)
	case reasoning.Summary:
		c.open(`"reasoning_summary":`)
		c.buf = wire.AppendString(c.buf, e.Text)
	case reasoning.ToolCall:
		return c.arguments(e)
	default:
		return nil
	}
	return c.end(nil)
}

// content sends a part of the answer or of the preamble.
func (c *ChunkEncoder) content(e *reasoning.Event) error {
	if c.speech.joins(e.Segment) {
		c.open(`"content":"\n\n"`)
		if err := c.end(nil); err != nil {
			return err
		}
	}
	c.open(`"content":`)
	c.buf = wire.AppendString(c.buf, e.Text)
	return c.end(e.Logprobs)
}

// call sends the beginning of a call, unless it was sent before.
func (c *ChunkEncoder) call(e *reasoning.Event) error {
	if c.calls > 0 && c.last == e.Call.Index {
		return nil
	}
	c.calls, c.last = c.calls+1, e.Call.Index
	if c.cfg.Legacy {
		c.open(`"function_call":{"name":`)
		c.buf = wire.AppendString(c.buf, e.Call.Name)
		c.buf = append(c.buf, `,"arguments":""}`...)
		return c.end(nil)
	}
	c.openCall()
	c.buf = append(c.buf, `,"id":`...)
	c.buf = wire.AppendString(c.buf, e.Call.ID)
	head, tail := `,"type":"function","function":{"name":`, `,"arguments":""}}]`
	if c.isCustom = c.cfg.Custom[e.Call.Name]; c.isCustom {
		head, tail = `,"type":"custom","custom":{"name":`, `,"input":""}}]`
	}
	c.buf = append(c.buf, head...)
	c.buf = wire.AppendString(c.buf, e.Call.Name)
	c.buf = append(c.buf, tail...)
	return c.end(nil)
}

func (c *ChunkEncoder) openCall() {
	c.open(`"tool_calls":[{"index":`)
	c.buf = strconv.AppendInt(c.buf, int64(c.calls-1), 10)
}

// arguments sends a part of a call's arguments.
func (c *ChunkEncoder) arguments(e *reasoning.Event) error {
	if err := c.call(e); err != nil {
		return err
	}
	if c.cfg.Legacy {
		c.open(`"function_call":{"arguments":`)
		c.buf = wire.AppendString(c.buf, e.Text)
		c.buf = append(c.buf, '}')
		return c.end(nil)
	}
	c.openCall()
	field := `,"function":{"arguments":`
	if c.isCustom {
		field = `,"custom":{"input":`
	}
	c.buf = append(c.buf, field...)
	c.buf = wire.AppendString(c.buf, e.Text)
	c.buf = append(c.buf, "}}]"...)
	return c.end(nil)
}

// finish sends the choice's last chunk.
func (c *ChunkEncoder) finish() error {
	if !c.speech.any && c.calls == 0 {
		c.open(`"content":""`)
		if err := c.end(nil); err != nil {
			return err
		}
	}
	end := appendJSON(nil, endOf(c.result, c.decisions.Decisions(), &c.delegations))
	c.open(string(end[1 : len(end)-1]))
	c.buf = append(c.buf, `},"logprobs":null,"finish_reason":`...)
	c.buf = wire.AppendString(c.buf, finishOf(c.result, c.cfg.Legacy))
	if c.result.Detail != "" {
		c.buf = append(c.buf, `,"finish_detail":`...)
		c.buf = wire.AppendString(c.buf, c.result.Detail)
	}
	if c.result.Trace != "" {
		c.buf = append(c.buf, `,"trace_id":`...)
		c.buf = wire.AppendString(c.buf, c.result.Trace)
	}
	about, own := c.cfg.Warnings, remarksOf(c.result, c.notices)
	if c.choice > 0 {
		about = nil
	}
	if !c.cfg.Several {
		c.buf = append(c.buf, '}')
		return c.closeWith(appendJSON(nil, extrasOf(&c.info, c.result, about, &own)))
	}
	if remarks := appendJSON(nil, own); len(remarks) > len("{}") {
		c.buf = append(append(c.buf, ','), remarks[1:len(remarks)-1]...)
	}
	c.buf = append(c.buf, '}')
	return c.closeWith(appendJSON(nil, extrasOf(&c.info, c.result, about, nil)))
}
