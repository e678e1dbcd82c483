package decision

import (
	"slices"
	"time"

	"runner/reasoning"
)

// Config holds what a tracer cannot learn from the events.
type Config struct {
	RunID string
	// Goal is what the user asked for. It may be empty.
	Goal string
	// Clock gives the timestamps; nil means time.Now.
	Clock func() time.Time
}

// Tracer makes the trace of one run. It is for one goroutine at a time.
type Tracer struct {
	cfg  Config
	emit func(Event)
	// base holds what all events of the run have in common. strategy is where the reasoning comes from.
	base     Event
	strategy reasoning.Strategy
	// early are the events of reasons whose calls have not come. Calls that the run answers itself never come.
	early []Event
	// asked says that the model was asked for its reasons. open is a call that has begun and whose reason may still
	// come, and ended its end.
	asked       bool
	open, ended *Event
	calls       int
	state       State
	begun       bool
	over        bool
}

// NewTracer returns a tracer that sends trace events to emit.
func NewTracer(cfg Config, emit func(Event)) *Tracer {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Tracer{
		cfg: cfg, emit: emit, base: Event{RunID: cfg.RunID, Iter: 1},
		state: State{ToolsUsed: []string{}, StepsByType: map[string]int{}, LLMCalls: 1},
	}
}

// Push takes the next event of the run.
func (t *Tracer) Push(e reasoning.Event) {
	if e.Kind != reasoning.SegmentDelta && e.Kind != reasoning.SegmentEnd && e.Kind != reasoning.Decided {
		t.close()
	}
	switch e.Kind {
	case reasoning.Started:
		t.started(e.Info)
	case reasoning.SegmentStart:
		if e.Segment == reasoning.ToolCall {
			t.called(e.Call)
		}
	case reasoning.SegmentDelta:
		if e.Segment == reasoning.Answer {
			t.answered(e.Text)
		}
	case reasoning.SegmentEnd:
		if e.Segment == reasoning.ToolCall {
			t.completed(e.Call)
		}
	case reasoning.DelegationStart, reasoning.DelegationEnd:
		if e.Delegation != nil {
			t.delegated(e.Kind, e.Delegation)
		}
	case reasoning.Decided:
		if e.Decision != nil {
			t.decided(e.Call, e.Decision)
		}
	case reasoning.Assumed:
		if a := e.Assumption; a != nil {
			t.send(Event{Kind: AssumptionRecorded, Assumption: a.Text, Rationale: because(a.Because)})
		}
	case reasoning.Curated:
		action, target := reasoning.Curation(e.Code)
		t.send(Event{Kind: CuratorDecision, Action: action, TargetRef: target, Rationale: because(e.Text)})
	case reasoning.StrategySwitched:
		if e.Info != nil {
			t.count("strategy")
			t.send(Event{
				Kind: StrategySwitched, From: string(t.strategy), To: string(e.Info.Strategy),
				Reason: e.Text, Rationale: stated(e.Text),
			})
			t.strategy = e.Info.Strategy
		}
	case reasoning.Done:
		if e.Result != nil {
			t.done(e.Result)
		}
	}
}

// End ends the trace of a run that was cancelled or failed. After Done, or if no run began, it does nothing.
func (t *Tracer) End(cancelled bool) {
	t.close()
	if cancelled {
		t.end(StatusCancelled, StatusCancelled, "the run was cancelled", Totals{})
		return
	}
	t.end(StatusFailure, "error", "an error ended the run", Totals{})
}

func (t *Tracer) started(info *reasoning.Info) {
	t.begun = true
	task := t.cfg.Goal
	out := Event{Kind: RunStarted, Task: &task, Provider: provider, Config: &Settings{}}
	if info != nil {
		t.base.Iter, t.strategy, t.asked = max(1, info.Iteration), info.Strategy, info.Iteration > 0
		out.Model = info.Model
		*out.Config = Settings{
			Strategy: string(info.Strategy), Visibility: info.Visibility.String(), Effort: string(info.Effort),
		}
		seed := info.Seed
		out.Seed = &seed
	}
	t.send(out)
}

// called handles the beginning of a call. If the reason may be among the call's arguments, the event waits for it, so
// that readers find both in one place.
func (t *Tracer) called(call reasoning.Call) {
	t.calls++
	t.count("tool")
	if !slices.Contains(t.state.ToolsUsed, call.Name) {
		t.state.ToolsUsed = append(t.state.ToolsUsed, call.Name)
	}
	out := t.call(ToolCallStart, call)
	out.Timestamp = t.now()
	if i := slices.IndexFunc(t.early, func(e Event) bool { return e.about(call) }); i >= 0 {
		out.Rationale = t.early[i].Rationale
		t.early = slices.Delete(t.early, i, i+1)
	}
	t.open = &out
	if out.Rationale != nil || !t.asked {
		t.close()
	}
}

// completed handles the end of a call, which follows its beginning.
func (t *Tracer) completed(call reasoning.Call) {
	out := t.call(ToolCallEnd, call)
	out.OK, out.Timestamp = true, t.now()
	if t.open == nil {
		t.send(out)
	} else {
		t.ended = &out
	}
}

