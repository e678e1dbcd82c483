package responses

import (
	"encoding/json"
	"strconv"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// encoder collects the events of a run into a response. If there is a client, it also emits each change as an event of
// the Responses API. So a streamed response and one that is not streamed are the same.
//
// Each segment has an item, numbered in the order in which they begin. The first reasoning item has the summary and
// the sealed value. If the request asks for one of them, the item begins before all others, so that it is before
// the message to which it belongs, and stays open. An item's texts end with their segment. The item itself ends
// when the next one begins or the run is over, because only then it is known whether it was cut off.
type encoder struct {
	resp *Response
	// emit gets the name and the data of each event. The data is valid until emit returns. Nil if there is no client.
	emit func(name string, data []byte)
	// newID makes the ids of items. homeID is the id of the first reasoning item.
	newID  func(prefix string) string
	homeID string
	// carries says that the first reasoning item has the sealed value.
	carries bool
	// custom are the names of the tools whose calls are free text.
	custom map[string]bool
	clock  func() int64

	decisions reasoning.DecisionLog

	seq   int
	buf   []byte
	items []*openItem
	// home is the first reasoning item. main is the last item of the main sequence. Both are nil until there is one.
	home, main *openItem
	// queued says that the run waits for its first token.
	queued bool
	// sealed is the sealed value of the run's reasoning.
	sealed string
	// changed is called when the status changes, except at the end, and atEnd when the response is final. Both are called
	// before the event is emitted.
	changed, atEnd func()
	over           bool
}

// openItem is an unfinished item of the output.
type openItem struct {
	index   int
	item    Item
	closed  bool
	text    *openPart
	summary []*openPart
	current *openPart
}

// openPart is an unfinished text.
type openPart struct {
	// event is the name of its deltas, and head the beginning of their data, up to the text.
	event string
	head  []byte
	// logged says that its deltas have a field logprobs.
	logged   bool
	text     []byte
	logprobs []byte
	done     bool
}

// begin emits the beginning of the run. A run in the background is queued until its first event.
func (e *encoder) begin(info *reasoning.Info) {
	e.resp.ReasoningInfo = newInfo(info)
	if e.resp.Reasoning.Effort != nil {
		effort := string(info.Effort)
		e.resp.Reasoning.Effort = &effort
	}
	e.create()
}

// create emits the response for the first time.
func (e *encoder) create() {
	e.resp.Status = statusInProgress
	if e.queued = e.resp.Background; e.queued {
		e.resp.Status = statusQueued
	}
	e.noteChange()
	e.lifecycle("response.created")
	if e.queued {
		e.lifecycle("response.queued")
		return
	}
	e.lifecycle("response.in_progress")
}

// wake emits that a queued run is in progress.
func (e *encoder) wake() {
	if e.queued {
		e.queued = false
		e.resp.Status = statusInProgress
		e.noteChange()
		e.lifecycle("response.in_progress")
	}
}

// push takes the next event of the run.
func (e *encoder) push(ev *reasoning.Event) {
	if ev.Kind != reasoning.Started && ev.Kind != reasoning.Warning {
		e.wake()
	}
	e.decisions.Push(ev)
	switch ev.Kind {
	case reasoning.Started:
		e.begin(ev.Info)
	case reasoning.StrategySwitched:
		e.resp.ReasoningInfo = newInfo(ev.Info)
	case reasoning.SegmentStart:
		e.start(ev)
	case reasoning.SegmentDelta:
		e.delta(ev)
	case reasoning.SegmentEnd:
		e.end(ev.Segment)
	case reasoning.Warning:
		e.resp.Warnings = append(e.resp.Warnings, Warning{ev.Code, ev.Text})
	case reasoning.Done:
		e.finish(ev.Result)
	}
}

// start opens the item of a segment.
func (e *encoder) start(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Summary:
		if e.home == nil || e.home.closed {
			e.home = e.openReasoning()
		}
		e.openSummary()
		return
	case reasoning.Reasoning:
		e.settle(statusCompleted)
		if e.home == nil || e.home.text != nil || e.home.closed {
			e.main = e.openReasoning()
		} else {
			e.main = e.home
		}
		e.openText(e.main, "response.reasoning_text.delta", Part{Type: partReasoning}, false)
		return
	case reasoning.Preamble, reasoning.Answer, reasoning.ToolCall:
	default:
		return
	}
	if e.mayReason() {
		e.openHome()
	}
	e.settle(statusCompleted)
	if ev.Segment == reasoning.ToolCall {
		kind, prefix, p := typeCall, "fc_", &openPart{event: "response.function_call_arguments.delta"}
		if e.custom[ev.Call.Name] {
			kind, prefix, p.event = typeCustom, "ctc_", "response.custom_tool_call_input.delta"
		}
		e.main = e.open(&FunctionCall{
			ID: e.newID(prefix), Type: kind, Status: statusInProgress, CallID: ev.Call.ID, Name: ev.Call.Name,
		})
		p.head = e.head(p.event, e.main, "")
		e.main.text = p
		return
	}
	phase := phaseFinal
	if ev.Segment == reasoning.Preamble {
		phase = phaseCommentary
	}
	e.main = e.open(&Message{
		ID: e.newID("msg_"), Type: typeMessage, Status: statusInProgress, Role: string(chattemplate.Assistant), Phase: phase,
		Content: []Part{},
	})
	e.openText(e.main, "response.output_text.delta", Part{Type: partOutput}, true)
}

