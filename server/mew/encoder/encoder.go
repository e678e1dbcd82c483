package encoder

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"runner/reasoning"
	"runner/server/mew/envelope"
)

// Config holds what an [Encoder] cannot learn from the events of a run. From, Clock and NewID are required.
type Config struct {
	// From is the participant that reasons. To are the recipients; empty means everyone.
	From string
	To   []string
	// Trigger is the id of the message that is answered; empty if there is none.
	Trigger string
	// Outer is the context that contains the reasoning; empty means none.
	Outer string
	// Estimate is how long the reasoning is likely to take; 0 means unknown.
	Estimate time.Duration
	// Confidence is how sure the model is likely to be, 0 to 1; nil means unknown.
	Confidence *float64
	// May reports whether the participant may send an envelope; nil allows everything.
	May func(*envelope.Envelope) bool
	// Admit reports whether another message of reasoning may be sent now; nil allows all. A message that is not admitted
	// is dropped.
	Admit func() bool
	// Overflow gets the thoughts that are not admitted, with their contexts; nil means nobody does.
	Overflow func(context string, step envelope.Step)
	// Route returns the recipients of a function's call and the function's name there; nil means everyone and the same
	// name.
	Route func(function string) (to []string, name string)
	// Clock gives the time. NewID returns an id that no other message has.
	Clock func() time.Time
	NewID func() string
}

// The limits of what is sent.
const (
	// maxChat is the maximum text of one chat in bytes. A longer answer is sent as several chats. A chat has its text
	// twice, and JSON writes some bytes as six; the rest of the envelope fits in what is left.
	maxChat = envelope.MaxSize / 16
	// maxConclusion is the maximum part of the answer that a conclusion repeats, in bytes and without the ellipsis.
	maxConclusion = 1000
	// maxCall is the maximum size of a call in bytes, so that its envelope stays within its own limit.
	maxCall       = envelope.MaxSize / 2
	maxReferences = envelope.MaxIDs
	maxWarnings   = 16
)

// Call is a call that the model made.
type Call struct {
	reasoning.Call
	// Arguments are as the model wrote them.
	Arguments string
	// Request is the id of the mcp/request or mcp/proposal that was sent for it; empty if none was sent.
	Request string
	// Malformed says that none was sent because the arguments are not a JSON object. If it is false, sending was not
	// allowed.
	Malformed bool
}

// Encoder writes one reasoning. It is for one goroutine at a time.
type Encoder struct {
	cfg  Config
	send func(*envelope.Envelope) error
	err  error

	info       reasoning.Info
	began, end bool
	// own is the model's reasoning. theirs is the reasoning of the current specialist inside it, or nil, and specialist
	// is the specialist's id.
	own        level
	theirs     *level
	specialist string
	dropped    int
	// references are the messages that the next thought is based on, and rests those that the whole reasoning is based
	// on.
	references, rests []string

	answer, preamble, summary, arguments strings.Builder
	calls                                []Call
	warnings                             []string
}

// level is a context and its current sentence. path is empty before the context begins, or if it may not be sent.
type level struct {
	path    string
	thought sentences
}

// New returns an encoder. send gets each envelope, and may keep it. After its first error it gets no more.
func New(cfg Config, send func(*envelope.Envelope) error) *Encoder {
	return &Encoder{cfg: cfg, send: send}
}

// Calls returns the calls of the last run.
func (e *Encoder) Calls() []Call { return e.calls }

// Refer adds messages that the following reasoning is based on, for example answers to calls.
func (e *Encoder) Refer(ids ...string) {
	e.references = append(e.references, ids...)
	e.rests = append(e.rests, ids...)
}

