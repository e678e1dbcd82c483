package web

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"runner/grammar"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/web/markdown"
	"runner/server/wire"
)

// EncoderConfig holds what an [Encoder] cannot learn from the events of a run.
type EncoderConfig struct {
	// Model is the model's name.
	Model string
	// Schema is the schema of the answer; nil if there is none.
	Schema json.RawMessage
	// Pace is the shortest time between two renderings of a text that grows; 0 renders each piece.
	Pace time.Duration
	// Warnings are about the request.
	Warnings []wire.Warning
	// Flush is called after events that were sent late, by a timer; may be nil.
	Flush func()
}

// Event is an event for the page, except the last one of a run that did not fail, which is [Done]. It has the fields
// that its type needs:
//
//	start           model, reasoning_info, prompt_tokens
//	open            part, kind, specialist, call
//	text            part, text, and block and html if a block of it has changed
//	next            part, and what may come next in an answer with a schema
//	close           part
//	strategy        strategy, message
//	specialist      delegation; specialist_end likewise
//	rationale       call (its id), decision
//	assumption      assumption
//	warning, error  code, message
type Event struct {
	Type          string                  `json:"type"`
	Model         string                  `json:"model,omitempty"`
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	PromptTokens  *int                    `json:"prompt_tokens,omitempty"`
	Part          *int                    `json:"part,omitempty"`
	Kind          string                  `json:"kind,omitempty"`
	Specialist    string                  `json:"specialist,omitempty"`
	Call          any                     `json:"call,omitempty"`
	*Block
	// Text is what came since the last event of the part.
	Text string `json:"text,omitempty"`
	*Next
	Code       string                `json:"code,omitempty"`
	Strategy   reasoning.Strategy    `json:"strategy,omitempty"`
	Message    string                `json:"message,omitempty"`
	Decision   *reasoning.Decision   `json:"decision,omitempty"`
	Assumption *reasoning.Assumption `json:"assumption,omitempty"`
	Delegation *reasoning.Delegation `json:"delegation,omitempty"`
}

// made is a call that the model makes.
type made struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Block is a block of a text that has changed, with its whole new HTML.
type Block struct {
	Index int    `json:"block"`
	HTML  string `json:"html"`
}

// Next is what may come next in an answer with a schema, see [grammar.Follower.Next].
type Next struct {
	ASCII string `json:"ascii"`
	Other bool   `json:"other"`
	End   bool   `json:"end"`
}

// Encoder writes the events of a run for the page: [Event] values, which go to a function.
//
// Texts arrive token by token, but they are rendered at most once in each Pace, and at most a tenth of the time is
// spent on it. So neither the server nor the page slows down when tokens come fast.
//
// Push and End are for one goroutine at a time. The function is never called by two goroutines at once.
type Encoder struct {
	cfg EncoderConfig
	out func(event any) error

	mu sync.Mutex
	contract.Ending
	err    error
	parts  int
	open   []*part
	timer  *time.Timer
	armed  bool
	closed bool
	// last is when texts were rendered, and rest how long rendering has to pause after that.
	last time.Time
	rest time.Duration
	// form follows an answer with a schema; nil if there is none.
	form *grammar.Follower
}

// part is a segment that is open.
type part struct {
	id         int
	of         reasoning.Segment
	specialist string
	text       []byte // what was not sent yet
	blocks     markdown.Writer
}

// NewEncoder returns an encoder. send gets each event. After its first error it gets no more. The caller must call End.
func NewEncoder(cfg EncoderConfig, send func(event any) error) *Encoder {
	e := &Encoder{cfg: cfg, out: send}
	if cfg.Schema != nil {
		// The run has checked the schema. Without a follower the page shows no more than the answer.
		e.form, _ = grammar.NewFollower(context.Background(), grammar.JSONSchema(cfg.Schema))
	}
	return e
}