// mayReason reports whether the first reasoning item must be opened before the item that begins now.
func (e *encoder) mayReason() bool {
	i := e.resp.ReasoningInfo
	return (e.carries || i.Visibility == reasoning.VisibilitySummary.String()) &&
		i.Effort != string(reasoning.EffortNone) && i.Strategy != string(reasoning.StrategyPosthoc)
}

// openHome opens the first reasoning item, unless there is one.
func (e *encoder) openHome() {
	if e.home == nil {
		e.openReasoning()
	}
}

func (e *encoder) openReasoning() *openItem {
	id := e.homeID
	if e.home != nil {
		id = e.newID("rs_")
	}
	o := e.open(&Reasoning{ID: id, Type: typeReasoning, Status: statusInProgress, Summary: []Part{}})
	if e.home == nil {
		e.home = o
	}
	return o
}

// open adds an item.
func (e *encoder) open(item Item) *openItem {
	o := &openItem{index: len(e.items), item: item}
	e.items = append(e.items, o)
	e.tell("response.output_item.added", &ItemEvent{OutputIndex: o.index, Item: item})
	return o
}

// openText opens the only content part of an item.
func (e *encoder) openText(o *openItem, event string, part Part, logged bool) {
	o.text = &openPart{event: event, head: e.head(event, o, `,"content_index":0`), logged: logged}
	e.tell("response.content_part.added", &PartEvent{ItemID: o.item.ItemID(), OutputIndex: o.index, Part: part})
}

func (e *encoder) openSummary() {
	o := e.home
	const event = "response.reasoning_summary_text.delta"
	at := len(o.summary)
	o.current = &openPart{event: event, head: e.head(event, o, `,"summary_index":`+strconv.Itoa(at))}
	o.summary = append(o.summary, o.current)
	e.tell("response.reasoning_summary_part.added", &SummaryPartEvent{
		ItemID: o.item.ItemID(), OutputIndex: o.index, SummaryIndex: at, Part: Part{Type: partSummary},
	})
}

// head returns the beginning of the data of an item's deltas.
func (e *encoder) head(event string, o *openItem, place string) []byte {
	b := append([]byte(`{"type":"`), event...)
	b = append(b, `","item_id":`...)
	b = wire.AppendString(b, o.item.ItemID())
	b = append(b, `,"output_index":`...)
	b = strconv.AppendInt(b, int64(o.index), 10)
	b = append(b, place...)
	return append(b, `,"delta":`...)
}

