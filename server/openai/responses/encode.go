package responses

import (
	"runner/chattemplate"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/internal/apierror"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// encoder collects the events of a run into a response. If there is a client, it also emits each change as an event of
// the Responses API. So a streamed response and one that is not streamed are the same.
//
// Each segment has an item, and a summary and a sealed value belong to the reasoning item that is open. An item
// finishes before the next begins: what the model says waits for the summary. An item's texts end with their segment.
// The item itself ends when the next one begins or the run is over, because only then it is known whether it was cut
// off.
type encoder struct {
	reasoning.SummaryFirst
	resp *Response
	// emit gets the name of each event and the event, which is valid until emit returns. Nil if there is no client. lost
	// is its first error; after that it is not called.
	emit func(name string, event any) error
	lost error
	// newID makes the ids of items. homeID is the id of the first reasoning item.
	newID  func(prefix string) string
	homeID string
	// carries says that the reasoning items have the sealed values.
	carries bool
	// custom are the names of the tools whose calls are free text.
	custom map[string]bool
	// groups are the tools of namespaces, by the names that the model knows.
	groups map[string]grouped
	clock  func() int64

	ending contract.Ending

	seq   int
	items []*openItem
	// last is the last item; nil until there is one.
	last *openItem
	// sealed has the sealed values that no item has yet, joined.
	sealed string
	// late has the events of a summary that comes after what the model said. Its item follows when it is known whether
	// that was cut off.
	late []reasoning.Event
	// queued says that the run waits for its first token.
	queued bool
	// changed is called when the status changes, except at the end, and atEnd when the response is final. Both are called
	// before the event is emitted.
	changed, atEnd func()
	over           bool
}

// openItem is an unfinished item of the output.
type openItem struct {
	index  int
	item   Item
	closed bool
	// text is the last text of the item; nil if there is none yet.
	text *openPart
}

// openPart is an unfinished text: a part of an item's content or summary, or what a call is made with.
type openPart struct {
	// kind is the type of the part. It is added to a list, or the call gets its text.
	kind string
	to   *[]Part
	call *FunctionCall
	// group begins the names of the events about the part, and delta is the name of those with more text.
	group, delta, done string
	// place has what all events about the text have, and more is the last one with more text.
	place, more PlaceEvent

	piece    string
	text     []byte
	logprobs []wire.TokenLogprob
	closed   bool
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

// push takes the next event of the run. It returns the error of emit.
func (e *encoder) push(ev *reasoning.Event) error {
	if ev.Kind != reasoning.Started && ev.Kind != reasoning.Warning {
		e.wake()
	}
	e.Push(ev)
	return e.lost
}

// take takes an event whose turn it is.
func (e *encoder) take(ev *reasoning.Event) {
	e.ending.Note(ev)
	if ev.Segment == reasoning.Summary && e.said() {
		e.late = append(e.late, *ev)
		return
	}
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
		if p := e.text(); p != nil {
			e.closePart(p)
		}
	case reasoning.Sealed:
		if e.carries {
			e.sealed = seal.Join(e.sealed, ev.Text)
		}
	case reasoning.Warning:
		e.resp.Warnings = append(e.resp.Warnings, wire.Warning{Code: ev.Code, Message: ev.Text})
	case reasoning.Done:
		e.finish(ev.Result)
	}
}

// start opens the item of a segment.
func (e *encoder) start(ev *reasoning.Event) {
	switch ev.Segment {
	case reasoning.Summary:
		r := e.thinking()
		e.last.text = e.openPart(e.last, "response.reasoning_summary_text", partSummary, &r.Summary)
	case reasoning.Reasoning:
		r := e.openReasoning()
		e.last.text = e.openPart(e.last, "response.reasoning_text", partReasoning, &r.Content)
	case reasoning.Preamble, reasoning.Answer:
		m := &Message{ID: e.newID("msg_"), Type: typeMessage, Status: statusInProgress,
			Role: string(chattemplate.Assistant), Phase: phaseFinal, Content: []Part{}}
		if ev.Segment == reasoning.Preamble {
			m.Phase = phaseCommentary
		}
		e.open(m)
		e.last.text = e.openPart(e.last, "response.output_text", partOutput, &m.Content)
	case reasoning.ToolCall:
		c := &FunctionCall{Type: typeCall, Status: statusInProgress, CallID: ev.Call.ID, Name: ev.Call.Name}
		name := "response.function_call_arguments"
		if g, ok := e.groups[ev.Call.Name]; ok {
			c.Namespace, c.Name = g.namespace, g.name
		}
		if e.custom[ev.Call.Name] {
			name, c.Type = "response.custom_tool_call_input", typeCustom
		}
		c.ID = e.newID(idPrefix[c.Type])
		e.open(c)
		e.last.text = e.openPart(e.last, name, "", nil)
		e.last.text.call = c
	}
}

// said reports whether the last item is a message or a call.
func (e *encoder) said() bool {
	if e.last == nil {
		return false
	}
	_, thinks := e.last.item.(*Reasoning)
	return !thinks
}

// thinking returns the reasoning item that is open. It opens one if there is none.
func (e *encoder) thinking() *Reasoning {
	if e.last == nil || e.last.closed || e.said() {
		return e.openReasoning()
	}
	return e.last.item.(*Reasoning)
}

func (e *encoder) openReasoning() *Reasoning {
	id := e.homeID
	if len(e.items) > 0 {
		id = e.newID("rs_")
	}
	r := &Reasoning{ID: id, Type: typeReasoning, Status: statusInProgress, Summary: []Part{}}
	e.open(r)
	return r
}

// carry puts the sealed values that no item has yet into a reasoning item, which is open.
func (e *encoder) carry() {
	if e.sealed != "" {
		r := e.thinking()
		r.EncryptedContent, e.sealed = seal.Join(r.EncryptedContent, e.sealed), ""
	}
}

// open ends the last item and adds another.
func (e *encoder) open(item Item) {
	if _, thinks := item.(*Reasoning); !thinks || e.last != nil && !e.said() {
		e.carry()
	}
	if e.last != nil {
		e.close(e.last, statusCompleted)
	}
	e.last = &openItem{index: len(e.items), item: item}
	e.items = append(e.items, e.last)
	e.tell("response.output_item.added", &ItemEvent{OutputIndex: e.last.index, Item: item})
}

// openPart opens a text of an item. name begins the names of the events about it.
func (e *encoder) openPart(o *openItem, name, kind string, to *[]Part) *openPart {
	p := &openPart{kind: kind, to: to, delta: name + ".delta", done: name + ".done",
		place: PlaceEvent{ItemID: idOf(o.item), OutputIndex: o.index}}
	switch {
	case to == nil:
	case kind == partSummary:
		p.group, p.place.SummaryIndex = "response.reasoning_summary_part", new(len(*to))
	default:
		p.group, p.place.ContentIndex = "response.content_part", new(0)
	}
	p.more = p.place
	p.more.Delta = &p.piece
	e.tellPart(p, ".added", Part{Type: kind})
	return p
}

// tellPart emits that a part was added or is done.
func (e *encoder) tellPart(p *openPart, what string, part Part) {
	if p.to != nil {
		ev := p.place
		ev.Part = &part
		e.tell(p.group+what, &ev)
	}
}

// delta adds text. It is the hot path: it allocates only what the text needs to grow, and log probabilities.
func (e *encoder) delta(ev *reasoning.Event) {
	p := e.text()
	if p == nil {
		return
	}
	p.text, p.piece = append(p.text, ev.Text...), ev.Text
	if p.kind == partOutput {
		p.more.Logprobs = &noLogprobs
		if len(ev.Logprobs) > 0 {
			tokens := wire.Tokens(ev.Logprobs)
			p.more.Logprobs, p.logprobs = &tokens, append(p.logprobs, tokens...)
		}
	}
	e.tell(p.delta, &p.more)
}

// noLogprobs is the list of an output_text's tokens if log probabilities were not requested.
var noLogprobs = []wire.TokenLogprob{}

// text returns the text that is open; nil if there is none.
func (e *encoder) text() *openPart {
	if e.last == nil {
		return nil
	}
	return e.last.text
}

// closePart completes a text, if it is open.
func (e *encoder) closePart(p *openPart) {
	if p == nil || p.closed {
		return
	}
	p.closed = true
	text, ev := string(p.text), p.place
	if c := p.call; c != nil {
		if c.Arguments = text; c.Type == typeCustom {
			ev.Input = &text
		} else {
			ev.Name, ev.Arguments = c.Name, &text
		}
		e.tell(p.done, &ev)
		return
	}
	part := Part{Type: p.kind, Text: text, Logprobs: p.logprobs}
	if ev.Text = &text; p.kind == partOutput {
		ev.Logprobs = new(append(noLogprobs, p.logprobs...))
	}
	*p.to = append(*p.to, part)
	e.tell(p.done, &ev)
	e.tellPart(p, ".done", part)
}

// close closes an item and its open texts.
func (e *encoder) close(o *openItem, status string) {
	if o.closed {
		return
	}
	o.closed = true
	e.closePart(o.text)
	switch item := o.item.(type) {
	case *Message:
		item.Status = status
	case *FunctionCall:
		item.Status = status
	case *Reasoning:
		item.Status = status
	}
	e.tell("response.output_item.done", &ItemEvent{OutputIndex: o.index, Item: o.item})
}

// finish ends a run that was completed.
func (e *encoder) finish(r *reasoning.Result) {
	resp := e.resp
	resp.Usage = newUsage(r.Usage)
	resp.FinishDetail, resp.TraceID, resp.ReasoningUnavailable = r.Detail, r.Trace, r.ReasoningUnavailable
	resp.SummarySource, resp.Score, resp.Rationale = r.SummarySource, contract.Score(r), e.ending.Decisions()
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

// terminate closes what is open and emits the final response. The last item has the status of the response. A summary
// after it is complete.
func (e *encoder) terminate(status, event string) {
	if e.over {
		return
	}
	e.over = true
	last := statusCompleted
	if status != statusCompleted {
		last = statusIncomplete
	}
	e.Release()
	e.carry()
	if e.last != nil {
		e.close(e.last, last)
	}
	if late := e.late; len(late) > 0 {
		e.late, e.last = nil, nil
		for i := range late {
			e.take(&late[i])
		}
		e.close(e.last, statusCompleted)
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

// tell emits an event.
func (e *encoder) tell(name string, ev event) {
	ev.is(name, e.seq)
	if e.seq++; e.emit != nil && e.lost == nil {
		e.lost = e.emit(name, ev)
	}
}