// End implements [wire.Encoder]. Nothing is sent after it.
func (e *Encoder) End(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.flush()
		failure := wire.FromError(err, fields)
		e.send(Event{Type: "error", Code: failure.Code, Message: failure.Error()})
	}
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// Push takes the next event of the run, which is the only one of its stream. It returns the error of send; later calls
// return the same error.
func (e *Encoder) Push(_ int, ev *reasoning.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Kind == reasoning.SegmentDelta {
		e.delta(ev)
		return e.err
	}
	e.flush()
	e.Note(ev)
	switch ev.Kind {
	case reasoning.Started:
		e.start(ev.Info)
	case reasoning.StrategySwitched:
		e.send(Event{Type: "strategy", Strategy: ev.Info.Strategy, Message: ev.Text})
	case reasoning.SegmentStart:
		e.opens(ev)
	case reasoning.SegmentEnd:
		e.closes(ev)
	case reasoning.Warning:
		e.warn(wire.Warning{Code: ev.Code, Message: ev.Text})
	case reasoning.Decided:
		if ev.Decision != nil {
			e.send(Event{Type: "rationale", Call: ev.Call.ID, Decision: ev.Decision})
		}
	case reasoning.Assumed:
		if ev.Assumption != nil {
			e.send(Event{Type: "assumption", Assumption: ev.Assumption})
		}
	case reasoning.DelegationStart:
		e.send(Event{Type: "specialist", Delegation: ev.Delegation})
	case reasoning.DelegationEnd:
		e.send(Event{Type: "specialist_end", Delegation: ev.Delegation})
	case reasoning.Done:
		e.done(ev.Result)
	}
	return e.err
}

func (e *Encoder) start(info *reasoning.Info) {
	if info != nil {
		e.send(Event{Type: "start", Model: e.cfg.Model, ReasoningInfo: contract.InfoOf(info), PromptTokens: &info.Prompt})
	}
	for _, w := range e.cfg.Warnings {
		e.warn(w)
	}
}

func (e *Encoder) warn(w wire.Warning) {
	e.send(Event{Type: "warning", Code: w.Code, Message: w.Message})
}

// kinds are the names of the segments.
var kinds = map[reasoning.Segment]string{reasoning.Reasoning: "reasoning", reasoning.Summary: "summary",
	reasoning.Preamble: "preamble", reasoning.ToolCall: "call", reasoning.Answer: "answer"}

func (e *Encoder) opens(ev *reasoning.Event) {
	p := &part{id: e.parts, of: ev.Segment, specialist: ev.Specialist}
	e.parts++
	p.blocks.JSON = ev.Segment == reasoning.ToolCall || ev.Segment == reasoning.Answer && e.cfg.Schema != nil
	e.open = append(e.open, p)
	event := Event{Type: "open", Part: &p.id, Kind: kinds[ev.Segment], Specialist: ev.Specialist}
	if ev.Segment == reasoning.ToolCall {
		event.Call = made{ev.Call.ID, ev.Call.Name}
	}
	e.send(event)
	if p.of == reasoning.Answer {
		e.next(p)
	}
}

func (e *Encoder) find(ev *reasoning.Event) *part {
	for i := len(e.open) - 1; i >= 0; i-- {
		if p := e.open[i]; p.of == ev.Segment && p.specialist == ev.Specialist {
			return p
		}
	}
	return nil
}

// delta takes a piece of text. It is rendered now, or by a timer if the last rendering was just before.
func (e *Encoder) delta(ev *reasoning.Event) {
	p := e.find(ev)
	if p == nil {
		return
	}
	p.text = append(p.text, ev.Text...)
	p.blocks.Write(ev.Text)
	if p.of == reasoning.Answer && e.form != nil {
		e.form.Write(ev.Text)
	}
	wait := max(e.cfg.Pace, e.rest) - time.Since(e.last)
	switch {
	case wait <= 0:
		e.flush()
	case e.armed:
	case e.timer == nil:
		e.armed, e.timer = true, time.AfterFunc(wait, e.late)
	default:
		e.armed = true
		e.timer.Reset(wait)
	}
}

// late renders what has waited.
func (e *Encoder) late() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = false
	if e.closed {
		return
	}
	if e.flush(); e.cfg.Flush != nil {
		e.cfg.Flush()
	}
}

// flush renders and sends all text that was not sent yet.
func (e *Encoder) flush() {
	began := time.Now()
	sent := false
	for _, p := range e.open {
		if len(p.text) > 0 {
			e.render(p)
			sent = true
		}
	}
	if sent {
		e.last = time.Now()
		e.rest = 9 * e.last.Sub(began)
	}
}

