package runner

import (
	"errors"
	"fmt"
	"time"

	"runner/backend"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
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

// blame returns an error that names the field with the form that caused err.
func (m *mask) blame(err error) error {
	e := &generation.RequestError{Field: "Form", Err: err, Advice: hint(err)}
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
