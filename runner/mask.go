package runner

import (
	"errors"
	"fmt"
	"time"

	"runner/backend"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/hint"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// mask is the constraint of a turn's lane. It allows the tokens that the turn's family allows next. Only the
// scheduler's goroutine may use it, and the backend during a step.
type mask struct{ turn *turn }

// Allows implements backend.Constraint.
func (m *mask) Allows(t backend.Token) bool { return m.turn.model.Hold().Allows(t) }

// Fill implements backend.Constraint.
func (m *mask) Fill(to backend.Mask) {
	began := time.Now()
	m.turn.model.Hold().Fill(to)
	m.turn.r.maskTime.Add(int64(time.Since(began)))
}

// Prepare implements preparer.
func (m *mask) Prepare(work int) (used int, ready bool, err error) {
	if used, ready, err = m.turn.model.Hold().Prepare(work); err != nil {
		err = m.blame(err)
	}
	return used, ready, err
}

// Form implements backend.Formed.
func (m *mask) Form() (form backend.Form, ok bool) {
	t := m.turn
	f, ok := t.model.Hold().(*hold.Form)
	if !ok || !f.Whole() {
		return form, false
	}
	switch segment := t.model.State().Segment; {
	case segment == reasoning.ToolCall:
		return f.Arguments.Hint()
	case segment == reasoning.Answer && t.strategy != reasoning.StrategyJSON:
		return t.req.Form.Hint()
	}
	return form, false
}

// Follow implements backend.Formed.
func (m *mask) Follow(on bool) { m.turn.followed = on }

// jumps implements branching.
func (m *mask) jumps() int { return m.turn.model.Jumps() }

// branch implements branching.
func (m *mask) branch(to branch) branch {
	return branchOf(m.turn.model.Hold(), m.turn.r, to)
}

// heldBranch is what may come after guesses in a turn.
type heldBranch struct {
	hold.Hold
	r *Runner
}

// branchOf returns a copy of a constraint, or nil. It may reuse to.
func branchOf(h hold.Hold, r *Runner, to branch) branch {
	b, ok := to.(*heldBranch)
	if !ok {
		b = &heldBranch{r: r}
	}
	next := h.Copy(b.Hold)
	if next == nil {
		return nil
	}
	b.Hold = next
	return b
}

func (b *heldBranch) jumps() int { return 0 }

func (b *heldBranch) branch(to branch) branch { return branchOf(b.Hold, b.r, to) }

// Fill implements backend.Constraint.
func (b *heldBranch) Fill(to backend.Mask) {
	began := time.Now()
	b.Hold.Fill(to)
	b.r.maskTime.Add(int64(time.Since(began)))
}

// guarded is the guard of a summary as a constraint that guesses can follow.
type guarded struct{ *filter.Guard }

// Prepare implements preparer. A guard is always ready.
func (guarded) Prepare(int) (used int, ready bool, err error) { return 0, true, nil }

func (guarded) jumps() int { return 0 }

func (g guarded) branch(to branch) branch {
	b, ok := to.(*guarded)
	if !ok {
		b = &guarded{new(filter.Guard)}
	}
	*b.Guard = *g.Guard
	return b
}

// blame returns an error that names the field with the form that caused err.
func (m *mask) blame(err error) error {
	e := &generation.RequestError{Field: "Form", Err: err, Advice: hint.Of(err)}
	if call := (*hold.CallError)(nil); errors.As(err, &call) {
		e.Field, e.Err = "Tools", call.Err
	} else if st := m.turn.model.State(); st.Place == reader.PlaceCall {
		name := st.Call.Name
		if st.InObject {
			name = reasoning.ReportReasoningName
		}
		e.Field, e.Err = "Tools", fmt.Errorf("%s: %w", name, err)
	}
	return e
}