// Push takes the next event of a run. It returns the error of send; later calls return the same error.
func (e *Encoder) Push(ev *reasoning.Event) error {
	if ev.Kind == reasoning.Started || ev.Kind == reasoning.StrategySwitched {
		e.note(ev)
	}
	if e.end || !e.info.Visibility.Shows(ev) {
		return e.err
	}
	switch ev.Kind {
	case reasoning.Started:
		e.start()
	case reasoning.SegmentStart:
		if ev.Segment == reasoning.ToolCall {
			e.arguments.Reset()
		}
	case reasoning.SegmentDelta:
		e.delta(ev)
	case reasoning.SegmentEnd:
		e.close(ev)
	case reasoning.Warning:
		if len(e.warnings) < maxWarnings {
			e.warnings = append(e.warnings, ev.Code)
		}
	case reasoning.Decided:
		e.decided(e.level(ev).path, ev.Decision)
	case reasoning.Assumed:
		e.assumed(e.level(ev).path, ev.Assumption)
	case reasoning.DelegationStart:
		e.delegate(ev.Delegation)
	case reasoning.DelegationEnd:
		e.returned(ev.Delegation)
	case reasoning.Done:
		e.done(ev.Result)
	}
	return e.err
}

func (e *Encoder) note(ev *reasoning.Event) {
	if ev.Info == nil {
		return
	}
	if ev.Kind == reasoning.StrategySwitched {
		e.info.Strategy = ev.Info.Strategy
		return
	}
	e.info = *ev.Info
}

// shows reports whether messages in the context may have content.
func (e *Encoder) shows() bool { return e.info.Visibility != reasoning.VisibilityNone }

func (e *Encoder) start() {
	e.calls = nil
	if e.began {
		return
	}
	e.began = true
	step := envelope.Step{}
	if e.shows() {
		step.Message = "Thinking about the message."
		step.Metadata = &envelope.Metadata{Approach: string(e.info.Strategy), Confidence: e.cfg.Confidence}
		if likely := e.cfg.Estimate.Round(time.Millisecond); likely > 0 {
			step.Metadata.EstimatedDuration = likely.String()
		}
		if e.cfg.Trigger != "" {
			step.References = []string{e.cfg.Trigger}
		}
	}
	if s := e.emit(envelope.Start, e.cfg.Outer, e.trigger(), e.cfg.To, step); s != nil {
		e.own.path = s.Within()
	}
}

// delegate begins the reasoning of a specialist inside the model's.
func (e *Encoder) delegate(d *reasoning.Delegation) {
	if d == nil || e.own.path == "" {
		return
	}
	e.flush(&e.own)
	e.leave("")
	step := envelope.Step{}
	if e.shows() {
		step.Message = "A specialist is thinking."
	}
	if s := e.emit(envelope.Start, e.own.path, e.trigger(), e.cfg.To, step); s != nil {
		e.theirs, e.specialist = &level{path: s.Within()}, d.ID
	}
}

// returned ends the reasoning of a specialist.
func (e *Encoder) returned(d *reasoning.Delegation) {
	if d != nil && d.ID == e.specialist {
		e.leave(string(d.Outcome))
	}
}

// leave concludes the reasoning of a specialist, if there is one.
func (e *Encoder) leave(outcome string) {
	if e.theirs == nil {
		return
	}
	e.flush(e.theirs)
	step := envelope.Step{}
	if e.shows() {
		step.Message = outcome
	}
	e.emit(envelope.Conclusion, e.theirs.path, nil, e.cfg.To, step)
	e.theirs, e.specialist = nil, ""
}

// level returns the level that an event belongs to.
func (e *Encoder) level(ev *reasoning.Event) *level {
	if e.theirs != nil && ev.Specialist == e.specialist {
		return e.theirs
	}
	return &e.own
}

// trigger returns the id of the message that the reasoning answers, as a list.
func (e *Encoder) trigger() []string {
	if e.cfg.Trigger == "" {
		return nil
	}
	return []string{e.cfg.Trigger}
}

func (e *Encoder) delta(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Reasoning:
		in := e.level(ev)
		in.thought.push(ev.Text, func(s string) { e.think(in.path, envelope.Step{Message: s}) })
	case reasoning.Summary:
		e.summary.WriteString(ev.Text)
	case reasoning.Preamble:
		e.preamble.WriteString(ev.Text)
	case reasoning.ToolCall:
		e.arguments.WriteString(ev.Text)
	case reasoning.Answer:
		e.answer.WriteString(ev.Text)
	}
}