// about reports whether an event is about a call. Calls that the run answers itself have indexes of their own.
func (e *Event) about(call reasoning.Call) bool {
	return *e.CallIndex == call.Index && e.ToolCallID == call.ID
}

// close sends the events of the call that waits for its reason.
func (t *Tracer) close() {
	open, ended := t.open, t.ended
	t.open, t.ended = nil, nil
	for _, e := range []*Event{open, ended} {
		if e != nil {
			t.send(*e)
		}
	}
}

func (t *Tracer) decided(call reasoning.Call, d *reasoning.Decision) {
	rationale := d.Rationale
	out := t.call(DecisionEvaluated, call)
	out.DecisionType, out.Rationale, out.Timestamp = d.Decision, &rationale, t.now()
	out.Reason, out.Confidence = rationale.Why, rationale.Confidence
	if out.Confidence == nil {
		out.Confidence = new(float64)
	}
	atCall := t.open != nil && t.open.about(call)
	if atCall {
		t.open.Rationale = &rationale
	}
	t.close()
	switch {
	case atCall:
	case call.Index >= t.calls:
		t.early = append(t.early, out)
	default:
		t.send(out)
	}
	if len(rationale.Alternatives) > 0 {
		out := t.call(AlternativesConsidered, call)
		out.Chosen, out.Alternatives = call.Name, rationale.Alternatives
		t.send(out)
	}
}

// withoutCalls sends the reasons whose calls do not come.
func (t *Tracer) withoutCalls() {
	for _, e := range t.early {
		t.send(e)
	}
	t.early = nil
}

// delegated handles the beginning and the end of a specialist, whose events are a run in this one.
func (t *Tracer) delegated(kind reasoning.Kind, d *reasoning.Delegation) {
	t.withoutCalls()
	if kind == reasoning.DelegationEnd {
		t.send(Event{Kind: PhaseExit, Phase: specialist})
		t.base.RunID, t.base.ParentRunID, t.base.RootRunID, t.base.Depth = t.cfg.RunID, "", "", 0
		t.state.LLMCalls += d.Steps
		if d.By == "model" {
			t.state.LLMCalls++ // the turn that called the specialist
		}
		if d.Outcome == reasoning.DelegationPending {
			t.state.LLMCalls-- // no turn follows
		}
		return
	}
	t.base.RunID, t.base.ParentRunID, t.base.RootRunID, t.base.Depth = t.cfg.RunID+"/"+d.ID, t.cfg.RunID, t.cfg.RunID, 1
	t.send(Event{Kind: PhaseEnter, Phase: specialist})
}

// previewed is the maximum length of a State's OutputPreview in characters.
const previewed = 240

// answered counts a piece of the answer.
func (t *Tracer) answered(text string) {
	s := &t.state
	if s.OutputPreview == nil {
		s.OutputPreview = new(string)
	}
	for _, r := range text {
		if s.OutputLen < previewed {
			*s.OutputPreview += string(r)
		}
		s.OutputLen++
	}
}

func (t *Tracer) done(r *reasoning.Result) {
	u := r.Usage
	totals := Totals{
		TotalTokens: u.Prompt + u.Completion + u.Summary,
		DurationMS:  (r.Timing.FirstToken + r.Timing.Decode).Milliseconds(),
	}
	if r.Rationale != nil {
		missing := r.Rationale.Missing
		totals.RationaleMissing = &missing
	}
	reason, why := r.Ending()
	t.end(StatusSuccess, reason, why, totals)
}

// end sends the events for the end of the run, once.
func (t *Tracer) end(status, by, why string, totals Totals) {
	if t.over || !t.begun {
		return
	}
	t.over = true
	t.withoutCalls()
	totals.ToolCalls, t.state.Tokens = t.calls, totals.TotalTokens
	snapshot := Event{
		Kind: KernelStateSnapshot, Status: stateDone, State: &t.state,
		TerminatedBy: by, TerminationRationale: stated(why),
	}
	if status != StatusSuccess {
		snapshot.Status = stateFailed
	}
	t.send(snapshot)
	t.send(Event{Kind: RunCompleted, Status: status, Totals: &totals})
}

// count counts a step of the path.
func (t *Tracer) count(step string) {
	t.state.StepsCount++
	t.state.StepsByType[step]++
}

// call returns an event about a call.
func (t *Tracer) call(kind Kind, call reasoning.Call) Event {
	index := call.Index
	return Event{Kind: kind, CallIndex: &index, ToolCallID: call.ID, ToolName: call.Name}
}

// because returns a rationale. Its reason is empty if why is.
func because(why string) *reasoning.Rationale {
	r := reasoning.NewRationale(why)
	return &r
}

// stated returns a rationale, or nil if why is empty.
func stated(why string) *reasoning.Rationale {
	if why == "" {
		return nil
	}
	return because(why)
}

func (t *Tracer) now() int64 { return t.cfg.Clock().UnixMilli() }

func (t *Tracer) send(e Event) {
	e.RunID, e.ParentRunID, e.RootRunID, e.Depth = t.base.RunID, t.base.ParentRunID, t.base.RootRunID, t.base.Depth
	e.Iter, e.Seq = t.base.Iter, t.base.Seq
	if e.Timestamp == 0 {
		e.Timestamp = t.now()
	}
	t.base.Seq++
	t.emit(e)
}
