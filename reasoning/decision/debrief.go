package decision

import (
	"encoding/json"

	"runner/reasoning"
)

// Debrief is the summary of a run's trace.
type Debrief struct {
	RunID string `json:"runId"`
	Goal  string `json:"goal"`
	// Path is what the run did, in order, with the reasons that were stated.
	Path           []Step          `json:"path"`
	Assumptions    []Assumed       `json:"assumptions"`
	CuratorActions []CuratorAction `json:"curatorActions"`
	Alternatives   []Choice        `json:"alternatives"`
	Termination    Termination     `json:"termination"`
	// Verdict is nil for a trace without an end.
	Verdict *Verdict `json:"verdict,omitempty"`
	// RationaleMissing is the number of calls without a stated reason; nil if reasons were not asked for.
	RationaleMissing *int `json:"rationaleMissing,omitempty"`
}

// Step is a call or a switch of strategy.
type Step struct {
	Iter int `json:"iter"`
	// Action is "tool:<name>" or "strategy:<from>→<to>".
	Action    string               `json:"action"`
	Rationale *reasoning.Rationale `json:"rationale,omitempty"`
}

// Assumed is an assumption. The why of its rationale is empty if no reason was stated.
type Assumed struct {
	Iter       int                 `json:"iter"`
	Assumption string              `json:"assumption"`
	Rationale  reasoning.Rationale `json:"rationale"`
}

// CuratorAction is something that the runner withheld from the model.
type CuratorAction struct {
	Iter int `json:"iter"`
	// Action is "dropped" or "compressed", and in traces of other programs also "kept" or "marked-untrusted".
	Action    string              `json:"action"`
	TargetRef string              `json:"targetRef"`
	Rationale reasoning.Rationale `json:"rationale"`
}

// Choice is a decision with the options that were not taken.
type Choice struct {
	Iter     int                  `json:"iter"`
	Chosen   string               `json:"chosen"`
	Rejected []reasoning.Rejected `json:"rejected"`
}

// Termination says what ended the run.
type Termination struct {
	// By is "unknown" if the trace does not say.
	By        string               `json:"by"`
	Rationale *reasoning.Rationale `json:"rationale,omitempty"`
}

// Verdict says how the run ended, with its totals.
type Verdict struct {
	// Status is StatusSuccess, StatusFailure or StatusCancelled.
	Status string `json:"status"`
	// Tokens is the number of tokens of the prompt, the completion and the summary.
	Tokens     int   `json:"tokens"`
	DurationMS int64 `json:"durationMs"`
}

// terminationUnknown is Termination.By if the trace does not say what ended the run.
const terminationUnknown = "unknown"

// New returns the debrief of the trace events of one run. Read returns the same for their JSON lines.
func New(events []Event) *Debrief {
	f := newFolder("")
	for i := range events {
		text, err := json.Marshal(&events[i])
		if err != nil {
			continue // never: an event holds only strings and finite numbers
		}
		e, err := parseEntry(text)
		if err != nil {
			continue // an event without a kind or a run
		}
		f.debrief.RunID = e.RunID
		f.push(e)
	}
	f.finish()
	return f.debrief
}

// folder sums up the trace of a run.
type folder struct {
	debrief *Debrief
	// steps are the indexes of calls in the path. reasons are the reasons that came in separate events, before or after
	// their calls.
	steps   map[place]int
	reasons map[place]*reasoning.Rationale
}

// place is a call of a turn. The id distinguishes it from calls that the run answered itself.
type place struct {
	iter, call int
	id         string
}

func newFolder(id string) *folder {
	return &folder{steps: map[place]int{}, reasons: map[place]*reasoning.Rationale{}, debrief: &Debrief{
		RunID: id, Path: []Step{}, Assumptions: []Assumed{}, CuratorActions: []CuratorAction{},
		Alternatives: []Choice{}, Termination: Termination{By: terminationUnknown},
	}}
}

func (f *folder) push(e *entry) {
	d, iter := f.debrief, int(e.Iter)
	switch e.Kind {
	case RunStarted:
		if d.Goal == "" {
			d.Goal = e.Task
		}
	case ToolCallStart:
		f.call(e)
	case DecisionEvaluated:
		if at, ok := e.place(); ok && f.reasons[at] == nil {
			f.reasons[at] = e.rationale()
		}
	case StrategySwitched:
		d.Path = append(d.Path, Step{iter, "strategy:" + e.From + "→" + e.To, e.rationale()})
	case AlternativesConsidered:
		rejected := e.Alternatives
		if rejected == nil {
			rejected = []reasoning.Rejected{}
		}
		d.Alternatives = append(d.Alternatives, Choice{iter, e.Chosen, rejected})
	case AssumptionRecorded:
		d.Assumptions = append(d.Assumptions, Assumed{iter, e.Assumption, orEmpty(e.rationale())})
	case CuratorDecision:
		d.CuratorActions = append(d.CuratorActions, CuratorAction{iter, e.Action, e.TargetRef, orEmpty(e.rationale())})
	case KernelStateSnapshot:
		// Other programs also take snapshots during the run. Those have no terminatedBy.
		if e.TerminatedBy != "" {
			d.Termination = Termination{By: e.TerminatedBy}
			if r, ok := reasoning.ParseRationale(e.TerminationRationale); ok {
				d.Termination.Rationale = &r
			}
		}
	case RunCompleted:
		f.complete(e)
	}
}

// call adds a call to the path.
func (f *folder) call(e *entry) {
	if at, ok := e.place(); ok {
		if _, known := f.steps[at]; !known {
			f.steps[at] = len(f.debrief.Path)
		}
	}
	f.debrief.Path = append(f.debrief.Path, Step{int(e.Iter), "tool:" + e.ToolName, e.rationale()})
}

// place returns the call that an event is about; ok is false if it names none.
func (e *entry) place() (at place, ok bool) {
	if e.CallIndex == nil || *e.CallIndex < 0 {
		return place{}, false
	}
	return place{int(e.Iter), *e.CallIndex, e.ToolCallID}, true
}

// complete adds up the totals of a run's turns.
func (f *folder) complete(e *entry) {
	d := f.debrief
	if d.Verdict == nil {
		d.Verdict = &Verdict{}
	}
	d.Verdict.Status = e.Status
	d.Verdict.Tokens += int(e.TotalTokens)
	d.Verdict.DurationMS += int64(e.DurationMS)
	if e.RationaleMissing != nil {
		missing := int(*e.RationaleMissing)
		if d.RationaleMissing != nil {
			missing += *d.RationaleMissing
		}
		d.RationaleMissing = &missing
	}
}

// finish attaches the reasons that came in separate events.
func (f *folder) finish() {
	for at, step := range f.steps {
		if s := &f.debrief.Path[step]; s.Rationale == nil {
			s.Rationale = f.reasons[at]
		}
	}
}

// orEmpty returns the rationale, or one without a reason if it is nil.
func orEmpty(r *reasoning.Rationale) reasoning.Rationale {
	if r == nil {
		return reasoning.Rationale{}
	}
	return *r
}
