package decision

import (
	"slices"
	"time"
	"unicode/utf8"

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
	// early are the reasons that came before their calls. The key is the whole call, because calls that the run answers
	// itself have indexes of their own.
	early map[reasoning.Call]*reasoning.Rationale
	// asked says that the model was asked for its reasons. open is a call that has begun and whose reason may still
	// come.
	asked bool
	open  *Event
	calls int
	state State
	begun bool
	over  bool
}

// NewTracer returns a tracer that sends trace events to emit.
func NewTracer(cfg Config, emit func(Event)) *Tracer {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Tracer{
		cfg: cfg, emit: emit, base: Event{RunID: cfg.RunID, Iter: 1}, early: map[reasoning.Call]*reasoning.Rationale{},
		state: State{ToolsUsed: []string{}, StepsByType: map[string]int{}},
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
			t.state.OutputLen += utf8.RuneCountInString(e.Text)
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
	out.Rationale, out.Timestamp = t.early[call], t.now()
	t.open = &out
	if out.Rationale != nil || !t.asked {
		t.close()
	}
}

// close sends the event of the call that waits for its reason.
func (t *Tracer) close() {
	if open := t.open; open != nil {
		t.open = nil
		t.send(*open)
	}
}

func (t *Tracer) decided(call reasoning.Call, d *reasoning.Decision) {
	rationale := d.Rationale
	if t.open != nil {
		if *t.open.CallIndex == call.Index && t.open.ToolCallID == call.ID {
			t.open.Rationale = &rationale
		}
		t.close()
	}
	if call.Index >= t.calls {
		t.early[call] = &rationale
	}
	out := t.call(DecisionEvaluated, call)
	out.DecisionType, out.Rationale = d.Decision, &rationale
	out.Reason, out.Confidence = rationale.Why, rationale.Confidence
	t.send(out)
	if len(rationale.Alternatives) > 0 {
		out := t.call(AlternativesConsidered, call)
		out.Chosen, out.Alternatives = call.Name, rationale.Alternatives
		t.send(out)
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
	e.RunID, e.Iter, e.Seq = t.base.RunID, t.base.Iter, t.base.Seq
	if e.Timestamp == 0 {
		e.Timestamp = t.now()
	}
	t.base.Seq++
	t.emit(e)
}
