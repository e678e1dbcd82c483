package web

import (
	"context"
	"encoding/json"
	"strconv"
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
}

// Encoder writes the events of a run for the page. They go to a function, as lines of JSON.
//
// Texts arrive token by token, but they are rendered at most once in each Pace, and at most a tenth of the time is
// spent on it. So neither the server nor the page slows down when tokens come fast.
//
// The events: start; open (part, kind, specialist, call); text (part, text, which is what came since the last event of
// the part, and block and html, the block's whole new HTML; next, what may come next in an answer with a schema);
// close (part); warning; strategy; specialist and specialist_end; rationale; assumption; done; and error.
//
// Push and Fail are for one goroutine at a time. The function is never called by two goroutines at once.
type Encoder struct {
	cfg EncoderConfig
	out func(event []byte) error

	mu     sync.Mutex
	buf    []byte
	err    error
	parts  int
	open   []*part
	log    contract.DelegationLog
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

// NewEncoder returns an encoder. send gets each event as one line of JSON, which is valid until send returns. After its
// first error it gets no more. The caller must call Close.
func NewEncoder(cfg EncoderConfig, send func(event []byte) error) *Encoder {
	e := &Encoder{cfg: cfg, out: send}
	if cfg.Schema != nil {
		// The run has checked the schema. Without a follower the page shows no more than the answer.
		e.form, _ = grammar.NewFollower(context.Background(), grammar.JSONSchema(cfg.Schema))
	}
	return e
}

// Close ends the encoder. Nothing is sent after it.
func (e *Encoder) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// Push takes the next event of the run. It returns the error of send; later calls return the same error.
func (e *Encoder) Push(ev *reasoning.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Push(ev)
	if ev.Kind == reasoning.SegmentDelta {
		e.delta(ev)
		return e.err
	}
	e.flush()
	switch ev.Kind {
	case reasoning.Started:
		e.start(ev.Info)
	case reasoning.StrategySwitched:
		e.send(map[string]any{"type": "strategy", "strategy": ev.Info.Strategy, "message": ev.Text})
	case reasoning.SegmentStart:
		e.opens(ev)
	case reasoning.SegmentEnd:
		e.closes(ev)
	case reasoning.Warning:
		e.warning(ev.Code, ev.Text)
	case reasoning.Decided:
		if ev.Decision != nil {
			e.send(map[string]any{"type": "rationale", "call": ev.Call.ID, "decision": ev.Decision})
		}
	case reasoning.Assumed:
		if ev.Assumption != nil {
			e.send(map[string]any{"type": "assumption", "assumption": ev.Assumption})
		}
	case reasoning.DelegationStart:
		if ev.Delegation != nil {
			e.send(map[string]any{"type": "specialist", "delegation": ev.Delegation})
		}
	case reasoning.DelegationEnd:
		if ev.Delegation != nil {
			e.send(map[string]any{"type": "specialist_end", "delegation": ev.Delegation})
		}
	case reasoning.Done:
		e.done(ev.Result)
	}
	return e.err
}

func (e *Encoder) start(info *reasoning.Info) {
	if info == nil {
		return
	}
	e.send(map[string]any{"type": "start", "model": e.cfg.Model, "reasoning_info": contract.InfoOf(info),
		"prompt_tokens": info.Prompt})
}

// kinds are the names of the segments.
var kinds = map[reasoning.Segment]string{reasoning.Reasoning: "reasoning", reasoning.Summary: "summary",
	reasoning.Preamble: "preamble", reasoning.ToolCall: "call", reasoning.Answer: "answer"}

func (e *Encoder) opens(ev *reasoning.Event) {
	p := &part{id: e.parts, of: ev.Segment, specialist: ev.Specialist}
	e.parts++
	p.blocks.JSON = ev.Segment == reasoning.ToolCall || ev.Segment == reasoning.Answer && e.cfg.Schema != nil
	e.open = append(e.open, p)
	event := map[string]any{"type": "open", "part": p.id, "kind": kinds[ev.Segment]}
	if ev.Specialist != "" {
		event["specialist"] = ev.Specialist
	}
	if ev.Segment == reasoning.ToolCall {
		event["call"] = map[string]string{"id": ev.Call.ID, "name": ev.Call.Name}
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
	if !e.closed {
		e.flush()
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
		e.begin("text", p)
		e.buf = strconv.AppendInt(append(e.buf, `,"block":`...), int64(b.Index), 10)
		e.buf = wire.AppendString(append(e.buf, `,"html":`...), b.HTML)
		e.end(p)
	}
	if len(p.text) > 0 { // white space that makes no block
		e.begin("text", p)
		e.end(p)
	}
	if p.of == reasoning.Answer {
		e.next(p)
	}
}

// begin begins an event of a part.
func (e *Encoder) begin(kind string, p *part) {
	e.buf = append(append(append(e.buf[:0], `{"type":"`...), kind...), `","part":`...)
	e.buf = strconv.AppendInt(e.buf, int64(p.id), 10)
}

// end ends an event of a part and sends it, with the text that was not sent yet.
func (e *Encoder) end(p *part) {
	if len(p.text) > 0 {
		e.buf = wire.AppendString(append(e.buf, `,"text":`...), string(p.text))
		p.text = p.text[:0]
	}
	e.write(append(e.buf, '}'))
}

// next sends what may come next in an answer with a schema.
func (e *Encoder) next(p *part) {
	if e.form == nil {
		return
	}
	ascii, other, end := e.form.Next()
	e.begin("next", p)
	e.buf = wire.AppendString(append(e.buf, `,"ascii":`...), ascii)
	e.buf = strconv.AppendBool(append(e.buf, `,"other":`...), other)
	e.buf = strconv.AppendBool(append(e.buf, `,"end":`...), end)
	e.write(append(e.buf, '}'))
}

func (e *Encoder) closes(ev *reasoning.Event) {
	p := e.find(ev)
	if p == nil {
		return
	}
	p.blocks.End()
	e.render(p)
	e.begin("close", p)
	e.end(p)
	for i := range e.open {
		if e.open[i] == p {
			e.open = append(e.open[:i], e.open[i+1:]...)
			break
		}
	}
}

// warn sends a warning that is not the run's.
func (e *Encoder) warn(code, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.warning(code, message)
}

func (e *Encoder) warning(code, message string) {
	e.send(map[string]any{"type": "warning", "code": code, "message": message})
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
		ReasoningUnavailable: r.ReasoningUnavailable, SummarySource: r.SummarySource, Score: r.Score, Sealed: r.Sealed,
		Instructions: e.log.Carries(r),
		Usage: Usage{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion, Reasoning: u.Reasoning,
			Summary: u.Summary},
		Timing: Timing{Queue: ms(t.Queue), FirstToken: ms(t.FirstToken), FirstAnswer: ms(t.FirstAnswer),
			Decode: ms(t.Decode)},
	})
}

// Fail ends the run with an error. It returns the error of send.
func (e *Encoder) Fail(err *wire.Error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	e.send(map[string]any{"type": "error", "code": err.Code, "message": err.Error()})
	return e.err
}

// send sends an event that is not a text.
func (e *Encoder) send(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		if e.err == nil {
			e.err = err
		}
		return
	}
	e.write(line)
}

func (e *Encoder) write(line []byte) {
	if e.buf = e.buf[:0]; e.err == nil && !e.closed {
		e.err = e.out(line)
	}
}