func (e *Encoder) close(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Reasoning:
		e.flush(e.level(ev))
	case reasoning.Summary:
		if text := strings.TrimSpace(e.summary.String()); text != "" {
			e.think(e.own.path, envelope.Step{Message: text})
		}
		e.summary.Reset()
	case reasoning.Preamble:
		if text := e.preamble.String(); strings.TrimSpace(text) != "" {
			e.chat(e.level(ev).path, text, nil)
		}
		e.preamble.Reset()
	case reasoning.ToolCall:
		e.call(e.level(ev).path, ev.Call, e.arguments.String())
	}
}

// flush sends a sentence that has not ended.
func (e *Encoder) flush(in *level) {
	in.thought.flush(func(s string) { e.think(in.path, envelope.Step{Message: s}) })
}

// think sends a thought, if there is a context for it.
func (e *Encoder) think(path string, step envelope.Step) {
	if path == "" {
		return
	}
	if e.cfg.Admit != nil && !e.cfg.Admit() {
		if e.dropped++; e.cfg.Overflow != nil {
			e.cfg.Overflow(path, step)
		}
		return
	}
	if e.dropped > 0 {
		if step.Metadata == nil {
			step.Metadata = &envelope.Metadata{}
		}
		step.Metadata.Dropped = e.dropped
	}
	step.References = last(e.references, maxReferences)
	if e.emit(envelope.Thought, path, nil, e.cfg.To, step) != nil {
		e.dropped, e.references = 0, nil
	}
}

// decided sends the reason for a call.
func (e *Encoder) decided(path string, d *reasoning.Decision) {
	if d == nil || d.Rationale.Why == "" {
		return
	}
	if body, err := json.Marshal(d.Rationale); err == nil {
		e.think(path, envelope.Step{Message: d.Rationale.Why, Metadata: &envelope.Metadata{Rationale: body,
			Confidence: d.Rationale.Confidence}})
	}
}

// assumed sends an assumption of the model.
func (e *Encoder) assumed(path string, a *reasoning.Assumption) {
	if a == nil {
		return
	}
	if body, err := json.Marshal(a); err == nil {
		e.think(path, envelope.Step{Message: a.Text, Metadata: &envelope.Metadata{Assumption: body}})
	}
}

// call sends a call of a function.
func (e *Encoder) call(path string, c reasoning.Call, arguments string) {
	call := Call{Call: c, Arguments: arguments}
	if rpc, ok := e.request(c, arguments); !ok {
		call.Malformed = true
	} else {
		var to []string
		if e.cfg.Route != nil {
			to, _ = e.cfg.Route(c.Name)
		}
		for _, kind := range []string{envelope.MCPRequest, envelope.MCPProposal} {
			if sent := e.emit(kind, path, nil, to, rpc); sent != nil {
				call.Request = sent.ID
				break
			}
		}
	}
	e.calls = append(e.calls, call)
}

// request returns the payload of a call. It reports false if the arguments are not an object that an envelope can hold.
func (e *Encoder) request(c reasoning.Call, arguments string) (envelope.RPC, bool) {
	given := map[string]any{}
	if strings.TrimSpace(arguments) != "" {
		d := json.NewDecoder(strings.NewReader(arguments))
		d.UseNumber() // so that no digit is lost
		if d.Decode(&given) != nil || d.More() || given == nil {
			return envelope.RPC{}, false
		}
	}
	name := c.Name
	if e.cfg.Route != nil {
		_, name = e.cfg.Route(c.Name)
	}
	rpc := envelope.RPC{Version: "2.0", Method: "tools/call"}
	var err1, err2 error
	rpc.ID, err1 = envelope.Pack(c.ID)
	rpc.Params, err2 = envelope.Pack(map[string]any{"name": name, "arguments": given})
	if err1 != nil || err2 != nil {
		return rpc, false
	}
	body, err := envelope.Pack(rpc)
	return rpc, err == nil && len(body) <= maxCall && envelope.ValidPayload(body)
}