// render sends what changed in a part.
func (e *Encoder) render(p *part) {
	for _, b := range p.blocks.Changed() {
		e.sendPart("text", p, &Block{b.Index, b.HTML})
	}
	if len(p.text) > 0 { // white space that makes no block
		e.sendPart("text", p, nil)
	}
	if p.of == reasoning.Answer {
		e.next(p)
	}
}

// sendPart sends an event of a part, with the text that was not sent yet.
func (e *Encoder) sendPart(kind string, p *part, b *Block) {
	e.send(Event{Type: kind, Part: &p.id, Block: b, Text: string(p.text)})
	p.text = p.text[:0]
}

// next sends what may come next in an answer with a schema.
func (e *Encoder) next(p *part) {
	if e.form == nil {
		return
	}
	var next Next
	next.ASCII, next.Other, next.End = e.form.Next()
	e.send(Event{Type: "next", Part: &p.id, Next: &next})
}

func (e *Encoder) closes(ev *reasoning.Event) {
	p := e.find(ev)
	if p == nil {
		return
	}
	p.blocks.End()
	e.render(p)
	e.sendPart("close", p, nil)
	e.open = slices.DeleteFunc(e.open, func(o *part) bool { return o == p })
}

// Done is the last event of a run that did not fail.
//
//openapi:answer WebDone
type Done struct {
	// The type of the event.
	Type string `json:"type" api:"=done"`
	// Why the answer ended: by itself or at a stop string (`stop`), at a limit (`length`), or with calls.
	FinishReason reasoning.FinishReason `json:"finish_reason" api:"=stop,length,tool_calls"`
	FinishDetail string                 `json:"finish_detail,omitempty" api:"#FinishDetail"`
	TraceID      string                 `json:"trace_id,omitempty" api:"#TraceID"`
	// True if reasoning was requested and the model gave none.
	ReasoningUnavailable bool     `json:"reasoning_unavailable,omitempty"`
	SummarySource        string   `json:"reasoning_summary_source,omitempty" api:"#SummarySource"`
	Score                *float64 `json:"score,omitempty" api:"#Score"`
	// The sealed value of the reasoning, if it was asked for. Send it back with the message.
	Sealed string `json:"sealed,omitempty"`
	// The instructions of the message, if the run ended in calls of a specialist. Send them back with the message.
	Instructions []json.RawMessage `json:"instructions,omitempty" api:"[]#Instruction"`
	Usage        Usage             `json:"usage"`
	Timing       Timing            `json:"timing"`
}

// Usage counts the tokens of a run.
//
//openapi:answer WebUsage
type Usage struct {
	// The tokens of the prompt.
	Prompt int `json:"prompt"`
	// The tokens of the prompt that were in the cache.
	Cached int `json:"cached"`
	// The generated tokens, without the summary's.
	Completion int `json:"completion"`
	// The generated tokens that were reasoning.
	Reasoning int `json:"reasoning"`
	// The generated tokens of the summary.
	Summary int `json:"summary"`
}

// Timing says how long a run took, in milliseconds.
//
//openapi:answer WebTiming
type Timing struct {
	// The wait before the first step.
	Queue float64 `json:"queue"`
	// From the request to the first token, seen or not.
	FirstToken float64 `json:"first_token"`
	// From the request to the first text of the answer. 0 if there was none.
	FirstAnswer float64 `json:"first_answer"`
	// From the first token to the last.
	Decode float64 `json:"decode"`
}

func (e *Encoder) done(r *reasoning.Result) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	u, t := r.Usage, r.Timing
	e.send(Done{
		Type: "done", FinishReason: r.Finish, FinishDetail: r.Detail, TraceID: r.Trace,
		ReasoningUnavailable: r.ReasoningUnavailable, SummarySource: r.SummarySource, Score: contract.Score(r),
		Sealed: e.Sealed, Instructions: e.Instructions(),
		Usage: Usage{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion, Reasoning: u.Reasoning,
			Summary: u.Summary},
		Timing: Timing{Queue: ms(t.Queue), FirstToken: ms(t.FirstToken), FirstAnswer: ms(t.FirstAnswer),
			Decode: ms(t.Decode)},
	})
}

// send sends an event.
func (e *Encoder) send(event any) {
	if e.err == nil && !e.closed {
		e.err = e.out(event)
	}
}
