package decision

import (
	"time"

	"runner/reasoning"
)

// Config says what a tracer cannot know from events.
type Config struct {
	RunID string
	// Goal is what the user asked for; may be empty.
	Goal string
	// Clock gives the timestamps; nil means time.Now.
	Clock func() time.Time
}

// Tracer makes the trace of one run. It is not safe for use by several goroutines at once.
type Tracer struct {
	cfg  Config
	emit func(Event)
	// base has what all events of the run have; strategy is where the reasoning comes from.
	base     Event
	strategy reasoning.Strategy
	// early are reasons that came before their calls, by what names those: a run may answer calls by itself, which take places of their own.
	early map[reasoning.Call]*reasoning.Rationale
	calls int
	begun bool
	over  bool
}

// NewTracer returns a tracer that sends trace events to emit.
func NewTracer(cfg Config, emit func(Event)) *Tracer {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Tracer{cfg: cfg, emit: emit, base: Event{RunID: cfg.RunID, Iter: 1}, early: map[reasoning.Call]*reasoning.Rationale{}}
}

// Push takes the next event of the run.
func (t *Tracer) Push(e reasoning.Event) {
	switch e.Kind {
	case reasoning.Started:
		t.started(e.Info)
	case reasoning.SegmentStart:
		if e.Segment == reasoning.ToolCall {
			t.calls++
			out := t.call(ToolCallStart, e.Call)
			out.Rationale = t.early[e.Call]
			t.send(out)
		}
	case reasoning.Decided:
		if e.Decision != nil {
			t.decided(e.Call, e.Decision)
		}
	case reasoning.Assumed:
		if e.Assumption != nil {
			t.send(Event{Type: AssumptionRecorded, Assumption: e.Assumption.Text, Because: e.Assumption.Because})
		}
	case reasoning.Curated:
		t.send(Event{Type: CuratorDecision, Action: e.Code, Reason: e.Text})
	case reasoning.StrategySwitched:
		if e.Info != nil {
			t.send(Event{Type: StrategySwitched, From: string(t.strategy), To: string(e.Info.Strategy), Reason: e.Text})
			t.strategy = e.Info.Strategy
		}
	case reasoning.Done:
		if e.Result != nil {
			t.done(e.Result)
		}
	}
}

// End ends the trace of a run that broke off. After Done, and where no run began, it does nothing.
func (t *Tracer) End(cancelled bool) {
	status, why := StatusFailed, "an error ended the run"
	if cancelled {
		status, why = StatusCancelled, "the run was cancelled"
	}
	t.end(status, why, Totals{Status: status})
}

func (t *Tracer) started(info *reasoning.Info) {
	t.begun = true
	out := Event{Type: RunStarted, Goal: t.cfg.Goal}
	if info != nil {
		t.base.Iter, t.strategy = max(1, info.Iteration), info.Strategy
		out.Model, out.Strategy, out.Visibility, out.Effort = info.Model, string(info.Strategy), info.Visibility.String(), string(info.Effort)
		seed := info.Seed
		out.Seed = &seed
	}
	t.send(out)
}

func (t *Tracer) decided(call reasoning.Call, d *reasoning.Decision) {
	rationale := d.Rationale
	if call.Index >= t.calls {
		t.early[call] = &rationale
	}
	out := t.call(DecisionEvaluated, call)
	out.Decision, out.Rationale = d.Decision, &rationale
	t.send(out)
	if len(rationale.Alternatives) > 0 {
		out.Type, out.Rationale, out.Alternatives = AlternativesConsidered, nil, rationale.Alternatives
		t.send(out)
	}
}

func (t *Tracer) done(r *reasoning.Result) {
	u := r.Usage
	totals := Totals{
		Status: StatusCompleted, TotalTokens: u.Prompt + u.Completion + u.Summary, DurationMS: (r.Timing.FirstToken + r.Timing.Decode).Milliseconds(),
	}
	if r.Rationale != nil {
		missing := r.Rationale.Missing
		totals.RationaleMissing = &missing
	}
	reason, why := r.Ending()
	t.end(reason, why, totals)
}

// end tells once how the run ended.
func (t *Tracer) end(by, why string, totals Totals) {
	if t.over || !t.begun {
		return
	}
	t.over = true
	totals.ToolCalls = t.calls
	t.send(Event{Type: KernelStateSnapshot, TerminatedBy: by, TerminationRationale: why})
	t.send(Event{Type: RunCompleted, Totals: &totals})
}

// call is an event about a call.
func (t *Tracer) call(kind Kind, call reasoning.Call) Event {
	index := call.Index
	return Event{Type: kind, CallIndex: &index, ToolCallID: call.ID, ToolName: call.Name}
}

func (t *Tracer) send(e Event) {
	e.RunID, e.Iter, e.Seq, e.Timestamp = t.base.RunID, t.base.Iter, t.base.Seq, t.cfg.Clock().UnixMilli()
	t.base.Seq++
	t.emit(e)
}
