package decision

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"runner/reasoning"
)

// Debrief is what a run's trace adds up to.
type Debrief struct {
	RunID string `json:"runId"`
	Goal  string `json:"goal"`
	// Path is what the run did, in order, and Why the reasons that were stated for it.
	Path         []Step            `json:"path"`
	Why          []Reason          `json:"whyThisPath"`
	Assumptions  []Assumed         `json:"assumptions"`
	Curator      []CuratorAction   `json:"curator"`
	Alternatives []RejectedAtStep  `json:"alternatives"`
	Termination  *TerminationState `json:"termination"`
	// Verdict is nil for a trace without an end.
	Verdict *Totals `json:"verdict"`
}

// Step is a call or a switch of strategy.
type Step struct {
	// Step counts from 1.
	Step       int    `json:"step"`
	Iter       int    `json:"iter"`
	Decision   string `json:"decision"`
	ToolName   string `json:"toolName,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	callIndex  int
}

// Reason is why a step was taken.
type Reason struct {
	Step int `json:"step"`
	reasoning.Rationale
}

// Assumed is an assumption.
type Assumed struct {
	Iter       int    `json:"iter"`
	Assumption string `json:"assumption"`
	Because    string `json:"because,omitempty"`
}

// CuratorAction is something that the runner kept from the model.
type CuratorAction struct {
	Iter   int    `json:"iter"`
	Action string `json:"action"`
	Reason string `json:"reason,omitempty"`
}

// RejectedAtStep is an option that was not taken; Step is 0 where its step is not in the trace.
type RejectedAtStep struct {
	Step int `json:"step"`
	reasoning.Rejected
}

// TerminationState says what ended the run.
type TerminationState struct {
	By        string `json:"terminatedBy"`
	Rationale string `json:"terminationRationale,omitempty"`
}

const (
	// maxLine is the most bytes of a line of a trace, and maxEvents the most lines.
	maxLine   = 1 << 20
	maxEvents = 100_000
)

// TraceError says where a text is no trace.
type TraceError struct {
	// Line counts from 1.
	Line int
	Err  error
}

func (e *TraceError) Error() string { return fmt.Sprintf("line %d of the trace: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *TraceError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *TraceError) Hint() string { return "give JSON lines as run --output trace writes them" }

// Read reads a trace in JSON lines and returns the debriefs of its runs, in the order in which they began. Events of unknown kinds are left
// out. What is no trace is a *TraceError; other errors are those of reading.
func Read(from io.Reader) ([]*Debrief, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	runs := map[string]*folder{}
	var order []*Debrief
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var e Event
		switch err := json.Unmarshal(text, &e); {
		case err != nil:
			return nil, &TraceError{n, errors.New("it is no trace event")}
		case e.Type == "" || e.RunID == "":
			return nil, &TraceError{n, errors.New("it has no type or no runId")}
		case n > maxEvents:
			return nil, &TraceError{n, fmt.Errorf("there are more than %d lines", maxEvents)}
		}
		run := runs[e.RunID]
		if run == nil {
			run = newFolder(e.RunID)
			runs[e.RunID] = run
			order = append(order, run.debrief)
		}
		run.push(&e)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &TraceError{n + 1, fmt.Errorf("it has more than %d bytes", maxLine)}
	case err != nil:
		return nil, err
	case len(order) == 0:
		return nil, &TraceError{1, errors.New("there is nothing")}
	}
	for _, run := range runs {
		run.finish()
	}
	return order, nil
}

// New returns the debrief of one run's trace events.
func New(events []Event) *Debrief {
	f := newFolder("")
	for i := range events {
		f.debrief.RunID = events[i].RunID
		f.push(&events[i])
	}
	f.finish()
	return f.debrief
}

// folder adds up a run's trace.
type folder struct {
	debrief *Debrief
	// reasons and rejected wait for their steps, which may come later.
	reasons  map[place]reasoning.Rationale
	rejected []rejectedAt
}

// place is which call of which turn something is about. Its id tells it from calls that the run answered by itself.
type place struct {
	iter, call int
	id         string
}

type rejectedAt struct {
	at      place
	options []reasoning.Rejected
}

func newFolder(id string) *folder {
	return &folder{reasons: map[place]reasoning.Rationale{}, debrief: &Debrief{
		RunID: id, Path: []Step{}, Why: []Reason{}, Assumptions: []Assumed{}, Curator: []CuratorAction{}, Alternatives: []RejectedAtStep{},
	}}
}

func (f *folder) push(e *Event) {
	d := f.debrief
	at := place{iter: e.Iter, call: -1, id: e.ToolCallID}
	if e.CallIndex != nil {
		at.call = *e.CallIndex
	}
	if e.Rationale != nil && e.Rationale.Validate() == nil {
		if _, known := f.reasons[at]; !known && at.call >= 0 {
			f.reasons[at] = *e.Rationale
		}
	}
	switch e.Type {
	case RunStarted:
		if d.Goal == "" {
			d.Goal = e.Goal
		}
	case ToolCallStart:
		f.step(Step{Iter: e.Iter, Decision: reasoning.DecisionToolSelection, ToolName: e.ToolName, ToolCallID: e.ToolCallID, callIndex: at.call})
	case StrategySwitched:
		f.step(Step{Iter: e.Iter, Decision: "strategy-switch:" + e.From + "->" + e.To, callIndex: -1})
		if e.Reason != "" {
			d.Why = append(d.Why, Reason{len(d.Path), reasoning.Rationale{Why: e.Reason}})
		}
	case AlternativesConsidered:
		f.rejected = append(f.rejected, rejectedAt{at, e.Alternatives})
	case AssumptionRecorded:
		d.Assumptions = append(d.Assumptions, Assumed{e.Iter, e.Assumption, e.Because})
	case CuratorDecision:
		d.Curator = append(d.Curator, CuratorAction{e.Iter, e.Action, e.Reason})
	case KernelStateSnapshot:
		d.Termination = &TerminationState{e.TerminatedBy, e.TerminationRationale}
	case RunCompleted:
		f.complete(e.Totals)
	}
}

// complete adds up the totals of a run's turns.
func (f *folder) complete(t *Totals) {
	v := f.debrief.Verdict
	switch {
	case t == nil:
		return
	case v == nil:
		totals := *t
		f.debrief.Verdict = &totals
		return
	}
	v.Status = t.Status
	v.TotalTokens += t.TotalTokens
	v.TotalCostUSD += t.TotalCostUSD
	v.DurationMS += t.DurationMS
	v.ToolCalls += t.ToolCalls
	if t.RationaleMissing != nil {
		missing := *t.RationaleMissing
		if v.RationaleMissing != nil {
			missing += *v.RationaleMissing
		}
		v.RationaleMissing = &missing
	}
}

func (f *folder) step(s Step) {
	s.Step = len(f.debrief.Path) + 1
	f.debrief.Path = append(f.debrief.Path, s)
}

// finish attaches reasons and alternatives to their steps.
func (f *folder) finish() {
	d := f.debrief
	steps := map[place]int{}
	switches := d.Why
	d.Why = []Reason{}
	for _, s := range d.Path {
		for len(switches) > 0 && switches[0].Step == s.Step { // they are in the order of the steps
			d.Why = append(d.Why, switches[0])
			switches = switches[1:]
		}
		if s.callIndex < 0 {
			continue
		}
		at := place{s.Iter, s.callIndex, s.ToolCallID}
		if r, ok := f.reasons[at]; ok && steps[at] == 0 {
			d.Why = append(d.Why, Reason{s.Step, r})
		}
		if steps[at] == 0 {
			steps[at] = s.Step
		}
	}
	for _, r := range f.rejected {
		for _, option := range r.options {
			d.Alternatives = append(d.Alternatives, RejectedAtStep{steps[r.at], option})
		}
	}
}