// delta adds text. It is the hot path: it allocates only what the text needs to grow.
func (e *encoder) delta(ev *reasoning.Event) {
	p := e.partOf(ev.Segment)
	if p == nil {
		return
	}
	p.text = append(p.text, ev.Text...)
	from := len(p.logprobs)
	for i := range ev.Logprobs {
		if len(p.logprobs) > 0 {
			p.logprobs = append(p.logprobs, ',')
		}
		p.logprobs = appendLogprobs(p.logprobs, &ev.Logprobs[i])
	}
	if e.emit == nil {
		e.seq++
		return
	}
	e.buf = append(e.buf[:0], p.head...)
	e.buf = wire.AppendString(e.buf, ev.Text)
	if p.logged {
		e.buf = append(e.buf, `,"logprobs":[`...)
		if from > 0 && from < len(p.logprobs) {
			from++ // the comma
		}
		e.buf = append(append(e.buf, p.logprobs[from:]...), ']')
	}
	e.buf = append(e.buf, `,"sequence_number":`...)
	e.buf = append(strconv.AppendInt(e.buf, int64(e.seq), 10), '}')
	e.seq++
	e.emit(p.event, e.buf)
}

// partOf returns the text of a segment; nil if the segment was never opened.
func (e *encoder) partOf(s reasoning.Segment) *openPart {
	switch {
	case s == reasoning.Summary && e.home != nil:
		return e.home.current
	case s != reasoning.Summary && s != reasoning.Header && e.main != nil:
		return e.main.text
	}
	return nil
}

// end closes the text of a segment.
func (e *encoder) end(s reasoning.Segment) {
	if s == reasoning.Summary {
		e.endSummary()
		if !e.carries && e.home != nil && e.home != e.main {
			e.close(e.home, statusCompleted)
		}
		return
	}
	if e.main != nil {
		e.endText(e.main)
	}
}

func (e *encoder) endSummary() {
	o := e.home
	if o == nil || o.current == nil || o.current.done {
		return
	}
	o.current.done = true
	at, text := len(o.summary)-1, string(o.current.text)
	part := Part{Type: partSummary, Text: text}
	r := o.item.(*Reasoning)
	r.Summary = append(r.Summary, part)
	e.tell("response.reasoning_summary_text.done", &SummaryTextEvent{ItemID: r.ID, OutputIndex: o.index, SummaryIndex: at,
		Text: text})
	e.tell("response.reasoning_summary_part.done", &SummaryPartEvent{ItemID: r.ID, OutputIndex: o.index, SummaryIndex: at,
		Part: part})
}

// endText closes an item's content part, or a call's arguments.
func (e *encoder) endText(o *openItem) {
	if o.text == nil || o.text.done {
		return
	}
	o.text.done = true
	text := string(o.text.text)
	var part Part
	switch item := o.item.(type) {
	case *FunctionCall:
		item.Arguments = text
		if item.Type == typeCustom {
			e.tell("response.custom_tool_call_input.done", &InputEvent{ItemID: item.ID, OutputIndex: o.index, Input: text})
			return
		}
		e.tell("response.function_call_arguments.done", &ArgumentsEvent{
			ItemID: item.ID, OutputIndex: o.index, Name: item.Name, Arguments: text,
		})
		return
	case *Reasoning:
		part = Part{Type: partReasoning, Text: text}
		item.Content = append(item.Content, part)
		e.tell("response.reasoning_text.done", &ReasoningTextEvent{ItemID: item.ID, OutputIndex: o.index, Text: text})
	case *Message:
		part = Part{Type: partOutput, Text: text, Logprobs: o.text.list()}
		item.Content = append(item.Content, part)
		e.tell("response.output_text.done", &TextEvent{ItemID: item.ID, OutputIndex: o.index, Text: text,
			Logprobs: part.Logprobs})
	}
	e.tell("response.content_part.done", &PartEvent{ItemID: o.item.ItemID(), OutputIndex: o.index, Part: part})
}

// list returns the log probabilities as a JSON list.
func (p *openPart) list() json.RawMessage {
	return append(append([]byte{'['}, p.logprobs...), ']')
}

// settle closes the last item of the main sequence.
func (e *encoder) settle(status string) {
	if e.main != nil && (e.main != e.home || !e.stays()) {
		e.close(e.main, status)
	}
}

// stays reports whether the first reasoning item must stay open.
func (e *encoder) stays() bool {
	return e.carries || e.home.current != nil && !e.home.current.done ||
		e.resp.ReasoningInfo.Visibility == reasoning.VisibilitySummary.String() && len(e.home.summary) == 0
}

