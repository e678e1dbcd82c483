package contract

import (
	"encoding/json"
	"math"

	"runner/generation/delegation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/wire"
)

// Ending collects from the events of a run what its reply reports at the end. The zero value is ready to use.
type Ending struct {
	// Info has the settings in effect; nil until the run has started.
	Info     *reasoning.Info
	Warnings wire.Warnings
	// Sealed has the sealed values of the reasoning, joined.
	Sealed string
	// Result is nil until the run is over.
	Result *reasoning.Result
	// Delegations are the delegations that have ended.
	Delegations []reasoning.Delegation

	decisions reasoning.DecisionLog
	// last is the last instruction that was followed, and active the one of the active specialist.
	last, active string
}

// Note takes the next event. Those of segments have no effect and may be left out.
func (n *Ending) Note(e *reasoning.Event) {
	n.decisions.Push(e)
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil {
			n.Info = e.Info
		}
	case reasoning.Warning:
		n.Warnings.Add(e.Code, e.Text)
	case reasoning.Sealed:
		n.Sealed = seal.Join(n.Sealed, e.Text)
	case reasoning.Instructed:
		n.last = e.Text
	case reasoning.DelegationStart:
		if n.active = ""; e.Delegation != nil && e.Delegation.By == "model" {
			n.active = n.last
		}
	case reasoning.DelegationEnd:
		if e.Delegation != nil {
			n.Delegations = append(n.Delegations, *e.Delegation)
		}
	case reasoning.Done:
		n.Result = e.Result
	}
}

// Decisions returns the decisions of the run, or nil.
func (n *Ending) Decisions() []reasoning.Decision { return n.decisions.Decisions() }

// intermediate is the instruction that marks a message.
var intermediate = json.RawMessage(`{"type":"` + delegation.TypeIntermediate + `"}`)

// Instructions returns the instructions of the run's message. If the run ends in calls of a specialist, they say that
// the message is intermediate and, with visibility full, to whom the model delegated.
func (n *Ending) Instructions() []json.RawMessage {
	switch {
	case !n.Result.Specialist:
		return nil
	case n.active != "":
		return []json.RawMessage{json.RawMessage(n.active), intermediate}
	}
	return []json.RawMessage{intermediate}
}

// Score returns the model's confidence, or nil if there is none or JSON cannot represent it.
func Score(r *reasoning.Result) *float64 {
	if r.Score == nil || math.IsNaN(*r.Score) || math.IsInf(*r.Score, 0) {
		return nil
	}
	return r.Score
}