// done ends a run. If the run called functions, the reasoning goes on in the next run.
func (e *Encoder) done(r *reasoning.Result) {
	e.leave("")
	e.flush(&e.own)
	if r == nil || r.Finish == reasoning.FinishToolCalls {
		return
	}
	meta := envelope.Metadata{Warnings: e.warnings}
	if r.Finish != reasoning.FinishStop {
		meta.Finish = string(r.Finish)
	}
	if r.ReasoningUnavailable {
		meta.Warnings = append(meta.Warnings, "reasoning_unavailable")
	}
	answer := e.answer.String()
	e.conclude(answer, r.Score)
	e.tell(answer, &meta)
}

// tell sends an answer, as several chats if it is long. The last one has the metadata.
func (e *Encoder) tell(answer string, meta *envelope.Metadata) {
	for len(answer) > maxChat {
		part := firstBytes(answer, maxChat)
		answer = answer[len(part):]
		e.chat("", part, nil)
	}
	if meta.Finish == "" && len(meta.Warnings) == 0 {
		meta = nil
	}
	e.chat("", answer, meta)
}

// conclude ends the reasoning.
func (e *Encoder) conclude(answer string, score *float64) {
	e.end = true
	if e.own.path == "" {
		return
	}
	step := envelope.Step{}
	if e.shows() {
		if step.Message = strings.TrimSpace(firstBytes(answer, maxConclusion)); len(answer) > maxConclusion {
			step.Message += "…"
		}
		step.References = last(e.rests, maxReferences)
		if score != nil || e.dropped > 0 {
			step.Metadata = &envelope.Metadata{Confidence: score, Dropped: e.dropped}
		}
	}
	e.emit(envelope.Conclusion, e.own.path, nil, e.cfg.To, step)
}

// End concludes a reasoning that is not over, for example because nobody answers its calls. It sends an answer that the
// model gave before the calls.
func (e *Encoder) End() error {
	if e.began && !e.end {
		e.leave("")
		e.flush(&e.own)
		answer := e.answer.String()
		e.conclude(answer, nil)
		if answer != "" { // the model gave it before the calls
			e.tell(answer, &envelope.Metadata{Warnings: e.warnings})
		}
	}
	return e.err
}

// Cancel ends a reasoning that is not over with a reasoning/cancel, or with an empty conclusion if that is not allowed.
// reason is a word such as cancelled or error. by is the message that asked for it; it may be empty. What was not sent
// yet is dropped.
func (e *Encoder) Cancel(reason, by string) error {
	var correlation []string
	if by != "" {
		correlation = []string{by}
	}
	for _, in := range []*level{e.theirs, &e.own} {
		if in == nil || in.path == "" || e.end {
			continue
		}
		if e.emit(envelope.Cancel, in.path, correlation, e.cfg.To, envelope.Reason{Reason: reason}) == nil {
			e.emit(envelope.Conclusion, in.path, nil, e.cfg.To, envelope.Step{})
		}
	}
	e.end, e.theirs = true, nil
	return e.err
}

// chat sends text.
func (e *Encoder) chat(context, text string, meta *envelope.Metadata) {
	said := envelope.Answer(text, "markdown")
	said.Metadata = meta
	e.emit(envelope.Chat, context, e.trigger(), e.cfg.To, said)
}

// emit sends an envelope and returns it, or nil if it is not allowed or failed.
func (e *Encoder) emit(kind, context string, correlation, to []string, payload any) *envelope.Envelope {
	if e.err != nil {
		return nil
	}
	body, err := envelope.Pack(payload)
	if err != nil {
		e.err = err
		return nil
	}
	env := &envelope.Envelope{
		ID: e.cfg.NewID(), Time: e.cfg.Clock(), From: e.cfg.From, To: to, Kind: kind, Correlation: correlation,
		Context: context, Payload: body,
	}
	if e.cfg.May != nil && !e.cfg.May(env) {
		return nil
	}
	if e.err = e.send(env); e.err != nil {
		return nil
	}
	return env
}

// last returns the last n ids.
func last(ids []string, n int) []string { return ids[max(0, len(ids)-n):] }

// firstBytes returns the first n bytes of text, or fewer so that no rune is cut.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