// close closes an item and its open texts.
func (e *encoder) close(o *openItem, status string) {
	if o.closed {
		return
	}
	o.closed = true
	e.endText(o)
	switch item := o.item.(type) {
	case *Message:
		item.Status = status
	case *FunctionCall:
		item.Status = status
	case *Reasoning:
		if o == e.home {
			e.endSummary()
			if e.carries {
				item.EncryptedContent = e.sealed
			}
		}
		item.Status = status
	}
	e.tell("response.output_item.done", &ItemEvent{OutputIndex: o.index, Item: o.item})
}

// finish ends a run that was completed.
func (e *encoder) finish(r *reasoning.Result) {
	resp := e.resp
	resp.Usage = newUsage(r.Usage)
	resp.FinishDetail, resp.TraceID, resp.ReasoningUnavailable = r.Detail, r.Trace, r.ReasoningUnavailable
	resp.SummarySource, resp.Score, resp.Rationale = r.SummarySource, r.Score, e.decisions.Decisions()
	if e.sealed = r.Sealed; e.carries && e.sealed != "" {
		e.openHome() // a run that was cut off while it reasoned has none yet
	}
	status, event := statusCompleted, "response.completed"
	if r.Finish == reasoning.FinishLength {
		status, event = statusIncomplete, "response.incomplete"
		resp.IncompleteDetails = &IncompleteDetails{Reason: "max_output_tokens"}
	} else {
		now := e.clock()
		resp.CompletedAt = &now
	}
	e.terminate(status, event)
}

// fail ends a run that failed or was cancelled. A cancelled one has no error.
func (e *encoder) fail(err *wire.Error) {
	e.wake()
	if err.Code == wire.CodeClientCancelled {
		e.terminate(statusCancelled, "response.incomplete")
		return
	}
	f := &Failure{Code: "server_error", Message: err.Message}
	switch {
	case err.Status == 429:
		f.Code = "rate_limit_exceeded"
	case err.Code == wire.CodeContextLength:
		f.Code = err.Code
		detail := apierror.New(err).Error
		e.tell("error", &ErrorEvent{Code: err.Code, Message: err.Message, Param: detail.Param, Error: &detail})
	case err.Status < 500:
		f.Code = "invalid_prompt"
	}
	e.resp.Error = f
	e.terminate(statusFailed, "response.failed")
}

// terminate closes what is open and emits the final response. The last item of the main sequence has the status of the
// response; earlier items are completed.
func (e *encoder) terminate(status, event string) {
	if e.over {
		return
	}
	e.over = true
	last := statusCompleted
	if status != statusCompleted {
		last = statusIncomplete
	}
	for _, o := range e.items {
		switch {
		case o == e.main || status == statusFailed || status == statusCancelled:
			e.close(o, last)
		default:
			e.close(o, statusCompleted)
		}
	}
	e.resp.Status = status
	e.resp.Output = make([]Item, len(e.items))
	for i, o := range e.items {
		e.resp.Output[i] = o.item
	}
	if e.atEnd != nil {
		e.atEnd()
	}
	e.lifecycle(event)
}

func (e *encoder) noteChange() {
	if e.changed != nil {
		e.changed()
	}
}

func (e *encoder) lifecycle(event string) {
	e.tell(event, &ResponseEvent{Response: e.resp})
}

// tell emits an event that is not a delta.
func (e *encoder) tell(name string, ev event) {
	seq := e.seq
	e.seq++
	if e.emit == nil {
		return
	}
	ev.is(name, seq)
	data, err := json.Marshal(ev)
	if err != nil {
		// This cannot happen: only a schema of the request is written unchanged, and package json has read that.
		panic("responses: " + err.Error())
	}
	e.emit(name, data)
}

// appendLogprobs appends one token of an answer with its alternatives.
func appendLogprobs(b []byte, l *reasoning.TokenLogprobs) []byte {
	b = wire.AppendToken(b, l.Text, l.Logprob)
	b = append(b, `,"top_logprobs":[`...)
	for i := range l.Top {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(wire.AppendToken(b, l.Top[i].Text, l.Top[i].Logprob), '}')
	}
	return append(b, `]}`...)
}
